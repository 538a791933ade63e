// The default sweep can tell rows apart: every row trains, and none is near the top.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/trials/store.h"
#include "tests/lab/cli/program.h"

using namespace normlab;

TEST_CASE("default sweep: every row ends between half way to the best and 95%") {
  const TemporaryFolder folder;
  const char* const descriptor = "experiments/placements_gratings.json";
  const Finished run =
      run_program(folder, std::string("run ") + descriptor + " --set seeds=1 --out " + (folder / "r").string());
  REQUIRE_MESSAGE(run.code == 0, run.err);
  const Experiment experiment = load_experiment(descriptor);
  const ResultStore store(folder / "r");
  std::map<std::string, double> accuracies;
  for (const Trial& trial : experiment.trials) {
    const std::optional<TrialResult> result = store.trial(trial.id).load_result();
    if (!result) continue;
    CAPTURE(trial.label);
    REQUIRE(result->status == TrialEnd::done);
    accuracies[trial.label] = result->metrics.at("eval/accuracy");
    CHECK(result->metrics.at("train/loss") < std::log(10.0) / 2);
  }
  REQUIRE(accuracies.size() == 12);
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  const double best = std::max_element(accuracies.begin(), accuracies.end(), less)->second, chance = 0.1;
  CHECK(best <= 0.95);
  for (const auto& row : accuracies) {
    CAPTURE(row.first);
    CHECK(row.second >= chance + (best - chance) / 2);
  }
}
