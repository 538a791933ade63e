// No command writes over what it reads, or into the folder of a trial.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "experiments/base/files.h"
#include "experiments/base/safetensors.h"
#include "experiments/results/store.h"
#include "tests/experiments/base/text.h"
#include "tests/experiments/cli/program.h"
#include "tests/experiments/cli/two_trials.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

const char* const kRead = "is read by this command";
const char* const kTrial = "is in the folder of a trial";

/// Four trials with an archive of their results; the descriptor extends another file and has a claim.
struct Trained {
  Trained() {
    fs::create_directories(folder / "claims");
    std::ofstream(folder / "claims/base.json") << kTwoTrials;
    std::ofstream(folder / "claims/1-two.json") << R"({"extends": "base.json",
      "sweep": {"train.optimizer.lr": [0.001, 0.1]}, "baseline": {"train.optimizer.lr": 0.001},
      "claim": {"source": "A paper", "says": "It learns.", "scale": "twin",
                "tests": [{"kind": "gain", "metric": "train/loss", "where": "lr = 0.1", "outside": [-1e-6, 1e-6]}]}})";
    succeeds("run claims/1-two.json --threads 1 --out out");
    succeeds("export claims/1-two.json --out out --full -o archives/two.jsonl");
    trial = "out/trials/" + ResultStore(folder / "out").trial_ids().front();
    checkpoint = trial + "/attempt-1/checkpoint.safetensors";
    fs::create_symlink(fs::absolute(folder / checkpoint), folder / "link.safetensors");
    fs::create_symlink(fs::absolute(folder / "claims/base.json"), folder / "link.json");
  }
  Finished call(const std::string& words) const {
    return run_program(folder, words, "cd '" + folder.path().string() + "'; ");
  }
  void succeeds(const std::string& words) const {
    const Finished done = call(words);
    REQUIRE_MESSAGE(done.code == 0, words, ": ", done.err);
  }
  /// The command ends with code 2 and changes no file.
  void refuses(const std::string& words, const std::string& file, const std::string& why) const {
    CAPTURE(words);
    const std::map<std::string, std::string> before = files();
    const Finished done = call(words);
    CHECK(done.code == 2);
    CHECK_MESSAGE(has(done.err, file + ": " + why), done.err);
    CHECK(files() == before);
  }
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const char* part : {"claims", "out", "archives", "copies", "data"})
      for (const fs::path& file : files_below(folder / part)) all[file.string()] = text_of(file);
    return all;
  }
  TemporaryFolder folder;
  std::string trial, checkpoint;
};

const Trained& trained() {
  static const Trained once;
  return once;
}

}  // namespace

TEST_CASE("output: weights are not replaced by what is made of them") {
  const Trained& t = trained();
  t.succeeds("convert " + t.checkpoint + " copies.safetensors");
  fs::create_directories(t.folder / "copies");
  fs::rename(t.folder / "copies.safetensors", t.folder / "copies/vit.safetensors");
  const std::string copy = "copies/vit.safetensors";
  t.refuses("convert " + t.checkpoint + " " + t.checkpoint, t.checkpoint, kRead);
  t.refuses("convert " + t.checkpoint + " link.safetensors", "link.safetensors", kRead);
  t.refuses("convert link.safetensors " + t.checkpoint, t.checkpoint, kRead);
  t.refuses("convert " + copy + " copies/../" + copy, "copies/../" + copy, kRead);
  t.refuses("convert " + copy + " " + t.trial + "/attempt-1/new.safetensors", t.trial + "/attempt-1/new.safetensors",
            kTrial);
  t.refuses("eval " + fs::path(t.trial).filename().string() + " --out out --logits " + t.checkpoint, t.checkpoint,
            kRead);
  t.refuses("eval --weights " + copy + " --logits " + copy, copy, kRead);
  t.refuses("eval --weights " + copy + " --logits " + t.trial + "/logits.npy", t.trial + "/logits.npy", kTrial);

  nlohmann::json index{{"weight_map", nlohmann::json::object()}};
  const SafetensorsFile part = SafetensorsFile::read(t.folder / copy);
  for (const TensorView& tensor : part.tensors()) index["weight_map"][tensor.name] = "vit.safetensors";
  std::ofstream(t.folder / "copies/two.safetensors.index.json") << index;
  t.refuses("convert copies/two.safetensors.index.json " + copy + " --from normlab", copy, kRead);
}

TEST_CASE("output: descriptors, archives and results are not replaced by tables, reports and figures") {
  const Trained& t = trained();
  const std::string two = "claims/1-two.json", base = "claims/base.json", archive = "archives/two.jsonl",
                    result = t.trial + "/result.json";
  for (const std::string command : {"export ", "export --format csv ", "report ", "data preview "}) {
    t.refuses(command + two + " -o " + two, two, kRead);
    t.refuses(command + two + " -o " + base, base, kRead);
    t.refuses(command + two + " -o link.json", "link.json", kRead);
    t.refuses(command + two + " -o " + result, result, kTrial);
  }
  for (const std::string command : {"export --format jsonl ", "report "}) {
    t.refuses(command + two + " --from " + archive + " -o " + archive, archive, kRead);
    t.refuses(command + two + " --from archives -o " + archive, archive, kRead);
  }
  t.refuses("export out -o " + result, result, kTrial);
  t.refuses("report " + two + " --out out -o new.html --svg " + t.trial, t.trial + "/gains.svg", kTrial);
  t.refuses("figures " + two + " --out out -o " + t.trial, t.trial + "/lr_sensitivity.svg", kTrial);
  for (const std::string& file : {two, base}) t.refuses("claims --claims claims --out out -o " + file, file, kRead);
  t.refuses("claims --claims claims --from archives -o " + archive, archive, kRead);
  t.refuses("claims --claims claims --out out -o " + result, result, kTrial);

  fs::create_directories(t.folder / "copies");
  fs::copy_file(t.folder / archive, t.folder / "copies/strip.csv", fs::copy_options::overwrite_existing);
  const Finished drawn = t.call("figures " + two + " --from copies/strip.csv --only strip -o copies");
  CHECK(drawn.code == 2);
  CHECK_MESSAGE(has(drawn.err, std::string("copies/strip.csv: ") + kRead), drawn.err);
  CHECK(text_of(t.folder / "copies/strip.csv") == text_of(t.folder / archive));
}

TEST_CASE("output: other files, links and devices are written as before") {
  const Trained& t = trained();
  const std::string csv = "export --format csv claims/1-two.json --out out -o ";
  const std::string table = t.call(csv + "-").out;
  CHECK(has(table, "eval/accuracy"));
  t.succeeds(csv + "/dev/null");
  CHECK(fs::is_character_file("/dev/null"));
  for (int again = 0; again < 2; ++again) t.succeeds(csv + "new/table.csv");
  fs::create_symlink("new/table.csv", t.folder / "table");
  std::ofstream(t.folder / "new/table.csv") << "old";
  t.succeeds(csv + "table");
  CHECK(fs::is_symlink(t.folder / "table"));
  CHECK(text_of(t.folder / "new/table.csv") == table);
  t.succeeds("export --format csv out -o out/all.csv");  // beside the trials
  t.succeeds("export --format csv claims/1-two.json --from archives -o archives/table.csv");
}
