// Three processes on one folder, killed at random moments, against a sweep that nobody disturbed.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <memory>
#include <random>

#include "tests/core/cpu/bf16_choice.h"
#include "tests/experiments/cli/small_sweep.h"

using namespace normlab;

namespace {

struct Kills {
  int runs = 0, workers = 0, parents = 0;
  int all() const { return runs + workers + parents; }
};

std::string in_small_steps(const TemporaryFolder& folder, const std::string& precision) {
  return small_sweep(folder, "--set train.epochs=12 --set train.precision=" + precision +
                                 " --set 'checkpoint={\"steps\": 3, \"seconds\": 1000}'"
                                 " --set 'probes={\"signal\": [0, 7, 100], \"gradients\": 5}'");
}

/// One sweep under fire until it is finished or `wanted` kills are reached, and then to its end.
Kills kill_one_sweep(const TemporaryFolder& folder, const std::string& file, const std::string& out, int wanted,
                     std::mt19937& random) {
  const auto below = [&](int limit) { return int(random() % unsigned(limit)); };
  const std::string arguments =
      "run " + file + " --out " + in_folder(folder, out) + " --workers 1 --threads 1 --lease 1 --retry failed";
  std::vector<std::unique_ptr<Program>> runs(3);
  Kills kills;
  const ResultStore store(folder / out);
  const auto finished = [&] {
    if (!std::filesystem::exists(store.out() / "trials")) return false;
    const auto ids = store.trial_ids();
    return ids.size() == 4 && std::all_of(ids.begin(), ids.end(), [&](auto& id) { return store.finished(id); });
  };
  while (kills.all() < wanted && !finished()) {
    for (auto& run : runs)
      if (!run || run->ended()) run = std::make_unique<Program>(folder, arguments);
    pause_ms(50 + below(200));
    Program& victim = *runs[std::size_t(below(3))];
    if (victim.ended()) continue;
    switch (below(4)) {
      case 0: {  // a worker alone, as where memory runs out
        const auto workers = children_of(victim.pid());
        if (!workers.empty() && kill(workers.front(), SIGKILL) == 0) ++kills.workers;
        break;
      }
      case 1:  // the process that hands out trials: its worker stops by itself
        if (kill(victim.pid(), SIGKILL) == 0) ++kills.parents;
        break;
      default:  // both, as where a machine loses its power
        victim.signal_all(SIGKILL);
        ++kills.runs;
    }
  }
  for (auto& run : runs) {
    if (!run) continue;
    run->signal_all(SIGKILL);
    run->wait();
  }
  for (int i = 0; i < 3; ++i) runs[std::size_t(i)] = std::make_unique<Program>(folder, arguments);
  for (auto& run : runs) {
    const Finished last = run->wait();
    CHECK_MESSAGE(last.code == 0, last.err);
  }
  return kills;
}

using Results = std::map<std::string, std::string>;

/// Says where they differ: the weights are no text to print.
void compare(const Results& whole, const Results& killed) {
  CHECK(killed.size() == whole.size());
  for (const auto& result : killed) {
    const std::string &id = result.first, &state = result.second;
    const auto found = whole.find(id);
    REQUIRE_MESSAGE(found != whole.end(), id);
    if (state == found->second) continue;
    const auto at = std::size_t(
        std::mismatch(state.begin(), state.end(), found->second.begin(), found->second.end()).first - state.begin());
    FAIL_CHECK(id << ": differs from byte " << at << " of " << state.size() << " (" << found->second.size()
                  << " undisturbed): " << state.substr(at - std::min<std::size_t>(at, 200), 300));
  }
}

void kill_and_compare(int wanted, unsigned seed, const std::string& precision = "fp32") {
  const TemporaryFolder folder;
  const std::string file = in_small_steps(folder, precision);
  REQUIRE(run_program(folder, "run " + file + " --out " + in_folder(folder, "whole")).code == 0);
  const auto whole = whole_results(folder / "whole");
  REQUIRE(whole.size() == 4);
  std::mt19937 random(seed);
  Kills kills;
  int sweeps = 0;
  for (; kills.all() < wanted; ++sweeps) {
    const std::string out = "killed-" + std::to_string(sweeps);
    const Kills more = kill_one_sweep(folder, file, out, wanted - kills.all(), random);
    kills.runs += more.runs, kills.workers += more.workers, kills.parents += more.parents;
    compare(whole, whole_results(folder / out));  // every trial, and every metric line once
    for (const std::string& left : leftovers(folder / out)) FAIL_CHECK("left behind: " << left);
  }
  MESSAGE(kills.all(), " kills in ", sweeps, " sweeps: ", kills.runs, " runs with their workers, ", kills.workers,
          " workers, ", kills.parents, " parents");
}

}  // namespace

TEST_CASE("kills: three processes killed a few times end with the bits of an undisturbed sweep") {
  kill_and_compare(8, 17);
}

TEST_CASE("kills: the same in bf16, whose rounded weights are not in a checkpoint") {
  kill_and_compare(3, 23, has_native_bf16() ? "bf16" : "bf16_emulated");
}

TEST_CASE("kills: the same for 200 kills" * doctest::skip()) {  // make test-long
  kill_and_compare(200, 1);
}
