// Signals that stop a run: from a terminal, from a batch system, or to one process.
#include <doctest/doctest.h>
#include <signal.h>

#include "tests/lab/cli/on_terminal.h"
#include "tests/lab/cli/small_sweep.h"

using namespace normlab;

namespace {

std::string long_sweep(const TemporaryFolder& folder) {
  return small_sweep(folder, "--set train.epochs=150 --set seeds=1");
}

/// Several trials run, and some steps of them are done.
bool trains(const ResultStore& store, std::size_t workers = 2) {
  std::size_t with_lines = 0;
  for (const Owner& owner : owners(store))
    for (const std::string& id : store.trial_ids())
      if (read_claim(store.trial(id).path()) == owner)
        with_lines += std::filesystem::exists(store.trial(id).metrics(owner.attempt));
  return with_lines >= workers;
}

}  // namespace

TEST_CASE("signals: a run that is stopped leaves a checkpoint of each trial") {
  const TemporaryFolder folder;
  const std::string file = long_sweep(folder);
  REQUIRE(run_program(folder, "run " + file + " --out " + in_folder(folder, "whole")).code == 0);
  const std::string arguments = "run " + file + " --out " + in_folder(folder, "stopped") + " --workers 2 --threads 1";
  const ResultStore store(folder / "stopped");
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGHUP})
    for (const bool group : {true, false}) {
      CAPTURE(number);
      CAPTURE(group);
      const Program program(folder, arguments);
      REQUIRE(comes_true([&] { return trains(store); }));
      std::map<std::string, std::int64_t> attempt;
      for (const std::string& id : store.trial_ids()) attempt[id] = last_attempt(store.trial(id).path());
      if (group)
        program.signal_all(number);
      else
        program.signal_one(number);
      const Finished stopped = program.wait();
      CHECK_MESSAGE(stopped.code == 128 + number, stopped.err);
      CHECK_MESSAGE(stopped.err.find("stopping: each trial writes a checkpoint") != std::string::npos, stopped.err);
      CHECK(owners(store).empty());
      for (const std::string& id : store.trial_ids())
        CHECK(std::filesystem::exists(store.trial(id).checkpoint(attempt[id])));
    }
  const Finished last = run_program(folder, arguments);
  CHECK_MESSAGE(last.code == 0, last.err);
  CHECK(whole_results(folder / "whole") == whole_results(folder / "stopped"));
}

TEST_CASE("signals: a run whose terminal is closed leaves a checkpoint") {
  const TemporaryFolder folder;
  const std::string arguments = "run " + long_sweep(folder) + " --out " + in_folder(folder, "r") + " --workers 2";
  const ResultStore store(folder / "r");
  OnTerminal program(arguments, 80, 24);
  REQUIRE(comes_true([&] { return trains(store); }));
  program.hang_up();
  program.wait();
  CHECK(owners(store).empty());
  CHECK(in_the_middle(store));
  const Finished last = run_program(folder, arguments);
  CHECK_MESSAGE(last.code == 0, last.err);
}

TEST_CASE("signals: under nohup a run outlives its terminal") {
  const TemporaryFolder folder;
  const std::string arguments = "run " + long_sweep(folder) + " --out " + in_folder(folder, "r") + " --workers 2";
  const ResultStore store(folder / "r");
  const Program program(folder, arguments, "trap '' HUP; ");
  REQUIRE(comes_true([&] { return trains(store); }));
  program.signal_all(SIGHUP);
  const Finished finished = program.wait();
  CHECK_MESSAGE(finished.code == 0, finished.err);
  CHECK(finished.err.find("2 of 2 trials done") != std::string::npos);
}

TEST_CASE("signals: two of the same at once count as one") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder, "--set train.epochs=2000 --set seeds=1");
  const ResultStore store(folder / "r");
  const std::string arguments = "run " + file + " --out " + in_folder(folder, "r") + " --workers 2 --threads 1";
  const Program program(folder, arguments);
  REQUIRE(comes_true([&] { return trains(store); }));
  program.signal_one(SIGTERM);  // as timeout(1) does
  program.signal_all(SIGTERM);
  CHECK(program.wait().code == 128 + SIGTERM);
  CHECK(in_the_middle(store));
}

TEST_CASE("signals: a second one after a second ends all at once") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder, "--set train.epochs=2000 --set seeds=1");
  const ResultStore store(folder / "r");
  const std::string arguments = "run " + file + " --out " + in_folder(folder, "r") + " --workers 2 --threads 1";
  const Program program(folder, arguments);
  REQUIRE(comes_true([&] { return owners(store).size() == 2; }));
  const auto workers = children_of(program.pid());
  REQUIRE(workers.size() == 2);
  for (const pid_t worker : workers) kill(worker, SIGSTOP);  // one that does not come to its next step
  program.signal_one(SIGINT);
  pause_ms(1200);
  CHECK(!program.ended());
  program.signal_one(SIGINT);
  CHECK(program.wait().code == 128 + SIGINT);
  for (const Owner& owner : owners(store)) CHECK(comes_true([&] { return is_dead(owner); }, 5));
}

TEST_CASE("signals: a worker whose parent is gone stops with a checkpoint") {
  const TemporaryFolder folder;
  const std::string file = long_sweep(folder);
  const ResultStore store(folder / "r");
  const Program program(folder, "run " + file + " --out " + in_folder(folder, "r") + " --workers 1");
  REQUIRE(comes_true([&] { return trains(store, 1); }));
  kill(program.pid(), SIGKILL);
  CHECK(program.wait().code == -SIGKILL);
  CHECK(comes_true([&] { return owners(store).empty(); }, 20));
  CHECK(in_the_middle(store));
}

TEST_CASE("signals: a worker that is stopped alone hands its trial to another") {
  const TemporaryFolder folder;
  const std::string file = long_sweep(folder);
  const ResultStore store(folder / "r");
  const Program program(folder, "run " + file + " --out " + in_folder(folder, "r") + " --workers 1");
  REQUIRE(comes_true([&] { return trains(store, 1); }));
  for (const pid_t worker : children_of(program.pid())) kill(worker, SIGTERM);
  const Finished finished = program.wait();
  CHECK_MESSAGE(finished.code == 0, finished.err);
  CHECK(finished.err.find("2 of 2 trials done") != std::string::npos);
}
