// A segmentation as a user runs it: images and masks in folders, a table of mIoU, masks written by `eval`, a kill.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "experiments/lab/data/png.h"
#include "experiments/lab/trials/store.h"
#include "tests/lab/base/temporary_folder.h"
#include "tests/lab/cli/program.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

bool says(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

/// Squares of class 2 on class 1, in numbers of the files (0 is ignored), as images of two sizes with masks.
void write_pair(const fs::path& root, const std::string& split, int number) {
  const std::int64_t side = number % 2 == 0 ? 16 : 20, from = number % 5;
  Image image;
  Mask mask;
  image.resize(side, side);
  mask.resize(side, side);
  for (std::int64_t y = 0; y < side; ++y)
    for (std::int64_t x = 0; x < side; ++x) {
      const bool inside = x >= from && x < from + 8 && y >= from && y < from + 8;
      for (int c = 0; c < 3; ++c) image.row(y)[3 * x + c] = static_cast<std::uint8_t>(inside ? 220 : 40);
      mask.labels[static_cast<std::size_t>(y * side + x)] = x == 0 ? 0 : inside ? 2 : 1;
    }
  for (const char* kind : {"images", "masks"}) fs::create_directories(root / "own" / kind / split);
  const std::string name = concat("p", number, ".png");
  write_png(root / "own" / "images" / split / name, image);
  write_png(root / "own" / "masks" / split / name, mask);
}

struct Folder : TemporaryFolder {
  Folder() {
    for (int i = 0; i < 12; ++i) write_pair(path() / "data", "train", i);
    for (int i = 0; i < 12; ++i) write_pair(path() / "data", "test", i);
    std::ofstream(path() / "data" / "own" / "classes.txt") << "ground\nsquare\n";
    std::ofstream(path() / "d.json") << R"({"about": "squares",
      "dataset": {"name": "own", "layout": "image_masks", "masks": "from_one", "mean": [0.4, 0.4, 0.4],
                  "std": [0.3, 0.3, 0.3]},
      "model": {"task": "segment", "image_size": 16, "patch_size": 4, "embed_dim": 16, "depth": 1, "num_heads": 2},
      "train": {"epochs": 30, "batch_size": 6, "optimizer": {"lr": 0.01}, "eval_every_epochs": 10,
                "augment": {"flip": true, "segment": {"scale": [0.8, 1.5], "photometric": true}}},
      "seeds": 2})";
  }
  Finished call(const std::string& words) const {
    return run_program(*this, words + " --out " + (*this / "r").string());
  }
  std::string descriptor() const { return (*this / "d.json").string() + " --data " + (*this / "data").string(); }
};

}  // namespace

TEST_CASE("program: a segmentation is trained, tabled and written as masks") {
  const Folder folder;
  const Finished run = folder.call("run " + folder.descriptor());
  REQUIRE_MESSAGE(run.code == 0, run.err);
  CHECK(says(run.out, "eval/miou [%]"));
  const std::string trial = ResultStore(folder / "r").trial_ids().front();
  const Finished again = folder.call("eval " + trial + " --data-root " + (folder / "data").string());
  CHECK_MESSAGE(says(again.out, "bit-identical to the trial's result"), again.out, again.err);
  const Finished written = folder.call("eval " + trial + " --data-root " + (folder / "data").string() + " --masks " +
                                       (folder / "predicted").string());
  REQUIRE_MESSAGE(written.code == 0, written.err);
  CHECK(says(written.out, "eval/miou"));
  for (int i = 0; i < 4; ++i) {
    const std::string bytes = text_of(folder / "predicted" / concat("p", i, ".png"));
    Mask mask;
    decode_mask_png(FileBytes(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), "p", mask);
    CHECK(mask.width == (i % 2 == 0 ? 16 : 20));
    CHECK(mask.labels[static_cast<std::size_t>((i % 5 + 4) * mask.width + i % 5 + 4)] == 2);  // amid the square
    CHECK(mask.labels.back() == 1);
  }
  const fs::path own = folder / "data/own/masks/test";
  const std::string before = text_of(own / "p0.png");
  const Finished over =
      folder.call("eval " + trial + " --data-root " + (folder / "data").string() + " --masks " + own.string());
  CHECK(over.code == 2);
  CHECK(over.out.empty());
  CHECK_MESSAGE(says(over.err, (own / "p0.png").string() + ": is in a folder that this command reads"), over.err);
  CHECK(text_of(own / "p0.png") == before);
  const fs::path names = folder / "data/own/classes.txt";
  const Finished drawn = run_program(folder, "data preview " + folder.descriptor() + " -o " + names.string());
  CHECK(drawn.code == 2);
  CHECK_MESSAGE(says(drawn.err, names.string() + ": is in a folder that this command reads"), drawn.err);
  const Finished refused = folder.call("eval " + trial + " --logits x.npy");
  CHECK(refused.code != 0);
  CHECK(says(refused.err, "a segmentation network is evaluated on the data of its training"));
  const Finished shots = folder.call("eval --fewshot " + trial + " --data-root " + (folder / "data").string());
  CHECK(shots.code == 2);
  CHECK(shots.out.empty());
  CHECK_MESSAGE(says(shots.err, "few-shot evaluation needs a class for each image"), shots.err);
  const Finished sheet =
      run_program(folder, "data preview " + folder.descriptor() + " -o " + (folder / "sheet.html").string());
  CHECK_MESSAGE(sheet.code == 0, sheet.err);
}

TEST_CASE("program: a killed segmentation ends with the bits of an uninterrupted one") {
  const Folder folder;
  const std::string words = "run " + folder.descriptor() + " --workers 1 --set checkpoint.steps=7 --set seeds=1";
  const auto metrics = [&](const std::string& out) {
    const ResultStore store(folder / out);
    return store.trial(store.trial_ids().front()).load_result()->metrics;
  };
  REQUIRE(run_program(folder, words + " --out " + (folder / "whole").string()).code == 0);
  Program killed(folder, words + " --out " + (folder / "r").string());
  for (int wait = 0; wait < 2000; ++wait) {  // until there is a checkpoint
    const auto ids =
        fs::exists(folder / "r" / "trials") ? ResultStore(folder / "r").trial_ids() : std::vector<std::string>{};
    if (!ids.empty() && fs::exists(ResultStore(folder / "r").trial(ids.front()).checkpoint(1))) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  killed.signal_all(SIGKILL);
  killed.wait();
  REQUIRE(run_program(folder, words + " --out " + (folder / "r").string()).code == 0);
  CHECK(metrics("r") == metrics("whole"));
}

TEST_CASE("program: masks that lack a class, or every class, are refused before the first step") {
  for (const bool one_size : {true, false}) {  // decoded at the start, or in their files
    CAPTURE(one_size);
    const Folder folder;
    const auto masks = [&](const std::string& split, const std::vector<std::uint8_t>& values) {
      for (int i = 0; i < 12; ++i) {
        const std::int64_t side = one_size || i % 2 == 0 ? 16 : 20;
        Image image;
        image.resize(side, side);
        for (std::size_t p = 0; p < image.pixels.size(); ++p) image.pixels[p] = static_cast<std::uint8_t>(p * 7 + i);
        Mask mask;
        mask.resize(side, side);
        for (std::size_t p = 0; p < mask.labels.size(); ++p) mask.labels[p] = values[p % values.size()];
        write_png(folder / "data" / "own" / "images" / split / concat("p", i, ".png"), image);
        write_png(folder / "data" / "own" / "masks" / split / concat("p", i, ".png"), mask);
      }
    };
    const auto refused = [&](const std::string& set, const std::string& what) {
      for (const std::string command : {"check ", "plan ", "run "}) {
        const Finished done = run_program(folder, command + folder.descriptor() + " --set train.epochs=1 " + set +
                                                      (command == "check " ? "" : " --out " + (folder / "r").string()));
        CHECK_MESSAGE(done.code == 2, command, done.out, done.err);
        CHECK_MESSAGE(says(done.err, what), done.err);
      }
      CHECK(!fs::exists(folder / "r" / "trials"));
    };
    const std::string as_stored = "--set dataset.masks=classes ", allowed = "--set dataset.allow_absent_classes=true ";
    masks("train", {0, 255});
    masks("test", {0, 1});
    refused(as_stored,
            "training slice \"train\": no pixel of its masks is square; pixels of 255 are ignored: was 1 meant? "
            "The values of a mask are the numbers of classes; take a larger slice or set allow_absent_classes");
    const Finished run = folder.call("run " + folder.descriptor() + " --set train.epochs=1 " + as_stored + allowed);
    CHECK_MESSAGE(run.code == 0, run.err);
    fs::remove_all(folder / "r");
    refused("", "all pixels of its 12 masks are ignored; with \"masks\": \"from_one\" pixels of 0 are ignored too");
    masks("train", {255});
    refused(as_stored + allowed, "all pixels of its 12 masks are ignored; pixels of 255 are ignored: was 1 meant?");
    masks("train", {0, 1});
    masks("test", {255});
    refused(as_stored, "evaluation slice \"test\": all pixels of its 12 masks are ignored");
    masks("test", {0});  // an evaluation may lack a class
    CHECK(folder.call("run " + folder.descriptor() + " --set train.epochs=1 " + as_stored).code == 0);
  }
}

TEST_CASE("program: data info counts no images per class of pixels") {
  const Folder folder;
  const std::string words = "data info own --layout image_masks --data " + (folder / "data").string();
  const Finished text = run_program(folder, words);
  CHECK_MESSAGE(says(text.out, "  classes   2, of pixels\n"), text.out);
  const auto json = nlohmann::json::parse(run_program(folder, words + " --format json").out);
  CHECK(!json["slices"][0]["classes"][0].contains("images"));
}

TEST_CASE("program: a data set with masks is not packed without them") {
  const Folder folder;
  const Finished packed =
      run_program(folder, "data pack own --layout image_masks --data " + (folder / "data").string() + " --out " +
                              (folder / "packed").string());
  CHECK(packed.code != 0);
  CHECK(says(packed.err, "data pack: layout image_masks has masks"));
}
