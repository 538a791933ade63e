#include "experiments/lab/pictures/trial_data.h"

#include <doctest/doctest.h>

#include <limits>
#include <sstream>

#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/sweep/plan_file.h"
#include "tests/lab/pictures/fake_results.h"

using namespace normlab;
using nlohmann::json;

namespace {

const char* const kFourRows = R"({
  "dataset": {"name": "shapes", "train_images": 200, "eval_images": 50},
  "model": {"variant": "Ti/8"},
  "train": {"epochs": 4, "batch_size": 20},
  "placements": {"my, \"own\"": {"base": "pre_pre", "attn": {"query": {"kind": "rms_norm", "eps": 1e-5}}}},
  "sweep": {"model.placement": ["pre_pre", "my, \"own\""], "model.variant": ["Ti/8", "Ti/16"]},
  "seeds": 2,
  "baseline": {"model.placement": "pre_pre"}
})";

/// Eight trials: one with a number that has all digits, one diverged, one failed, one that was stopped, others missing.
struct Sweep {
  TemporaryFolder folder;
  Experiment experiment = experiment_of(folder, kFourRows);
  ResultStore store{folder / "results"};

  Sweep() {
    store.write_plan(experiment.stem, plan_json(experiment));
    for (const Trial& trial : experiment.trials) store.trial(trial.id).write_config(full_json(trial.config));
    fake_done(store, experiment.trials[0], 0.1 + 0.2);
    fake_diverged(store, experiment.trials[1], 30);
    fake_failed(store, experiment.trials[2], "no, memory\nat all");
    fake_metrics(store, experiment.trials[3], 0.5, 2);
  }
  DataTable trials() const { return trial_data({store, &experiment}); }
};

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

std::ptrdiff_t place_of(const DataTable& table, const std::string& column) {
  const auto found = std::find(table.columns.begin(), table.columns.end(), column);
  REQUIRE_MESSAGE(found != table.columns.end(), column);
  return found - table.columns.begin();
}

/// The curves of the trials, one of which ends at minus infinity.
DataTable curves_with_infinity(const Sweep& sweep) {
  {
    MetricsLog log(sweep.store.trial(sweep.experiment.trials[3].id).metrics(1));
    log.append({30, 0.6, {{"train/loss", -std::numeric_limits<double>::infinity()}}});
  }
  return curve_data({sweep.store, &sweep.experiment});
}

}  // namespace

TEST_CASE("trial data: every trial of the plan has a row with every column") {
  const Sweep sweep;
  const DataTable table = sweep.trials();
  const std::vector<json> rows = lines_of(data_text(table, DataFormat::jsonl));
  REQUIRE(rows.size() == 8);
  for (const json& row : rows) CHECK(row.size() == table.columns.size());
  const json& done = rows[0];
  CHECK(done["trial"] == sweep.experiment.trials[0].id);
  CHECK(done["experiment"] == "small");
  CHECK(done["row"] == "placement=pre_pre, variant=Ti/8");
  CHECK(rows[4]["baseline"] == "placement=pre_pre, variant=Ti/8");
  CHECK(done["tuning"] == false);
  CHECK(rows[1]["seed"] == 1);
  CHECK(done["eval/accuracy"] == 0.1 + 0.2);
  CHECK(done["provenance.cpu"] == "a <cpu> & more");
}

TEST_CASE("trial data: a setting has its path as name and its type") {
  const json done = lines_of(data_text(Sweep().trials(), DataFormat::jsonl)).at(0);
  CHECK(done["train.optimizer.lr"] == 1e-3);
  CHECK(done["train.epochs"].is_number_float());
  CHECK(done["train.batch_size"] == 20);
  CHECK(done["train.batch_size"].is_number_integer());
  CHECK(done["train.drop_last"] == true);
  CHECK(done["model.image_size"] == json({32, 32}));
  CHECK(done["model.variant"] == "Ti/8");
  CHECK(done["model.patch_size"] == 8);
}

TEST_CASE("trial data: a placement has its name and its sites") {
  const std::vector<json> rows = lines_of(data_text(Sweep().trials(), DataFormat::jsonl));
  const json& done = rows.at(0);
  CHECK(done["model.placement"] == "pre_pre");
  CHECK(done["model.placement.attn.pre"] == "layer_norm");
  CHECK(done["model.placement.attn.pre.eps"] == 1e-6);
  CHECK(done["model.placement.attn.query"] == "none");
  CHECK(done["model.placement.attn.query.eps"].is_null());
  CHECK(rows[4]["model.placement"] == "my, \"own\"");
  CHECK(rows[4]["model.placement.attn.query"] == "rms_norm");
  CHECK(rows[4]["model.placement.attn.query.eps"] == 1e-5);
}

TEST_CASE("trial data: every state has its own word") {
  const Sweep sweep;
  const std::vector<json> rows = lines_of(data_text(sweep.trials(), DataFormat::jsonl));
  const char* const states[] = {"done", "diverged", "failed", "stopped", "missing"};
  for (std::size_t i = 0; i < 5; ++i) CHECK(rows[i]["state"] == states[i]);
}

TEST_CASE("trial data: a trial has the values of its state and no others") {
  const Sweep sweep;
  const std::vector<json> rows = lines_of(data_text(sweep.trials(), DataFormat::jsonl));
  CHECK(rows[1]["diverged_step"] == 30);
  CHECK(rows[1]["diverged_site"] == "blocks.1.mlp.pre");
  CHECK(rows[1]["eval/accuracy"].is_null());
  CHECK(rows[2]["message"] == "no, memory\nat all");
  CHECK(rows[3]["progress"] == 0.4);
  CHECK(rows[0]["peak_mb"] == 321);
  CHECK(rows[4]["wall_seconds"].is_null());
  CHECK(rows[4]["peak_mb"].is_null());
  CHECK(rows[4]["train.optimizer.name"] == "adamw");
}

TEST_CASE("trial data: columns are in the order that docs/tables.md gives") {
  const Sweep sweep;
  const DataTable table = sweep.trials();
  const char* const order[] = {"trial",
                               "experiment",
                               "row",
                               "baseline",
                               "tuning",
                               "seed",
                               "state",
                               "progress",
                               "dataset.allow_absent_classes",
                               "dataset.eval",
                               "model.placement",
                               "model.placement.attn.inner",
                               "model.variant",
                               "train.accumulate",
                               "eval/accuracy",
                               "eval/loss",
                               "train/loss",
                               "message",
                               "steps",
                               "diverged_step",
                               "diverged_site",
                               "stopped_early",
                               "bad_images",
                               "wall_seconds",
                               "images_per_second",
                               "peak_mb",
                               "provenance.cpu",
                               "provenance.device"};
  for (std::size_t i = 1; i < std::size(order); ++i) CHECK(place_of(table, order[i - 1]) < place_of(table, order[i]));
}

TEST_CASE("trial data: CSV has all digits and empty cells for missing values") {
  const Sweep sweep;
  DataTable table = sweep.trials();
  table.columns = {"row", "seed", "tuning", "eval/accuracy", "model.image_size", "model.variant"};
  const std::string text = data_text(table, DataFormat::csv);
  CHECK(
      text.starts_with("row,seed,tuning,eval/accuracy,model.image_size,model.variant\n"
                       "\"placement=pre_pre, variant=Ti/8\",0,false,0.30000000000000004,\"[32,32]\",Ti/8\n"
                       "\"placement=pre_pre, variant=Ti/8\",1,false,,\"[32,32]\",Ti/8\n"));
}

TEST_CASE("trial data: CSV quotes commas and quotes") {
  const Sweep sweep;
  DataTable table = sweep.trials();
  table.columns = {"row", "seed", "tuning", "eval/accuracy", "model.image_size", "model.variant"};
  const std::string text = data_text(table, DataFormat::csv);
  CHECK(text.find("\"placement=my, \"\"own\"\", variant=Ti/16\",1,") != text.npos);
}

TEST_CASE("trial data: each metric of each step is a row") {
  const Sweep sweep;
  const DataTable table = curves_with_infinity(sweep);
  const std::vector<json> rows = lines_of(data_text(table, DataFormat::jsonl));
  REQUIRE(rows.size() == 5 * 3 + 2 * 3 + 1 + 2 * 3 + 1);
  CHECK(rows[14]["metric"] == "train/loss");
  CHECK(rows[14]["step"] == 50);
  CHECK(rows[14]["value"] == fake_values(sweep.experiment.trials[0], 0.3, 5)["train/loss"]);
  CHECK(rows[14]["nonfinite"].is_null());
  CHECK(data_text(table, DataFormat::csv)
            .starts_with("trial,experiment,row,seed,step,progress,metric,value,nonfinite\n"));
}

TEST_CASE("trial data: a value of a curve that is not finite is a word") {
  const Sweep sweep;
  const std::vector<json> rows = lines_of(data_text(curves_with_infinity(sweep), DataFormat::jsonl));
  CHECK(rows[21]["value"].is_null());
  CHECK(rows[21]["nonfinite"] == "nan");
  CHECK(rows.back()["value"].is_null());
  CHECK(rows.back()["nonfinite"] == "-inf");
}

TEST_CASE("trial data: a folder gives the rows of its plan and of other trials") {
  const Sweep sweep;
  const Experiment other = load_experiment(sweep.folder / "small.json", std::vector<std::string>{"seeds=[9]"});
  sweep.store.trial(other.trials[0].id).write_config(full_json(other.trials[0].config));
  const DataTable planned = sweep.trials(), found = trial_data({sweep.store});
  CHECK(found.columns == planned.columns);
  CHECK(found.rows.size() == 9);
  for (const json& row : found.rows) {
    if (row["seed"] == 9) {
      CHECK_FALSE(row.contains("row"));
      CHECK(row["model.placement"] == "pre_pre");
      continue;
    }
    CHECK(std::find(planned.rows.begin(), planned.rows.end(), row) != planned.rows.end());
  }
}

TEST_CASE("trial data: a trial that cannot be read keeps its row") {
  const Sweep sweep;
  std::ofstream(sweep.store.trial(sweep.experiment.trials[0].id).path() / "result.json") << "{}";
  const DataTable table = sweep.trials();
  REQUIRE(table.rows.size() == 8);
  CHECK(table.rows[0]["state"] == "unreadable");
  CHECK(table.rows[0]["row"] == "placement=pre_pre, variant=Ti/8");
  CHECK(table.problems.size() == 1);
  CHECK(table.outcome == ExitCode::bad_input);
}
