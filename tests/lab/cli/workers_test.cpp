// Several processes on one folder: joining in, two on one trial, pauses, crashes, memory that runs out.
#include <doctest/doctest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "tests/lab/cli/small_sweep.h"

using namespace normlab;

namespace {

const char* const kMemory = "ulimit -v 3000000; ";  // kilobytes

/// A sweep by one worker whose first row has no room in kMemory.
std::string with_large_row(const TemporaryFolder& folder) {
  return small_sweep(folder,
                     "--set seeds=1 --set 'sweep={\"model.embed_dim\": [16384, 16]}' --set "
                     "'baseline={\"model.embed_dim\": 16}' --workers 1 --threads 1");
}

}  // namespace

TEST_CASE("workers: three shells train each trial of a sweep once") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder, "--set train.epochs=30 --set seeds=3");
  REQUIRE(run_program(folder, "run " + file + " --out " + in_folder(folder, "whole")).code == 0);
  const std::string arguments = "run " + file + " --out " + in_folder(folder, "r") + " --workers 1 --threads 1";
  const Program first(folder, arguments), second(folder, arguments), third(folder, arguments);
  const Finished a = first.wait(), b = second.wait(), c = third.wait();
  for (const Finished* f : {&a, &b, &c}) {
    CHECK_MESSAGE(f->code == 0, f->err);
    CHECK_MESSAGE(f->err.find("6 of 6 trials done") != std::string::npos, f->err);
    CHECK(f->out == a.out);
  }
  const ResultStore store(folder / "r");
  CHECK(store.trial_ids().size() == 6);
  for (const std::string& id : store.trial_ids()) CHECK(attempts(store.trial(id)) == 1);
  CHECK(whole_results(folder / "r") == whole_results(folder / "whole"));
  CHECK(leftovers(folder / "r").empty());
  CHECK(run_program(folder, arguments + " --no-wait").err.find("6 of 6 trials done (6 before)") != std::string::npos);
}

TEST_CASE("workers: of two with one trial, the second waits for the first") {
  const TemporaryFolder folder;
  const std::string file =
      small_sweep(folder, "--set train.epochs=240 --set seeds=1 --set 'sweep={\"model.placement\": [\"pre_pre\"]}'");
  const std::string arguments = "run " + file + " --out " + in_folder(folder, "r") + " --workers 2";
  const ResultStore store(folder / "r");
  const Program first(folder, arguments);
  REQUIRE(comes_true([&] { return owners(store).size() == 1; }));
  const Finished passing = run_program(folder, arguments + " --no-wait");
  CHECK_MESSAGE(passing.code == 0, passing.err);
  CHECK_MESSAGE(passing.err.find("1 trial left to other processes") != std::string::npos, passing.err);
  const Program second(folder, arguments);
  const Finished a = first.wait(), b = second.wait();
  CHECK_MESSAGE(a.code == 0, a.err);
  CHECK_MESSAGE(b.code == 0, b.err);
  CHECK(a.out == b.out);
  CHECK(attempts(store.trial(store.trial_ids().at(0))) == 1);
}

TEST_CASE("workers: a failed trial that another process has claimed is left to it") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder, "--set seeds=1 --set 'sweep={\"model.placement\": [\"pre_pre\"]}'");
  const std::string arguments = "run " + file + " --out " + in_folder(folder, "r") + " --workers 1 --retry failed";
  REQUIRE(run_program(folder, arguments).code == 0);
  const ResultStore store(folder / "r");
  const TrialFolder trial = store.trial(store.trial_ids().at(0));
  TrialResult failed;
  failed.id = store.trial_ids().at(0);
  failed.status = TrialEnd::failed;
  failed.message = "out of memory";
  std::ofstream(trial.path() / "result.json") << write_trial_result(failed);
  const auto claim = Claim::acquire(trial.path(), 60);
  REQUIRE(claim);
  const Finished left = run_program(folder, arguments + " --no-wait");
  CHECK_MESSAGE(left.code == 0, left.err);
  CHECK_MESSAGE(left.err.find("1 trial left to other processes") != std::string::npos, left.err);
}

TEST_CASE("workers: one that is paused for longer than its lease harms nothing") {
  const TemporaryFolder folder;
  const std::string file =
      small_sweep(folder,
                  "--set train.epochs=60 --set seeds=1 --set 'sweep={\"model.placement\": [\"pre_pre\"]}' --set "
                  "'checkpoint={\"steps\": 20, \"seconds\": 1000}'");
  REQUIRE(run_program(folder, "run " + file + " --out " + in_folder(folder, "whole")).code == 0);
  for (const bool whole_group : {true, false}) {
    CAPTURE(whole_group);
    const std::string out = whole_group ? "all" : "worker";
    const std::string arguments = "run " + file + " --out " + in_folder(folder, out) + " --workers 1 --lease 0.5";
    const ResultStore store(folder / out);
    const Program paused(folder, arguments);
    REQUIRE(comes_true([&] { return in_the_middle(store); }));
    const auto workers = children_of(paused.pid());
    REQUIRE(workers.size() == 1);
    if (whole_group)
      paused.signal_all(SIGSTOP);
    else
      kill(workers[0], SIGSTOP);
    const Finished other = run_program(folder, arguments);
    CHECK_MESSAGE(other.code == 0, other.err);
    CHECK_MESSAGE(other.err.find("whose lease has not moved for 0.5 s") != std::string::npos, other.err);
    const TrialFolder trial = store.trial(store.trial_ids().at(0));
    const auto result = trial.result_text();
    paused.signal_all(SIGCONT);
    const Finished woken = paused.wait();
    CHECK_MESSAGE(woken.code == 0, woken.err);
    CHECK(woken.out == other.out);
    CHECK(trial.result_text() == result);
    CHECK(attempts(trial) == 2);
    CHECK(whole_results(folder / out) == whole_results(folder / "whole"));
    CHECK(leftovers(folder / out).empty());
    CHECK_MESSAGE(text_of(trial.log(1)).find("another process has taken over this trial") != std::string::npos,
                  text_of(trial.log(1)));
  }
}

TEST_CASE("workers: a trial whose folder is deleted is trained again, and the others go on") {
  const TemporaryFolder folder;
  const std::string file =
      small_sweep(folder, "--set train.epochs=60 --set 'checkpoint={\"steps\": 20, \"seconds\": 1000}'");
  REQUIRE(run_program(folder, "run " + file + " --out " + in_folder(folder, "whole")).code == 0);
  for (const bool whole_trial : {true, false}) {
    CAPTURE(whole_trial);
    const std::string name = whole_trial ? "trial" : "attempt";
    const ResultStore store(folder / name);
    const Program program(folder, "run " + file + " --out " + in_folder(folder, name) + " --workers 1");
    REQUIRE(comes_true([&] { return in_the_middle(store); }));
    for (const std::string& id : store.trial_ids())
      if (const auto owner = read_claim(store.trial(id).path())) {
        std::error_code ignored;
        const auto trial = store.trial(id).path();
        std::filesystem::remove_all(whole_trial ? trial : attempt_folder(trial, owner->attempt), ignored);
      }
    const Finished ended = program.wait();
    CHECK_MESSAGE(ended.code == 0, ended.err);
    CHECK(whole_results(folder / name) == whole_results(folder / "whole"));
  }
}

TEST_CASE("workers: one that is killed between two trials fails neither") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder);
  const std::string arguments = "run " + file + " --out " + in_folder(folder, "r") + " --workers 1";
  const ResultStore store(folder / "r");
  const Program program(folder, arguments);
  REQUIRE(comes_true([&] { return owners(store).size() == 1; }));
  const auto workers = children_of(program.pid());
  REQUIRE(workers.size() == 1);
  program.signal_one(SIGSTOP);
  REQUIRE(comes_true([&] { return !whole_results(folder / "r").empty() && owners(store).empty(); }));
  pause_ms(200);  // its report is on the way, and no new trial comes
  kill(workers[0], SIGKILL);
  program.signal_one(SIGCONT);
  const Finished ended = program.wait();
  CHECK_MESSAGE(ended.code == 0, ended.err);
  CHECK_MESSAGE(ended.err.find("4 of 4 trials done (0 before), 0 diverged, 0 failed") != std::string::npos, ended.err);
}

TEST_CASE("workers: a crash or a kill fails one trial until --retry failed") {
  for (const int number : {SIGKILL, SIGSEGV}) {
    CAPTURE(number);
    const TemporaryFolder folder;
    const std::string file = small_sweep(folder, "--set train.epochs=60");
    const std::string arguments = "run " + file + " --out " + in_folder(folder, "r") + " --workers 1";
    const ResultStore store(folder / "r");
    const Program program(folder, arguments);
    REQUIRE(comes_true([&] { return owners(store).size() == 1; }));
    pause_ms(50);
    for (const pid_t worker : children_of(program.pid())) kill(worker, number);
    const Finished first = program.wait();
    CHECK(first.code == 1);
    CHECK_MESSAGE(first.out.find("1/2 failed: its process") != std::string::npos, first.out);
    CHECK_MESSAGE(
        first.err.find("failed: its process was ended by signal " + std::to_string(number)) != std::string::npos,
        first.err);
    CHECK(first.err.find("3 of 4 trials done") != std::string::npos);
    CHECK(owners(store).empty());

    const Finished left_alone = run_program(folder, arguments);
    CHECK(left_alone.code == 1);
    CHECK(left_alone.err.find("3 of 4 trials done (3 before)") != std::string::npos);
    CHECK(left_alone.err.find("add --retry failed to resume them") != std::string::npos);
    const Finished repaired = run_program(folder, arguments + " --retry failed --retry diverged");
    CHECK_MESSAGE(repaired.code == 0, repaired.err);
    CHECK(repaired.err.find("4 of 4 trials done (3 before)") != std::string::npos);
    std::size_t kept = 0;
    for (const std::string& id : store.trial_ids())
      kept += std::filesystem::exists(attempt_folder(store.trial(id).path(), 2) / "failed.json");
    CHECK(kept == 1);
  }
}

TEST_CASE("workers: memory that runs out in one trial leaves the others alone") {
  const TemporaryFolder folder;
  const Finished going =
      run_program(folder, "run " + with_large_row(folder) + " --out " + in_folder(folder, "a"), kMemory);
  CHECK_MESSAGE(going.code == 1, going.err);
  CHECK_MESSAGE(going.out.find("failed: out of memory") != std::string::npos, going.out);
  CHECK_MESSAGE(going.err.find("1 of 2 trials done") != std::string::npos, going.err);
}

TEST_CASE("workers: memory that runs out in one trial ends the run with --stop-on-failure") {
  const TemporaryFolder folder;
  const Finished stopping = run_program(
      folder, "run " + with_large_row(folder) + " --out " + in_folder(folder, "b") + " --stop-on-failure", kMemory);
  CHECK_MESSAGE(stopping.code == 1, stopping.err);
  CHECK_MESSAGE(stopping.err.find("0 of 2 trials done") != std::string::npos, stopping.err);
  CHECK(stopping.err.find("because of --stop-on-failure") != std::string::npos);
}

TEST_CASE("workers: --retry diverged trains a diverged trial from the first step") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder,
                                       "--set seeds=1 --set train.optimizer.name=sgd --set train.optimizer.lr=1e30 "
                                       "--set 'sweep={\"model.placement\": [\"none\"]}' --set "
                                       "'baseline={\"model.placement\": \"none\"}'");
  const std::string arguments = "run " + file + " --out " + in_folder(folder, "r");
  CHECK(run_program(folder, arguments).code == 0);
  CHECK(run_program(folder, arguments).err.find("1 of 1 trial done (1 before)") != std::string::npos);
  const ResultStore store(folder / "r");
  const TrialFolder trial = store.trial(store.trial_ids().at(0));
  CHECK(attempts(trial) == 1);
  const Finished again = run_program(folder, arguments + " --retry diverged");
  CHECK_MESSAGE(again.err.find("1 of 1 trial done (0 before), 1 diverged") != std::string::npos, again.err);
  CHECK(std::filesystem::exists(attempt_folder(trial.path(), 2) / "diverged.json"));
  CHECK(trial.load_result()->status == TrialEnd::diverged);
}

TEST_CASE("workers: --max-trials ends a run after so many trials") {
  const TemporaryFolder folder;
  const std::string arguments =
      "run " + small_sweep(folder) + " --out " + in_folder(folder, "r") + " --workers 1 --max-trials 3";
  CHECK(run_program(folder, arguments).err.find("3 of 4 trials done (0 before)") != std::string::npos);
  CHECK(run_program(folder, arguments).err.find("4 of 4 trials done (3 before)") != std::string::npos);
}

TEST_CASE("workers: a folder without write permission is named with exit code 3") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder, "--set seeds=1");
  REQUIRE(run_program(folder, "run " + file + " --out " + in_folder(folder, "r")).code == 0);
  namespace fs = std::filesystem;
  fs::permissions(folder.path(), fs::perms(0755));
  for (const auto& entry : fs::recursive_directory_iterator(folder / "r"))
    fs::permissions(entry.path(), entry.is_directory() ? fs::perms(0555) : fs::perms(0444));
  fs::permissions(folder / "r", fs::perms(0555));
  // Root may write everywhere, so the program runs as another user.
  const std::string as_user = geteuid() == 0 ? "setpriv --reuid=65534 --regid=65534 --clear-groups " : "";
  const std::string arguments = file + " --set seeds=2 --out " + in_folder(folder, "r");
  const std::string command = as_user + program_path() + " run " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string said;
  for (char buffer[4096]; std::fgets(buffer, sizeof buffer, pipe);) said += buffer;
  const int status = pclose(pipe);
  if (said.find("cannot execute") != std::string::npos || said.find("failed to execute") != std::string::npos ||
      WEXITSTATUS(status) == 127) {
    MESSAGE("skipped: the program cannot be run as another user: ", said);
  } else {
    CHECK_MESSAGE(WEXITSTATUS(status) == 3, said);
    CHECK_MESSAGE(said.find(in_folder(folder, "r")) != std::string::npos, said);
    CHECK_MESSAGE(
        said.find("no permission; check the owner and the mode, or choose another folder") != std::string::npos, said);
  }
  CHECK(run_program(folder, "table " + file + " --out " + in_folder(folder, "r")).code == 0);
  CHECK(run_program(folder, "status " + file + " --out " + in_folder(folder, "r")).out.find("2 done") !=
        std::string::npos);
  for (const auto& entry : fs::recursive_directory_iterator(folder / "r"))
    if (entry.is_directory()) fs::permissions(entry.path(), fs::perms(0755));
  fs::permissions(folder / "r", fs::perms(0755));
}

TEST_CASE("workers: shares in folders of their own merge to the results of one run") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder);
  const Finished whole = run_program(folder, "run " + file + " --out " + in_folder(folder, "whole"));
  REQUIRE(whole.code == 0);
  std::string shares;
  for (const char* share : {"1/3", "2/3", "3/3"}) {
    const std::string out = in_folder(folder, std::string("share") + share[0]);
    const Finished part = run_program(folder, "run " + file + " --share " + share + " --out " + out);
    CHECK_MESSAGE(part.code == 0, part.err);
    CHECK_MESSAGE(part.err.find(std::string("share ") + share + ": ") != std::string::npos, part.err);
    shares += " " + out;
  }
  const Finished merge = run_program(folder, "merge" + shares + " --out " + in_folder(folder, "r"));
  CHECK_MESSAGE(merge.code == 0, merge.err);
  CHECK(merge.out.find("4 results copied to ") == 0);
  CHECK(whole_results(folder / "r") == whole_results(folder / "whole"));
  CHECK(run_program(folder, "table " + file + " --out " + in_folder(folder, "r")).out == whole.out);
  CHECK(run_program(folder, "run " + file + " --share 4/3 --out " + in_folder(folder, "x")).code == 2);
}

TEST_CASE("workers: a share of a sweep with tuning ends with the advice to merge and run again") {
  const TemporaryFolder folder;
  const std::string file =
      small_sweep(folder,
                  "--set 'tune=[{\"axes\": {\"train.optimizer.lr\": [0.001, 0.01]}, \"seeds\": 1}]' --set "
                  "'dataset.train=train[:160]' --set 'dataset.minival=train[160:200]' --set seeds=1");
  for (const char* share : {"1/2", "2/2"}) {
    const Finished part = run_program(
        folder, "run " + file + " --share " + share + " --out " + in_folder(folder, std::string("share") + share[0]));
    CHECK_MESSAGE(part.err.find("then run again there: further trials depend on them") != std::string::npos, part.err);
  }
  REQUIRE(run_program(folder, "merge " + in_folder(folder, "share1") + " " + in_folder(folder, "share2") + " --out " +
                                  in_folder(folder, "r"))
              .code == 0);
  const Finished rest = run_program(folder, "run " + file + " --out " + in_folder(folder, "r"));
  CHECK_MESSAGE(rest.code == 0, rest.err);
  REQUIRE(run_program(folder, "run " + file + " --out " + in_folder(folder, "whole")).code == 0);
  CHECK(whole_results(folder / "r") == whole_results(folder / "whole"));
}

TEST_CASE("workers: the command lines of a plan train the whole sweep, also under GNU parallel") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder), out = " --out " + in_folder(folder, "r");
  const Finished plan = run_program(folder, "plan " + file + " --tasks 3 --format commands" + out);
  REQUIRE_MESSAGE(plan.code == 0, plan.err);
  std::ofstream(folder / "tasks") << plan.out;
  const bool parallel = std::system("command -v parallel >/dev/null 2>&1") == 0;
  if (!parallel) MESSAGE("there is no GNU parallel; a shell runs the lines");
  const std::string run = parallel ? "parallel -j 2 < " : "sh ";
  CHECK(std::system((run + in_folder(folder, "tasks") + " >/dev/null 2>&1").c_str()) == 0);
  REQUIRE(run_program(folder, "run " + file + " --out " + in_folder(folder, "whole")).code == 0);
  CHECK(whole_results(folder / "r") == whole_results(folder / "whole"));
  CHECK(run_program(folder, "plan " + file + " --format commands" + out).err.find("nothing to submit") == 0);
  CHECK(run_program(folder, "plan " + file + " --tasks 3" + out).err.find("--tasks: needs --format slurm or") == 0);
  CHECK(run_program(folder, "plan " + file + " --format commands --hours 1" + out).err.find("--hours: needs") == 0);
  for (const char* option : {"--hours 1e300", "--hours 100001", "--hours 0", "--time-factor 1e300"})
    CHECK(run_program(folder, "plan " + file + " --format slurm " + option + out).err.find("above 0 and at most") !=
          std::string::npos);
  const Finished many = run_program(folder, "plan " + file + " --set seeds=600 --format commands" + out);
  CHECK_MESSAGE(many.err.find("tasks: many schedulers limit an array to about 1000") != std::string::npos, many.err);
}
