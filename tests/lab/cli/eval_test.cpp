// `normlab eval` of a training's own weights.
#include <doctest/doctest.h>

#include "tests/lab/base/text.h"
#include "tests/lab/cli/program.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kNames{"ant", "bee", "cat"};

/// Photographs of many sizes, twelve of each class.
void write_photos(const fs::path& folder, const std::vector<std::string>& names) {
  for (std::size_t c = 0; c < names.size(); ++c)
    for (std::size_t i = 0; i < 12; ++i)
      write_file(folder / names[c] / concat(i, ".png"),
                 make_png(20 + static_cast<int>(i), 24, static_cast<unsigned>(40 * c + i)));
}

/// A training on them with a normalisation and a transform of its own, in two precisions of numbers, with an average.
class Training {
 public:
  explicit Training(const std::string& keep = "last") {
    write_photos(folder / "data" / "photos", kNames);
    write_file(folder / "photos.json", R"({
      "about": "a test",
      "dataset": {"name": "photos", "layout": "image_folder", "train": "train[:50%]", "minival": "train[50%:75%]",
                  "eval": "train[75%:]", "allow_small_eval": true, "mean": [0.4, 0.41, 0.37], "std": [0.2, 0.21, 0.22]},
      "model": {"image_size": 16, "patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2},
      "train": {"steps": 6, "batch_size": 6, "precision": "bf16_emulated", "ema": {"decay": 0.5},
                "augment": {"crop": "stretch"}, "eval_transform": {"crop": "center", "crop_pct": 0.9}},
      "checkpoint": {"keep": ")" + keep + "\"}}");
    run = command("run photos.json --out results --data data");
    for (const auto& entry : fs::directory_iterator(folder / "results" / "trials")) id = entry.path().filename();
  }
  Finished command(const std::string& arguments) const {
    return run_program(folder, arguments, "cd '" + folder.path().string() + "'; ");
  }
  fs::path checkpoint() const { return trial() / "attempt-1" / "checkpoint.safetensors"; }
  fs::path trial() const { return folder / "results" / "trials" / id; }

  TemporaryFolder folder;
  Finished run;
  std::string id;
};

/// One that keeps its last checkpoint, made once. A test that changes photographs or results makes its own.
const Training& trained() {
  static const Training once;
  return once;
}

/// A command that is refused.
void refused(const Finished& done, const std::string& message) {
  CAPTURE(done.err);
  CHECK(done.code == kBadInput);
  CHECK(done.out.empty());
  CHECK(has(done.err, message));
}
Finished evaluate(const std::string& arguments) {
  return trained().command("eval --weights '" + trained().checkpoint().string() + "' " + arguments);
}

}  // namespace

TEST_CASE("eval: the weights of a trial give its result to the bit") {
  for (const std::string keep : {"last", "weights"}) {
    const Training t(keep);
    CAPTURE(t.run.err);
    REQUIRE(t.run.code == 0);
    const Finished by_id = t.command("eval " + t.id.substr(0, 8) + " --data-root data");
    CAPTURE(by_id.err);
    CHECK(by_id.code == 0);
    CHECK(has(by_id.out, "bit-identical to the trial's result"));
    for (const char* metric : {"eval/accuracy", "eval/ema_loss", "minival/loss", "minival/ema_accuracy"})
      CHECK(has(by_id.out, metric));
    CHECK(t.command("eval results/trials/" + t.id + " --data-root data --threads 1").out == by_id.out);
    // A file that lies elsewhere knows as much; it has no result to compare with.
    const fs::path file = keep == "last" ? t.checkpoint() : t.trial() / "attempt-1" / "weights.safetensors";
    fs::copy_file(file, t.folder / "elsewhere.safetensors");
    const std::string metrics = by_id.out.substr(0, by_id.out.find("bit-identical"));
    CHECK(t.command("eval --weights elsewhere.safetensors --data-root data").out == metrics);
    const Finished converted = t.command("convert elsewhere.safetensors converted.safetensors");
    REQUIRE(converted.code == 0);
    const Finished again = t.command("eval --weights converted.safetensors --data-root data");
    CHECK(again.code == 0);
    CHECK(again.out.substr(0, 13) == "eval/accuracy");
    CHECK(has(metrics, again.out.substr(0, again.out.find('\n'))));
  }
}

TEST_CASE("eval: other images get the training's normalisation and transform") {
  const Training& t = trained();
  fs::copy_file(t.checkpoint(), t.folder / "elsewhere.safetensors");
  const Finished own = t.command("eval " + t.id.substr(0, 8) + " --data-root data --slice 'train[75%:]'");
  CAPTURE(own.err);
  CHECK(own.code == 0);
  CHECK(has(own.err, "mean 0.4000 0.4100 0.3700, std 0.2000 0.2100 0.2200 (those of the training)"));
  const Finished other =
      t.command("eval --weights elsewhere.safetensors --data data/photos --layout image_folder --slice 'train[75%:]'");
  CHECK(other.out == own.out);
  const Finished given = t.command(
      "eval --weights elsewhere.safetensors --data data/photos --layout image_folder --slice train --crop stretch "
      "--normalize half");
  CHECK(given.code == 0);
  CHECK(has(given.err, "std 0.5000 0.5000 0.5000 (half)"));
}

TEST_CASE("eval: classes with other names than the training's are refused") {
  write_photos(trained().folder / "renamed", {"ant", "bee", "dog"});
  const std::string renamed = "--data renamed --layout image_folder --slice train";
  const Finished done = evaluate(renamed);
  refused(done, "only here: \"dog\"");
  refused(done, "only in the training: \"cat\"");
  CHECK(evaluate(renamed + " --allow-other-class-names").code == 0);
}

TEST_CASE("eval: an option that nothing would read is refused") {
  for (const char* option : {"--allow-other-class-names", "--layout image_folder", "--labels labels.npy"}) {
    const std::string text(option);
    refused(evaluate(option),
            text.substr(0, text.find(' ')) + ": applies to other images than the training's; give them with --data");
  }
  refused(evaluate("--data images.npy --slice 'test[:1]'"), "--slice: a .npy has no slices");
  refused(evaluate("--crop-pct 0.5"), "--crop-pct, --resize-to, --resize and --rounding: need --crop center");
}

TEST_CASE("eval: fewer classes than the training's are refused") {
  write_photos(trained().folder / "fewer", {"ant", "bee"});
  refused(evaluate("--data fewer --layout image_folder --slice train"),
          "fewer has 2 classes, but the training of this model had 3");
}

TEST_CASE("eval: classes in another order than the training's are refused") {
  const fs::path shards = trained().folder / "shards";
  write_file(shards / "classes.txt", "ant\ncat\nbee\n");
  write_tar(shards / "test-000000.tar", {{"a.png", make_png(16, 16, 1)}, {"a.cls", "0"}});
  refused(evaluate("--data shards --layout webdataset"), "label 1 is \"cat\" here, but \"bee\" in the training");
}

TEST_CASE("eval: a folder with one photograph more than the training's is refused") {
  const fs::path changed = trained().folder / "changed";
  fs::copy(trained().folder / "data", changed, fs::copy_options::recursive);
  write_file(changed / "photos" / "cat" / "13.png", make_png(16, 16, 77));
  refused(evaluate("--data-root changed"), "was trained on data with hash");
}

TEST_CASE("eval: a data set that is not there is named") {
  refused(evaluate("--data cifar10 --data-root data"), "dataset \"cifar10\" was not found");
}

TEST_CASE("eval: a call without weights is refused") {
  CHECK(trained().command("eval").code == kBadInput);
  refused(trained().command("eval nothing"), "neither a trial's folder");
}

TEST_CASE("eval: a trial that keeps no weights says which setting keeps them") {
  const Training t("none");
  const Finished done = t.command("eval " + t.id.substr(0, 8) + " --data-root data");
  CHECK(done.code == kBadInput);
  CHECK(done.out.empty());
  CHECK(has(done.err, "\"checkpoint\": {\"keep\": \"last\"}"));
}
