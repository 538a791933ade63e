// Every option that names an output, found from the command line's own description: what it does to a pipe, a device,
// a link, a folder, a missing folder and a file that the command reads.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "core/words.h"
#include "experiments/lab/data/png.h"
#include "tests/lab/base/own_device.h"
#include "tests/lab/cli/described_options.h"
#include "tests/lab/cli/trained_files.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

/// How a test gives an output: the words before it, and what belongs to it.
struct Named {
  std::string words;
  std::string input{};    // a file that the command reads
  std::string member{};   // of a folder: a file that the command writes there
  std::string ending{};   // that the file's name must have
  bool repeats = true;    // two calls write the same bytes
  bool new_only = false;  // an existing file is refused
};

struct Place : Trained {
  Place() {
    for (const char* split : {"train", "val"})
      for (const std::string label : {"a", "b"})
        for (int i = 0; i < 6; ++i) {
          Image image;
          image.resize(24, 24);
          for (std::size_t p = 0; p < image.pixels.size(); ++p)
            image.pixels[p] = static_cast<std::uint8_t>(p * std::size_t(i + 3) % 251);
          fs::create_directories(folder / "photos" / split / label);
          write_png(folder / "photos" / split / label / concat(i, ".png"), image);
        }
    for (const char* split : {"train", "test"})
      for (int i = 0; i < 2; ++i) {
        Image image;
        Mask mask;
        image.resize(16, 16);
        mask.resize(16, 16);
        for (std::size_t p = 0; p < mask.labels.size(); ++p) mask.labels[p] = p % 16 < 8;
        for (std::size_t p = 0; p < image.pixels.size(); ++p) image.pixels[p] = p % 48 < 24 ? 200 : 40;
        for (const char* kind : {"images", "masks"}) fs::create_directories(folder / "data/own" / kind / split);
        write_png(folder / "data/own/images" / split / concat("p", i, ".png"), image);
        write_png(folder / "data/own/masks" / split / concat("p", i, ".png"), mask);
      }
    std::ofstream(folder / "data/own/classes.txt") << "left\nright\n";
    std::ofstream(folder / "segment.json") << R"({"dataset": {"name": "own", "layout": "image_masks",
      "masks": "classes", "allow_small_eval": true, "mean": [0.5, 0.5, 0.5], "std": [0.3, 0.3, 0.3]},
      "model": {"task": "segment", "image_size": 16, "patch_size": 8, "embed_dim": 8, "depth": 1, "num_heads": 1},
      "train": {"steps": 2, "batch_size": 2}})";
    std::ofstream(folder / "quick.json") << R"({"dataset": {"name": "shapes", "train_images": 200, "eval_images": 50},
      "model": {"patch_size": 8, "embed_dim": 8, "depth": 1, "num_heads": 1}, "train": {"steps": 1, "batch_size": 20}})";
    succeeds("run segment.json --data data --threads 1 --out segments");
    masks = ResultStore(folder / "segments").trial_ids().front();
    succeeds("convert " + checkpoint + " copies/vit.safetensors");
  }
  std::string masks;

  std::map<std::string, Named> outputs() const {
    const std::string two = "claims/1-two.json", id = fs::path(trial).filename().string();
    return {
        {"init -o", {.words = "init photos -o", .new_only = true}},
        {"run --json-progress", {.words = "run " + two + " --out out --json-progress", .input = two, .repeats = false}},
        {"run --tensorboard", {.words = "run " + two + " --out out --tensorboard"}},
        {"run --out", {.words = "run quick.json --threads 1 --out", .member = "experiments/quick/plan.json"}},
        {"claims -o, --output", {.words = "claims --claims claims --out out -o", .input = two}},
        {"report -o, --output", {.words = "report " + two + " --out out -o", .input = two, .repeats = false}},
        {"report --svg", {.words = "report " + two + " --out out -o page.html --svg", .member = "gains.svg"}},
        {"convert OUT",
         {.words = "convert copies/vit.safetensors", .input = "copies/vit.safetensors", .ending = ".safetensors"}},
        {"eval --logits", {.words = "eval " + id + " --out out --logits", .input = checkpoint}},
        {"eval --predictions", {.words = "eval " + id + " --out out --predictions", .input = checkpoint}},
        {"eval --confusion", {.words = "eval " + id + " --out out --confusion", .input = checkpoint}},
        {"eval --masks", {.words = "eval " + masks + " --out segments --data-root data --masks", .member = "p0.png"}},
        {"data preview -o, --output", {.words = "data preview " + two + " --images 2 -o", .input = two}},
        {"data pack --out",
         {.words = "data pack photos --layout image_folder --slice train --out", .member = "classes.txt"}},
        {"report --figures", {.words = "report " + two + " --out out --only strip --figures", .member = "strip.svg"}},
        {"export -o, --output", {.words = "export " + two + " --out out --format csv -o", .input = two}},
        {"merge --out", {.words = "merge archives/two.jsonl --out", .member = "trials"}},
    };
  }
  /// A new folder for one case, and the name of a file or folder in it.
  std::string fresh(const Named& output) const {
    static int number = 0;
    const std::string at = concat("case-", number++);
    fs::create_directory(folder / at);
    return at + "/to" + output.ending;
  }
  Finished write(const Named& output, const std::string& to) const { return call(output.words + " '" + to + "'"); }
  /// What a reader of the pipe gets from the command, which ends with 0.
  std::string through_pipe(const Named& output, const std::string& pipe, const std::string& to) const {
    REQUIRE(::mkfifo((folder / pipe).c_str(), 0600) == 0);
    const std::string into = (folder / "read").string();
    fs::remove(into);
    const Finished done = run_program(folder, output.words + " '" + to + "'",
                                      "cd '" + folder.path().string() + "'; { timeout 60 cat '" + pipe + "' > '" +
                                          into + ".part'; mv '" + into + ".part' '" + into + "'; } & ");
    CHECK_MESSAGE(done.code == 0, done.err);
    CHECK(fs::is_fifo(fs::symlink_status(folder / pipe)));
    for (int i = 0; i < 500 && !fs::exists(into); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const std::string read = text_of(into);
    CHECK(!read.empty());
    return read;
  }
  /// Ends with code 2 and `why`; nothing below the case's folder changes.
  void refused(const Named& output, const std::string& to, const std::string& why) const {
    const auto below = [&] {
      std::map<std::string, std::string> all;
      if (to.find('/') == to.npos || !fs::exists((folder / to).parent_path())) return all;
      for (const auto& entry : fs::recursive_directory_iterator((folder / to).parent_path()))
        all[entry.path().string()] = fs::is_regular_file(entry.symlink_status()) ? text_of(entry.path()) : "";
      return all;
    };
    const auto before = below();
    const Finished done = write(output, to);
    CHECK_MESSAGE(done.code == 2, to << ": " << done.err);
    CHECK_MESSAGE(has(done.err, why), done.err);
    CHECK(below() == before);
  }
};

const Place& place() {
  static const Place once;
  return once;
}

/// Options whose text is no output. Those that name a path are for reading.
const std::set<std::string> kNoOutputs = {"--data",     "--set",       "--from",
                                          "--out",      "--metric",    "--where",
                                          "--sort",     "--rows",      "--cols",
                                          "--caption",  "--label",     "--model",
                                          "--slice",    "--labels",    "--data-root",
                                          "--weights",  "--placement", "--shape",
                                          "--shards",   "--only",      "--sites",
                                          "--curves",   "--claims",    "--start",
                                          "--share",    "--device",    "--class-order",
                                          "DESCRIPTOR", "FOLDER",      "WHAT",
                                          "TRIAL",      "DATASET",     "A",
                                          "B",          "ID",          "IN",
                                          "RUN",        "SOURCES",     "NUMBERS",
                                          "--op",       "--formula",   "--gpu-algorithms",
                                          "--order",    "--width",     "--columns"};

}  // namespace

TEST_CASE("every output: each option is known to be one or not") {
  std::set<std::string> described;
  for (const DescribedOption& option : described_options()) {
    CAPTURE(option.command);
    CAPTURE(option.name);
    if (option.type == "FILE" || option.type == "FOLDER")
      described.insert(option.command + " " + option.name);
    else if (option.type == "TEXT")
      CHECK_MESSAGE(kNoOutputs.contains(option.name),
                    "a text that may name an output: declare it with Option::output(), or list it here");
  }
  std::set<std::string> tested{"bench gemm --tune"};  // by gpu_algorithms_test.cpp, since it takes a GPU
  for (const auto& [name, output] : place().outputs()) tested.insert(name);
  CHECK(described == tested);
}

TEST_CASE("every output: streams, links, folders and inputs") {
  const Place& p = place();
  const auto outputs = p.outputs();
  for (const DescribedOption& option : described_options()) {
    const std::string name = option.command + " " + option.name;
    const auto found = outputs.find(name);
    if ((option.type != "FILE" && option.type != "FOLDER") || found == outputs.end()) continue;
    CAPTURE(name);
    const Named& output = found->second;
    const bool folder = option.type == "FOLDER";
    p.refused(output, "", "must not be empty; give a path");
    const auto path = [&](const std::string& file) { return p.folder / file; };

    const std::string missing = p.fresh(output) + "-missing/below/to" + output.ending;
    const Finished made = p.write(output, missing);
    CHECK_MESSAGE(made.code == 0, made.err);
    CHECK(fs::exists(path(missing)));
    const std::string bytes = folder ? "" : text_of(path(missing));

    const std::string device = p.fresh(output);
    const bool has_device = make_device(path(device), kNullDevice);
    if (!has_device) MESSAGE("skipped: no device can be made");
    if (folder) {
      if (has_device) p.refused(output, device, "is not a folder");
      const std::string pipe = p.fresh(output), file = p.fresh(output), link = p.fresh(output);
      REQUIRE(::mkfifo(path(pipe).c_str(), 0600) == 0);
      p.refused(output, pipe, "is not a folder");
      std::ofstream(path(file)) << "kept";
      p.refused(output, file, "is not a folder");
      fs::create_symlink(fs::absolute(path(file)), path(link));
      p.refused(output, link, "is not a folder");
      p.refused(output, "-", "not standard output");
      const std::string target = p.fresh(output);
      fs::create_directory(path(target));
      fs::create_directory_symlink(fs::absolute(path(target)), path(target + "-link"));
      const Finished linked = p.write(output, target + "-link");
      CHECK_MESSAGE(linked.code == 0, linked.err);
      CHECK(fs::is_symlink(path(target + "-link")));
      CHECK(!fs::is_empty(path(target)));
      if (!output.member.empty()) CHECK(fs::exists(path(target) / output.member));
      if (output.member.ends_with(".svg") || output.member.ends_with(".png")) {
        const std::string around = p.fresh(output);
        fs::create_directory(path(around));
        CHECK(p.through_pipe(output, around + "/" + output.member, around) == text_of(path(target) / output.member));
      }
      continue;
    }

    if (has_device) {
      const Finished done = p.write(output, device);
      CHECK_MESSAGE(done.code == 0, done.err);
      CHECK(fs::is_character_file(fs::symlink_status(path(device))));
    }
    const std::string pipe = p.fresh(output);
    const std::string read = p.through_pipe(output, pipe, pipe);
    if (output.repeats) CHECK(read == bytes);

    const std::string link = p.fresh(output), target = link + "-target" + output.ending;
    fs::create_symlink(fs::absolute(path(target)), path(link));
    CHECK(p.write(output, link).code == 0);
    CHECK(fs::is_symlink(path(link)));
    CHECK(!text_of(path(target)).empty());
    if (output.new_only) {
      p.refused(output, link, "exists already");
    } else {
      std::ofstream(path(target)) << "old";
      CHECK(p.write(output, link).code == 0);
      CHECK(fs::is_symlink(path(link)));
      CHECK(text_of(path(target)).size() > 10);
    }
    const std::string taken = p.fresh(output);
    fs::create_directory(path(taken));
    std::ofstream(path(taken) / "inside") << "kept";
    p.refused(output, taken, output.new_only ? "exists already" : "is a folder");
    if (!output.input.empty()) p.refused(output, output.input, "is read by this command");

    // The shell's own stream: appended to, and neither replaced nor written from its start.
    const std::string log = p.fresh(output) + ".log";
    std::ofstream(path(log)) << "kept\n";
    const std::string stream = log + "-link" + output.ending;
    fs::create_symlink("/proc/self/fd/7", path(stream));
    const Finished appended = run_program(p.folder, output.words + " '" + stream + "'",
                                          "cd '" + p.folder.path().string() + "'; exec 7>>'" + log + "'; ");
    CHECK_MESSAGE(appended.code == 0, appended.err);
    CHECK(text_of(path(log)).starts_with("kept\n"));
    CHECK(text_of(path(log)).size() > 10);
    if (output.repeats) CHECK(text_of(path(log)) == "kept\n" + bytes);

    if (option.what.find("-: standard output") != std::string::npos) {
      const Finished shown = p.write(output, "-");
      CHECK_MESSAGE(shown.code == 0, shown.err);
      if (output.repeats) CHECK(shown.out == bytes);
    } else if (option.what.find("-: to standard error") == std::string::npos) {
      p.refused(output, "-", "not standard output");
    }
    CHECK(!fs::exists(path("-")));
  }
}
