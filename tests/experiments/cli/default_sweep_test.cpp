// The default sweep must be a question worth asking: hard enough that no row is near the top, easy enough that the
// baseline learns.
#include <doctest/doctest.h>

#include "experiments/descriptor/experiment.h"
#include "experiments/results/store.h"
#include "tests/experiments/cli/program.h"

using namespace normlab;

TEST_CASE("default sweep: pre_pre ends between 60 and 92 %, no row above 97 %") {
  const TemporaryFolder folder;
  const char* const descriptor = "experiments/placements_shapes.json";
  const std::string out = " --out " + (folder / "r").string();
  const Finished rows = run_program(folder, std::string("run ") + descriptor + " --set seeds=1" + out);
  REQUIRE_MESSAGE(rows.code == 0, rows.err);
  const Finished baseline =
      run_program(folder, std::string("run ") + descriptor +
                              " --set 'sweep={\"model.placement\": [\"pre_pre\"]}' --set seeds=2" + out);
  REQUIRE_MESSAGE(baseline.code == 0, baseline.err);
  const Experiment experiment = load_experiment(descriptor);
  const ResultStore store(folder / "r");
  int seen = 0;
  for (const Trial& trial : experiment.trials) {
    const std::optional<TrialResult> result = store.trial(trial.id).load_result();
    if (!result) continue;
    ++seen;
    CAPTURE(trial.label);
    const double accuracy = result->status == TrialEnd::done ? result->metrics.at("eval/accuracy") : 0.0;
    CHECK(accuracy <= 0.97);
    if (experiment.rows[trial.row].baseline == trial.row) {
      CHECK(accuracy >= 0.60);
      CHECK(accuracy <= 0.92);
    }
  }
  CHECK(seen == 13);
}
