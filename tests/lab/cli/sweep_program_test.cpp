// The whole program on sweeps that change or have stages: which trials run again, are new or are missing.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "experiments/lab/base/files.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/sweep/plan_file.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/store.h"
#include "tests/lab/cli/program.h"
#include "tests/lab/cli/two_trials.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

std::string small(const std::string& rest) {
  return R"({"about": "a test", "dataset": {"name": "shapes", "train_images": 60, "eval_images": 20},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2},
  "train": {"epochs": 1, "batch_size": 20, "optimizer": {"lr": 0.001}},
  )" + rest +
         "}";
}

std::string write(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder / name) << text;
  return (folder / name).string();
}

bool says(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

/// Two rows of two seeds, of which one is trained, once.
struct HalfDone {
  TemporaryFolder folder;
  std::string out = " --out " + (folder / "r").string();
  std::string a = write(folder, "a.json", small(R"("sweep": {"model.placement": ["pre_pre", "dpn"]}, "seeds": 2)"));
  HalfDone() { REQUIRE(call("run " + a + " --set seeds=1").code == 0); }
  Finished call(const std::string& words) const { return run_program(folder, words + out); }
  std::vector<std::string> ids() const { return ResultStore(folder / "r").trial_ids(); }
};
const HalfDone& half_done() {
  static const HalfDone once;
  return once;
}
std::string short_id(const Trial& trial) { return trial.id.substr(0, 12); }

std::size_t trials_on_disk(const TemporaryFolder& folder) { return ResultStore(folder / "r").trial_ids().size(); }

}  // namespace

TEST_CASE("program: a trial of two descriptors is trained once") {
  const TemporaryFolder folder;
  const std::string out = " --out " + (folder / "r").string();
  const std::string a =
      write(folder, "a.json", small(R"("sweep": {"model.placement": ["pre_pre", "dpn"]}, "seeds": 3)"));
  REQUIRE(run_program(folder, "run " + a + out).code == 0);
  CHECK(trials_on_disk(folder) == 6);
  // Another file, other words for the same settings, one row in common.
  const std::string b = write(folder, "b.json", R"({"extends": "a.json", "train": {"epochs": 1.0},
    "model": {"placement": "dpn"}, "sweep": {"train.optimizer.lr": [1e-3, 2e-3]}, "seeds": [2, 0]})");
  const Finished shared = run_program(folder, "run " + b + out);
  CHECK_MESSAGE(says(shared.err, "4 of 4 trials done (2 before)"), shared.err);
  CHECK(trials_on_disk(folder) == 8);
}

TEST_CASE("program: a descriptor that has changed runs its new trials alone") {
  const TemporaryFolder folder;
  const std::string out = " --out " + (folder / "r").string();
  const std::string a =
      write(folder, "a.json", small(R"("sweep": {"model.placement": ["pre_pre", "dpn"]}, "seeds": 3)"));
  REQUIRE(run_program(folder, "run " + a + out).code == 0);
  CHECK(trials_on_disk(folder) == 6);
  // Raised seeds.
  const Finished more = run_program(folder, "run " + a + " --set seeds=5" + out);
  CHECK_MESSAGE(says(more.err, "10 of 10 trials done (6 before)"), more.err);
  CHECK(says(more.err,
             "a: since the last run 4 trials are new (pre_pre, seed 3; pre_pre, seed 4; dpn, seed 3; dpn, "
             "seed 4)"));
  // A value more, another one gone: the plan says so before anything runs, and what is gone stays.
  write(folder, "a.json", small(R"("sweep": {"model.placement": ["dpn", "sub_ln"]}, "seeds": 5)"));
  const Finished plan = run_program(folder, "plan " + a + out);
  CHECK(says(plan.out, "2 rows, 10 trials; 5 done already\n"));
  CHECK(says(plan.out, "Changed: since the last run 5 trials are new (sub_ln, seed 0;"));
  CHECK(says(plan.out, "5 are no longer part of the plan and"));
  CHECK(says(plan.out, "\n  1 dpn: seeds 0-4 done "));
  CHECK(says(plan.out, "\n  2 sub_ln, less than a second: seeds 0-4 missing, new "));
  const std::string note = "5 trials of the last run of a have results and are not in this plan (pre_pre, seed 0; ";
  CHECK(says(run_program(folder, "status " + a + out).err, note));
  CHECK(says(run_program(folder, "table " + a + out).err, note));
  const Finished edited = run_program(folder, "run " + a + out);
  CHECK_MESSAGE(says(edited.err, "10 of 10 trials done (5 before)"), edited.err);
  CHECK(trials_on_disk(folder) == 6 + 4 + 5);
  CHECK_FALSE(says(run_program(folder, "run " + a + out).err, "since the last run"));
  CHECK_FALSE(says(run_program(folder, "table " + a + out).err, "last run"));
}

TEST_CASE("missing: trials without a result are listed") {
  const HalfDone& sweep = half_done();
  const Finished missing = sweep.call("status --missing " + sweep.a);
  CHECK(missing.code == 0);
  CHECK(std::count(missing.out.begin(), missing.out.end(), '\n') == 2);
  CHECK(says(missing.out, "missing"));
  CHECK(says(missing.out, "  pre_pre, seed 1\n"));
  CHECK(says(missing.out, "  dpn, seed 1\n"));
  CHECK(says(missing.err, "2 of 4 trials without a result: 2 missing\n"));
  CHECK(sweep.call("status --missing " + sweep.a + " --set seeds=1").out == "");
}

TEST_CASE("program: every command rounds a trial's progress down") {
  const TemporaryFolder folder;
  const std::string file = (folder / "small.json").string(), out = " --out " + (folder / "out").string();
  std::ofstream(file) << kTwoTrials;
  const Trial trial = load_experiment(file).trials.front();
  const TrialFolder stopped = ResultStore(folder / "out").trial(trial.id);
  stopped.write_config(full_json(trial.config));
  make_folders(attempt_folder(stopped.path(), 1));
  MetricsLog(stopped.metrics(1)).append({16, 16 / 60.0, {{"train/loss", 2.0}}});  // 26.7%
  for (const std::string& command :
       {"status " + file, "status --missing " + file, "table " + file, "list " + trial.id}) {
    const Finished done = run_program(folder, command + out);
    CHECK_MESSAGE(done.out.find("26%") != std::string::npos, command << "\n" << done.out << done.err);
  }
}

TEST_CASE("missing: --ids prints whole ids alone") {
  const HalfDone& sweep = half_done();
  const Experiment e = load_experiment(sweep.a);
  CHECK(sweep.call("status --missing " + sweep.a + " --ids").out == e.trials[1].id + "\n" + e.trials[3].id + "\n");
}

TEST_CASE("find: the beginning of an id is enough to show its trial") {
  const HalfDone& sweep = half_done();
  REQUIRE(sweep.ids().size() == 2);
  const std::string id = sweep.ids()[0];
  const Finished found = sweep.call("list " + id.substr(0, 10));
  CHECK(says(found.out, id + "\n  state   done\n  plan    a (" + sweep.a + "): "));
  CHECK(says(found.out, "  metric  eval/accuracy "));
  CHECK(says(found.out, "\"embed_dim\": 16"));
}

TEST_CASE("find: what begins no trial's id is refused") {
  const Finished none = half_done().call("list 0123456789");
  CHECK(none.code == 2);
  CHECK(says(none.err, "has an id that begins with 0123456789"));
  const Finished wrong = half_done().call("list xyz");
  CHECK(wrong.code == 2);
  CHECK(says(wrong.err, "\"xyz\" is not the beginning of a trial's id"));
}

TEST_CASE("diff: of two trials only what differs is shown") {
  const HalfDone& sweep = half_done();
  const Experiment e = load_experiment(sweep.a);
  const Finished diff = sweep.call("explain " + short_id(e.trials[0]) + " " + short_id(e.trials[2]));
  REQUIRE_MESSAGE(diff.code == 0, diff.err);
  CHECK(says(diff.out, "config\n  model.placement.stem.patch_in"));
  CHECK_FALSE(says(diff.out, "model.placement.stem.patch_in.kind"));  // one line for a norm that one side lacks
  CHECK(says(diff.out, "formula\n  stem"));
  CHECK(says(diff.out, "  parameters "));
  CHECK(says(diff.out, "metrics\n"));
  CHECK_FALSE(says(diff.out, "seed"));
  CHECK_FALSE(says(diff.out, "environment"));
  CHECK_FALSE(says(diff.out, "train.optimizer"));
}

TEST_CASE("diff: two ids of one trial are named as such") {
  const std::string id = half_done().ids()[0];
  CHECK(says(half_done().call("explain " + id + " " + id).out, "both ids name trial "));
}

TEST_CASE("diff: a trial that was never trained is refused") {
  const Experiment e = load_experiment(half_done().a);
  CHECK(half_done().call("explain " + short_id(e.trials[1]) + " " + short_id(e.trials[0])).code == 2);
}

TEST_CASE("diff: two descriptors are compared by rows and settings") {
  const HalfDone& sweep = half_done();
  const std::string &a = sweep.a,
                    b = write(sweep.folder, "b.json", R"({"extends": "a.json", "train": {"batch_size": 10},
    "sweep": {"model.placement": ["dpn", "sub_ln"]}, "seeds": 3})");
  const Finished files = sweep.call("explain " + a + " " + b);
  REQUIRE_MESSAGE(files.code == 0, files.err);
  CHECK(says(files.out, "0 trials in both, 4 only in " + a + ", 6 only in " + b + "\n"));
  CHECK(says(files.out, "rows in only one of the two\n  pre_pre"));
  CHECK(says(files.out, "train.batch_size                   20 -> 10\n"));
  CHECK(says(files.out, "seeds                              0 1 -> 0 1 2\n"));
}

TEST_CASE("diff: a descriptor and a trial are not compared") {
  CHECK(half_done().call("explain " + half_done().a + " " + half_done().ids()[0]).code == 2);
}

TEST_CASE("program: two processes of a tuned sweep choose once") {
  const TemporaryFolder folder;
  const std::string out = " --out " + (folder / "r").string();
  const std::string file = write(folder, "tuned.json", small(R"("sweep": {"model.placement": ["pre_pre", "dpn"]},
  "tune": [{"axes": {"train.optimizer.lr": [1e-4, 1e-2]}, "dataset": {"train": "train[:40]", "eval": "train[40:]"}}],
  "seeds": 2, "baseline": {"model.placement": "pre_pre"})"));
  const Finished before = run_program(folder, "plan " + file + out);
  CHECK_MESSAGE(says(before.out, "2 rows, 8 trials, 4 of them to tune; 0 done already\n"), before.err);
  CHECK(says(before.out, "To come: 4 trials of the table for 2 rows still being tuned\n"));
  CHECK_MESSAGE(says(before.out, "\n0 of 8 done\n"), before.out);
  CHECK_MESSAGE(says(before.out, ": 2 to come\n"), before.out);
  CHECK(says(run_program(folder, "check " + file).out, ": fine, 2 rows, 8 trials, 4 of them to tune\n"));
  const Finished status = run_program(folder, "status " + file + out + " --format json");
  const nlohmann::json to_come = nlohmann::json::parse(status.out)["to_come"];
  CHECK(to_come == nlohmann::json{{"trials", 4}, {"at_most", 4}});
  CHECK(says(run_program(folder, "status " + file + out).out, "; to come: 4 trials of the table for 2 rows still "));
  CHECK(says(run_program(folder, "status --missing " + file + out).err,
             " finished: 4 trials of the table for 2 rows still "));
  const Finished script = run_program(folder, "plan " + file + out + " --format slurm --hours 1");
  CHECK(says(script.out, "# 4 more follow from their results; plan and submit them afterwards.\n"));
  const Finished commands = run_program(folder, "plan " + file + out + " --format commands");
  CHECK(says(commands.err, "4 more follow from their results; plan and submit them afterwards\n"));
  const Program first(folder, "run " + file + out + " --workers 1"),
      second(folder, "run " + file + out + " --workers 1");
  const Finished a = first.wait(), b = second.wait();
  CHECK_MESSAGE(a.code == 0, a.err);
  CHECK_MESSAGE(b.code == 0, b.err);
  CHECK(says(a.err, "8 of 8 trials done"));
  CHECK(says(b.err, "8 of 8 trials done"));
  CHECK(a.out == b.out);
  CHECK(trials_on_disk(folder) == 8);
  std::size_t decisions = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder / "r/experiments/tuned/fixed")) ++decisions;
  CHECK(decisions == 2);
  CHECK(says(run_program(folder, "plan " + file + out).out, "2 rows, 8 trials, 4 of them to tune; 8 done already\n"));
  CHECK(run_program(folder, "status --missing " + file + out).out == "");
}

TEST_CASE("program: two-stage seeds run to the number that the first seeds fix") {
  const TemporaryFolder folder;
  const std::string out = " --out " + (folder / "r").string();
  const std::string file = write(folder, "stein.json", small(R"("sweep": {"model.placement": ["pre_pre", "dpn"]},
  "seeds": {"first": 2, "max": 4, "gain_halfwidth": 0.01}, "baseline": {"model.placement": "pre_pre"})"));
  CHECK(says(run_program(folder, "check " + file).out, ": fine, 2 rows, 4 to 8 trials\n"));
  const Finished before = run_program(folder, "plan " + file + out + " --gflops 0.001", "export COLUMNS=200; ");
  CHECK_MESSAGE(says(before.out, "2 rows, 4 to 8 trials; 0 done already\n"), before.err);
  CHECK_MESSAGE(says(before.out, " with all seeds, on "), before.out);
  CHECK(says(before.out, ", up to "));
  const Finished run = run_program(folder, "run " + file + out);
  CHECK_MESSAGE(run.code == 0, run.err);
  CHECK_MESSAGE(says(run.err, "8 of 8 trials done (0 before)"), run.err);
  CHECK(trials_on_disk(folder) == 8);
  const Finished again = run_program(folder, "run " + file + out);
  CHECK(says(again.err, "8 of 8 trials done (8 before)"));
  CHECK_FALSE(says(again.err, "since the last run"));
}

TEST_CASE("plan: one seed per row is warned of") {
  const TemporaryFolder folder;
  const std::string out = " --out " + (folder / "r").string();
  const std::string one = write(folder, "one.json", small(R"("sweep": {"model.placement": ["pre_pre", "dpn"]})"));
  CHECK(says(run_program(folder, "plan " + one + out).out,
             "Warning: with one seed per row the noise is unknown, so no gain can be judged;\nset \"seeds\"\n"));
  // A tuned row has none of these trials yet.
  const std::string tuned = R"("sweep": {"model.placement": ["pre_pre", "dpn"]}, "tune": [{"axes":
    {"train.optimizer.lr": [1e-3, 1e-2]}, "dataset": {"train": "train[:50%]", "eval": "train[50%:]"}}], "seeds": )";
  CHECK(says(run_program(folder, "plan " + write(folder, "tuned.json", small(tuned + "1")) + out).out,
             "Warning: with one seed per row the noise is unknown"));
  CHECK_FALSE(
      says(run_program(folder, "plan " + write(folder, "three.json", small(tuned + "3")) + out).out, "one seed"));
}

TEST_CASE("plan: rows without a baseline are warned of") {
  const TemporaryFolder folder;
  const std::string out = " --out " + (folder / "r").string();
  const std::string lone = write(folder, "lone.json", small(R"("sweep": [
    {"model.placement": ["pre_pre", "dpn"], "model.depth": [1]}, {"model.placement": ["dpn"], "model.depth": [2]}],
    "seeds": 2, "baseline": {"model.placement": "pre_pre"})"));
  CHECK(says(run_program(folder, "plan " + lone + out).out, "Warning: 1 of 3 rows have no baseline to compare with\n"));
}

TEST_CASE("list: a folder in which nothing has run is named as such") {
  const TemporaryFolder folder;
  CHECK(says(run_program(folder, "list --out " + (folder / "r").string()).out, "no experiment has run here"));
}

TEST_CASE("list: each experiment is listed with the states of its trials") {
  const TemporaryFolder folder;
  const std::string out = " --out " + (folder / "r").string();
  const std::string a =
      write(folder, "a.json", small(R"("sweep": {"model.placement": ["pre_pre", "dpn"]}, "seeds": 2)"));
  REQUIRE(run_program(folder, "run " + a + " --max-trials 3" + out).code == 0);
  const std::string b = write(folder, "b.json", small(R"("seeds": [7])"));
  REQUIRE(run_program(folder, "run " + b + out).code == 0);
  const Finished listed = run_program(folder, "list" + out);
  CHECK(listed.code == 0);
  CHECK_MESSAGE(says(listed.out, "a: 4 trials, 3 done, 1 missing\n"), listed.out);
  CHECK(says(listed.out, "b: 1 trial, 1 done\n"));
  REQUIRE(run_program(folder, "run " + b + " --set seeds=[8]" + out).code == 0);
  CHECK(says(run_program(folder, "list" + out).out, "1 trial of earlier plans"));
  CHECK(says(run_program(folder, "list --format json" + out).out, "\"trials_of_earlier_plans\": 1"));
  // A damaged result hides no other trial.
  const ResultStore store(folder / "r");
  for (const PlanFile& plan : read_plan_files(store))
    if (plan.stem == "b") std::ofstream(store.trial(plan.trials.at(0).id).path() / "result.json") << "{";
  const Finished damaged = run_program(folder, "list" + out);
  CHECK(damaged.code == 0);
  CHECK_MESSAGE(says(damaged.out, "b: 1 trial, 1 unreadable\n"), damaged.out);
  CHECK(says(damaged.out, "a: 4 trials, 3 done, 1 missing\n"));
}
