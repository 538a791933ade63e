// The default sweep can tell rows apart: every row trains, and none is near the top. `make sweep` says which images it
// used.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/trials/store.h"
#include "tests/lab/cli/program.h"
#include "tests/lab/data/fashion_mnist.h"

using namespace normlab;

namespace {

void check_rows(const std::string& descriptor) {
  const TemporaryFolder folder;
  const Finished run = run_program(folder, "run " + descriptor + " --set seeds=1 --out " + (folder / "r").string());
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

/// What `make sweep` runs after the build, on a sweep of one row and one step, with what packages install in `installed`.
struct MakeSweep {
  TemporaryFolder folder;
  std::string installed = (folder / "share").string();
  Finished run(const std::string& data) const {
    const std::string out = (folder / "out").string(), err = (folder / "err").string();
    const int status =
        std::system(("unset NORMLAB_DATA COLUMNS; export XDG_DATA_DIRS='" + installed + "' XDG_CACHE_HOME='" +
                     folder.path().string() + "'; bash .ci/sweep '" + program_path() + "' " + data +
                     " --set seeds=1 --set 'train={\"steps\": 1, \"batch_size\": 50}'"
                     " --set 'sweep={\"model.placement\": [\"pre_pre\"]}' --workers 1 --out '" +
                     (folder / "r").string() + "' >'" + out + "' 2>'" + err + "' </dev/null")
                        .c_str());
    return {WEXITSTATUS(status), text_of(out), text_of(err)};
  }
};
const std::string kNotHere = "Fashion-MNIST (package dataset-fashion-mnist) is not here: trained on gratings.\n";

}  // namespace

TEST_CASE("default sweep: every row ends between half way to the best and 95%") {
  if (const std::string without = without_fashion_mnist(); !without.empty()) {
    MESSAGE(without);
    return;
  }
  check_rows("experiments/placements_fashion_mnist.json");
}

TEST_CASE("default sweep: on gratings every row ends between half way to the best and 95%") {
  check_rows("experiments/placements_gratings.json");
}

TEST_CASE("make sweep: without Fashion-MNIST a line above the table names the package") {
  const Finished run = MakeSweep().run("fashion_mnist");
  CHECK_MESSAGE(run.code == 0, run.err);
  CHECK_MESSAGE(run.out.starts_with(kNotHere), run.out);
  CHECK(run.out.find("differ on\ngenerated gratings?") != std::string::npos);
  CHECK(run.out.find("\nThe results are in results/placements_gratings.") != std::string::npos);
}

TEST_CASE("make sweep: DATA=gratings says nothing of Fashion-MNIST") {
  const Finished run = MakeSweep().run("gratings");
  CHECK_MESSAGE(run.code == 0, run.err);
  CHECK_MESSAGE(run.out.find("Fashion-MNIST") == std::string::npos, run.out);
}

TEST_CASE("make sweep: Fashion-MNIST that is damaged is no reason to train on gratings") {
  const MakeSweep sweep;
  std::filesystem::create_directories(sweep.folder / "share/datasets/fashion-mnist");
  for (const char* file : {"t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"})
    std::ofstream(sweep.folder / "share/datasets/fashion-mnist" / file) << "no gzip";
  const Finished run = sweep.run("fashion_mnist");
  CHECK(run.code == 2);
  CHECK(run.out.empty());
  CHECK_MESSAGE(run.err.find("t10k-images-idx3-ubyte.gz: is not a gzip file") != std::string::npos, run.err);
  CHECK(run.err.find("DATA=gratings trains on generated ones") != std::string::npos);
  CHECK(!std::filesystem::exists(sweep.folder / "r"));
}

TEST_CASE("make sweep: missing packages are installed before the build") {
  const TemporaryFolder folder;
  const std::string file = (folder / "out").string();
  REQUIRE(std::system(("make -n sweep >'" + file + "' 2>&1").c_str()) == 0);
  const std::string said = text_of(file);
  const std::size_t deps = said.find("bash .ci/deps\n"), images = said.find("bash .ci/deps dataset-fashion-mnist"),
                    check = said.find("bash .ci/deps --check");
  CHECK_MESSAGE(deps < images, said);
  CHECK(images < check);
  CHECK(check < said.find("bash .ci/sweep"));
  CHECK(std::system(("make -n sweep DATA=gratings | grep -q dataset-fashion-mnist")) != 0);
}
