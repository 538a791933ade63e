// `normlab table` as a process.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "experiments/lab/base/files.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/trials/correctness_file.h"
#include "experiments/lab/trials/store.h"
#include "tests/lab/base/text.h"
#include "tests/lab/cli/program.h"

using namespace normlab;

namespace {

/// Results of three placements, three seeds each, in `folder`/out.
Experiment finished_sweep(const TemporaryFolder& folder) {
  std::ofstream(folder / "small.json") << R"({
    "about": "Which one?", "dataset": {"name": "shapes"},
    "model": {"kind": "vit", "patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2},
    "train": {"steps": 10, "batch_size": 4},
    "sweep": {"model.placement": ["pre_pre", "dpn", "sub_ln"]},
    "baseline": {"model.placement": "pre_pre"}, "seeds": 3})";
  Experiment experiment = load_experiment(folder / "small.json");
  const ResultStore store(folder / "out");
  const double accuracies[] = {0.500, 0.510, 0.505, 0.531, 0.540, 0.536, 0.502, 0.512, 0.508};
  for (std::size_t t = 0; t < experiment.trials.size(); ++t) {
    const Trial& trial = experiment.trials[t];
    TrialResult result;
    result.id = trial.id;
    result.seed = trial.config.seed;
    result.attempt = 1;
    result.metrics = {{"eval/accuracy", accuracies[t]}};
    const TrialFolder on_disk = store.trial(trial.id);
    on_disk.write_config(full_json(trial.config));
    make_folders(attempt_folder(on_disk.path(), 1));
    Correctness bits(1000, "hash");
    for (int i = 0; i < int(1000 * accuracies[t] + 0.5); ++i) bits.set((i * 7 + int(t)) % 1000, true);
    write_correctness(attempt_folder(on_disk.path(), 1) / kCorrectnessFile, bits);
    on_disk.publish_result(result);
  }
  return experiment;
}

std::string arguments(const TemporaryFolder& folder, const std::string& more) {
  return "table '" + (folder / "small.json").string() + "' --out '" + (folder / "out").string() + "' " + more;
}

}  // namespace

TEST_CASE("table command: --last without the selection that reads it is refused") {
  const TemporaryFolder folder;
  finished_sweep(folder);
  for (const char* command : {"table", "report"}) {
    const Finished refused = run_program(folder, concat(command, " '", (folder / "small.json").string(), "' --out '",
                                                        (folder / "out").string(), "' --last 2"));
    CHECK(refused.code == 2);
    CHECK(has(refused.err, "--last: only --select mean_last_k averages evaluations"));
  }
}

TEST_CASE("table command: every format has the accuracy") {
  const TemporaryFolder folder;
  finished_sweep(folder);
  const Finished text = run_program(folder, arguments(folder, ""));
  CAPTURE(text.out);
  CHECK(text.code == 0);
  CHECK(text.err.empty());
  CHECK(has(text.out, "placement  eval/accuracy [%]  gain"));
  CHECK(!has(text.out, "\x1b"));
  for (const char* format : {"markdown", "csv", "latex", "html", "json"}) {
    const Finished other = run_program(folder, arguments(folder, std::string("--format ") + format));
    CHECK(other.code == 0);
    const bool all_digits = std::string(format) == "csv" || std::string(format) == "json";
    CHECK_MESSAGE(has(other.out, all_digits ? "53.56666666" : "53.6"), other.out);
  }
}

TEST_CASE("table command: the table of a folder has all its rows") {
  const TemporaryFolder folder;
  finished_sweep(folder);
  const Finished folders = run_program(folder, "table '" + (folder / "out").string() + "' --format json");
  REQUIRE(folders.code == 0);
  CHECK(nlohmann::json::parse(folders.out)["rows"].size() == 3);
}

TEST_CASE("table command: a folder that is not a results folder is refused") {
  const TemporaryFolder folder;
  finished_sweep(folder);
  CHECK(run_program(folder, "table '" + (folder / "out/trials").string() + "'").code == 2);
}

TEST_CASE("table command: options reach the table") {
  const TemporaryFolder folder;
  finished_sweep(folder);
  const auto out = [&](const std::string& more) { return run_program(folder, arguments(folder, more)).out; };
  CHECK(has(out("--where 'placement=dpn'"), "1 of 3 rows are shown (placement=dpn)"));
  CHECK(has(out("--sort -gain --format csv"), "\ndpn,"));
  CHECK(has(out("--cols placement"), "placement=dpn"));
  CHECK(has(out("--detect 0.5"), "To show a gain of 0.5 percentage points"));
  CHECK(has(out("--equivalent 1"), "equivalent"));
  CHECK(has(out("--bootstrap"), "crossed bootstrap"));
  CHECK(has(out("--set 'sweep={\"model.placement\": [\"pre_pre\", \"dpn\"]}' --set 'seeds=1' --bootstrap"),
            "McNemar's test of the two runs of seed 0"));
}

TEST_CASE("table command: a wrong option is refused with the reason") {
  const TemporaryFolder folder;
  finished_sweep(folder);
  const auto error = [&](const std::string& more) {
    const Finished run = run_program(folder, arguments(folder, more));
    CHECK(run.code == 2);
    CHECK(run.out.empty());
    return run.err;
  };
  CHECK(has(error("--metric eval/acuracy"), "did you mean \"eval/accuracy\"?"));
  CHECK(has(error("--where 'placement = dpn and gian > 1'"), "--where: column 21: unknown axis or column \"gian\""));
  CHECK(has(error("--sort gian"), "did you mean \"gain\"?"));
  CHECK(has(error("--rows placment"), "--rows: unknown axis \"placment\""));
  CHECK(has(error("--equivalent -1"), "--equivalent -1: expected a number above 0"));
  CHECK(has(error("--format xml"), "xml"));
  CHECK(has(error("--format csv --format json"), "--format: is given more than once"));
  CHECK(has(error("--format latex --label tab:a%b"), "only letters, digits, spaces and : - _ . / +"));
  CHECK(has(error("--select best_minival"), "metrics.jsonl"));
}

TEST_CASE("table command: a descriptor that is not there is named") {
  const TemporaryFolder folder;
  const Finished missing = run_program(folder, "table '" + (folder / "none.json").string() + "'");
  CHECK(missing.code == 2);
  CHECK(has(missing.err, "none.json"));
}

TEST_CASE("table command: a damaged result is named beside the other rows") {
  const TemporaryFolder folder;
  const Experiment experiment = finished_sweep(folder);
  const auto damaged = ResultStore(folder / "out").trial(experiment.trials[4].id).path() / "result.json";
  std::ofstream(damaged) << "{\"schema\": 1";
  const Finished run = run_program(folder, arguments(folder, ""));
  CAPTURE(run.out);
  CHECK(run.code == 2);
  CHECK(has(run.err, "dpn: " + damaged.string() + ": byte "));
  CHECK(has(run.out, "1/3 unreadable"));
  CHECK(has(run.out, "sub_ln"));
}
