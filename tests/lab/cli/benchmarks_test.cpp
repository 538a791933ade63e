// Whole runs over benchmarks: a rate chosen by the minival, training with it, and the means of groups.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/lab/cli/small_sweep.h"

using namespace normlab;

namespace {

const char* const kBenchmarks = R"({"about": "a test",
  "dataset": {"name": "shapes", "train_images": 200, "eval_images": 40, "train": "train[:80]", "minival": "train[80:120]"},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2},
  "train": {"steps": 6, "batch_size": 20, "eval_every_epochs": 0},
  "benchmarks": {
    "kind": {"group": "look", "dataset": {"label": "kind"}},
    "colour": {"group": "look", "dataset": {"label": "colour"}},
    "plane": {"group": "relation", "dataset": {"class_groups": {
      "line": ["far_beside", "near_beside", "far_above", "near_above"], "cover": ["cross_on_disc", "disc_on_cross"]}}}},
  "tune": [{"axes": {"train.optimizer.lr": [1e-3, 1e-2]}, "seeds": 2, "then_train_on": "train+minival"}],
  "sweep": {"benchmark": ["kind", "colour", "plane"], "model.placement": ["pre_pre", "dpn"]},
  "seeds": 2, "baseline": {"model.placement": "pre_pre"}})";

}  // namespace

TEST_CASE("benchmarks: a run chooses by the minival, trains on it too, and its table has the means of groups") {
  const TemporaryFolder folder;
  std::ofstream(folder / "b.json") << kBenchmarks;
  const std::string file = in_folder(folder, "b.json"), out = " --out " + in_folder(folder, "r");
  const Finished early = run_program(folder, "table " + file + out + " --format csv");
  CHECK(early.out.find("mean of look") != std::string::npos);
  CHECK(early.out.find("no value of kind, colour") != std::string::npos);
  const Finished run = run_program(folder, "run " + file + out);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  CHECK(run.err.find("36 of 36 trials done") != std::string::npos);

  const Finished table = run_program(folder, "table " + file + out + " --format json");
  REQUIRE(table.code == 0);
  const auto json = nlohmann::json::parse(table.out);
  REQUIRE(json["rows"].size() == 6 + 3 * 2);
  const auto row = [&](const std::string& benchmark, const std::string& placement) {
    for (const auto& each : json["rows"])
      if (each["axes"]["benchmark"] == benchmark && each["axes"]["model.placement"] == placement) return each;
    return nlohmann::json();
  };
  for (const char* const placement : {"pre_pre", "dpn"}) {
    double sum = 0;
    for (const char* const benchmark : {"kind", "colour", "plane"}) {
      CHECK(row(benchmark, placement)["n"] == 2);
      sum += double(row(benchmark, placement)["mean"]);
    }
    CHECK(double(row("mean of all", placement)["mean"]) == doctest::Approx(sum / 3));
    CHECK(row("mean of relation", placement)["mean"] == row("plane", placement)["mean"]);
  }
  CHECK(row("mean of relation", "dpn")["gain"] == row("plane", "dpn")["gain"]);

  int trained_on_both = 0;
  const ResultStore store(folder / "r");
  for (const std::string& id : store.trial_ids())
    trained_on_both +=
        text_of(store.trial(id).path() / "config.json").find("train[:80]+train[80:120]") != std::string::npos;
  CHECK(trained_on_both == 12);
  for (const char* const command :
       {"report ", "plan ", "export --curves --by-row ", "explain ", "status ", "status --missing "}) {
    const Finished other =
        run_program(folder, command + file + (command == std::string("explain ") ? "" : out) +
                                (command == std::string("report ") ? " -o " + in_folder(folder, "x.html") : ""));
    CAPTURE(command);
    CHECK_MESSAGE(other.code == 0, other.err);
  }
}
