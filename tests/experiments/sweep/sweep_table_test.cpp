#include "experiments/sweep/sweep_table.h"

#include <doctest/doctest.h>

#include <fstream>

#include "core/error.h"
#include "experiments/base/files.h"
#include "experiments/descriptor/canonical.h"
#include "experiments/results/metrics_log.h"
#include "experiments/results/table.h"
#include "experiments/sweep/plan_file.h"
#include "tests/experiments/base/temporary_folder.h"
#include "tests/experiments/base/text.h"
#include "tests/experiments/results/unsealed_result.h"

using namespace normlab;

namespace {

/// Two placements and two rates, two seeds, and a result for each but what a test takes away.
struct Sweep {
  explicit Sweep(const char* seeds = "2") : store(folder / "out") {
    std::ofstream(folder / "small.json") << R"({
      "about": "Which one?", "dataset": {"name": "shapes"},
      "model": {"kind": "vit", "patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2},
      "train": {"steps": 10, "batch_size": 4, "optimizer": {"lr": 0.01}},
      "sweep": {"model.placement": ["pre_pre", "dpn"], "train.optimizer.lr": [0.001, 0.01]},
      "baseline": {"model.placement": "pre_pre"}, "seeds": )"
                                         << seeds << "}";
    experiment = load_experiment(folder / "small.json");
  }

  TrialResult result(std::size_t t) const {
    const Trial& trial = experiment.trials[t];
    TrialResult result;
    result.id = trial.id;
    result.seed = trial.config.seed;
    result.attempt = 1;
    result.metrics = {{"eval/accuracy", 0.5 + 0.01 * double(t) + 0.003 * double(t * t % 5)}, {"eval/loss", 1.5}};
    result.provenance = {{"version", "1"}, {"device", "cpu"}};
    return result;
  }
  void publish(std::size_t t, const TrialResult& result) const {
    const TrialFolder trial = store.trial(experiment.trials[t].id);
    trial.write_config(full_json(experiment.trials[t].config));
    trial.publish_result(result);
  }
  void publish_all() const {
    for (std::size_t t = 0; t < experiment.trials.size(); ++t) publish(t, result(t));
  }
  TableModel model(const TableOptions& options = {}) const { return sweep_table_model(experiment, store, options); }
  std::filesystem::path result_file(std::size_t t) const {
    return store.trial(experiment.trials[t].id).path() / "result.json";
  }

  TemporaryFolder folder;
  ResultStore store;
  Experiment experiment;
};

std::string error_of(const Sweep& sweep, const TableOptions& options) {
  try {
    sweep.model(options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("sweep_table: rows of the plan with all, some and no results") {
  const Sweep sweep;
  TableModel model = sweep.model();
  REQUIRE(model.lines.size() == 4);
  CHECK(model.lines[3].notes == std::vector<std::string>{"missing"});
  CHECK(model.lines[3].count == "0/2");
  sweep.publish(0, sweep.result(0));
  sweep.publish(6, sweep.result(6));
  model = sweep.model();
  CHECK(model.lines[0].count == "1/2");
  CHECK(model.lines[0].seeds[0].trial == sweep.experiment.trials[0].id);
  CHECK(model.lines[3].mean.value.value() == doctest::Approx(100 * *model.lines[3].seeds[0].value));
  CHECK(!model.lines[3].gain.value.has_value() == !model.lines[1].mean.value.has_value());
  sweep.publish_all();
  model = sweep.model();
  CHECK(model.strips.size() == 2);
  CHECK(model.strips[0].label == "lr=0.001");
  CHECK(model.lines[2].baseline == 0);
  CHECK(model.lines[3].baseline == 1);
  CHECK(model.lines[2].gain.value.has_value());
  CHECK(model.problems.empty());
}

TEST_CASE("sweep_table: a damaged, a foreign and a newer result are named in their rows, the others stand") {
  const Sweep sweep;
  sweep.publish_all();
  const TableModel before = sweep.model();
  std::ofstream(sweep.result_file(2)) << "{\"schema\": 1, \"id\": \"";
  TrialResult foreign = sweep.result(4);
  foreign.id = std::string(64, 'a');
  std::ofstream(sweep.result_file(4)) << write_trial_result(foreign);
  std::string newer = write_trial_result(sweep.result(7));
  newer.replace(newer.find("\"schema\": 2"), 11, "\"schema\": 3");
  std::ofstream(sweep.result_file(7)) << newer;

  const TableModel model = sweep.model();
  REQUIRE(model.problems.size() == 3);
  CHECK(has(model.problems[0], sweep.result_file(2).string()));
  CHECK(has(model.problems[0], "lr=0.01"));
  CHECK(has(model.problems[1], "this is the result of trial aaaa"));
  CHECK(has(model.problems[2], "schema 3"));
  CHECK(model.lines[0].mean.text == before.lines[0].mean.text);
  CHECK(model.lines[0].mean.value == before.lines[0].mean.value);
  CHECK(model.lines[1].seeds[0].state == SeedState::unreadable);
  CHECK(model.lines[1].n == 1);
  CHECK(model.lines[1].notes.front().starts_with("1/2 unreadable: "));
  CHECK(has(render_table(model, TableFormat::text), "3 of 8 results cannot be read"));
}

TEST_CASE("sweep_table: a result that is not finite, as older versions wrote it, is a diverged run and no accuracy") {
  const Sweep sweep;
  sweep.publish_all();
  for (const std::size_t t : {2, 3}) {
    TrialResult old = sweep.result(t);
    old.metrics = {{"eval/accuracy", 0.1}, {"eval/loss", std::numeric_limits<double>::quiet_NaN()}};
    old.steps = 10;
    remove_file(sweep.result_file(t));
    publish_unsealed(sweep.store.trial(old.id), old);
  }
  for (std::size_t t = 0; t < sweep.experiment.trials.size(); ++t) {
    const TrialFolder trial = sweep.store.trial(sweep.experiment.trials[t].id);
    make_folders(attempt_folder(trial.path(), 1));
    MetricsLog(trial.metrics(1)).append({10, 1.0, trial.load_result()->metrics});
  }
  TableModel model = sweep.model();
  CHECK(model.problems.empty());
  CHECK(model.lines[1].n == 0);
  CHECK(!model.lines[1].mean.value);
  CHECK(model.lines[1].notes.front().starts_with("2/2 diverged @10 in evaluation"));
  for (const TableFormat format : {TableFormat::text, TableFormat::markdown, TableFormat::csv, TableFormat::latex,
                                   TableFormat::json, TableFormat::html})
    CHECK(!has(render_table(model, format), "10.0"));  // nor anything near it in another row

  // Where they count as guessing nothing was measured, so there is no interval and no part in the common noise.
  TableOptions options;
  options.diverged = TableDiverged::chance;
  model = sweep.model(options);
  CHECK(model.lines[1].mean.value == 10.0);
  CHECK(!model.lines[1].half_width.value);
  CHECK(!has(render_table(model, TableFormat::text), "±0.0"));

  options.diverged = TableDiverged::exclude;
  options.metric = "eval/loss";
  CHECK(!sweep.model(options).lines[1].mean.value);
  options = {};
  options.select = TableSelect::mean_last_k;
  options.last_k = 1;
  CHECK(!sweep.model(options).lines[1].mean.value);
}

TEST_CASE("sweep_table: a metric that does not exist, with the one that was meant") {
  const Sweep sweep;
  TableOptions options;
  options.metric = "eval/acuracy";
  CHECK_NOTHROW(sweep.model(options));  // nobody knows yet
  sweep.publish_all();
  CHECK(error_of(sweep, options) ==
        "--metric eval/acuracy: no result has it; did you mean \"eval/accuracy\"?; the results have eval/accuracy, "
        "eval/loss");
  options.metric = "eval/loss";
  const TableModel model = sweep.model(options);
  CHECK(model.unit.empty());
  CHECK(model.lines[0].mean.text == "1.5000");
  options.diverged = TableDiverged::chance;
  CHECK(has(error_of(sweep, options), "--diverged chance: the eval/loss of a run that guesses is unknown"));
}

TEST_CASE("sweep_table: best_minival and mean_last_k read the evaluations of the attempt that the result names") {
  const Sweep sweep("1");
  const double eval[] = {0.50, 0.61, 0.62, 0.60}, minival[] = {0.40, 0.55, 0.54, 0.55};
  for (std::size_t t = 0; t < 4; ++t) {
    const TrialFolder trial = sweep.store.trial(sweep.experiment.trials[t].id);
    make_folders(attempt_folder(trial.path(), 1));
    make_folders(attempt_folder(trial.path(), 2));  // of somebody who lost the race
    MetricsLog log(trial.metrics(1));
    for (int e = 0; e < 4; ++e) {
      log.append({.step = 10 * e + 5, .progress = 0.1, .values = {{"train/loss", 1.0}}});
      log.append({.step = 10 * e + 10,
                  .progress = 0.1,
                  .values = {{"eval/accuracy", eval[e] + 0.01 * double(t)}, {"minival/accuracy", minival[e]}}});
    }
    TrialResult result = sweep.result(t);
    result.metrics = {{"eval/accuracy", eval[3] + 0.01 * double(t)}};
    sweep.publish(t, result);
  }
  TableOptions options;
  options.select = TableSelect::best_minival;
  TableModel model = sweep.model(options);
  CHECK(model.lines[0].mean.value.value() ==
        doctest::Approx(61.0));  // the first of equals, not the best on the test set
  CHECK(model.lines[2].gain.value.value() == doctest::Approx(2.0));
  CHECK(has(model.footer[1].text, "best minival/accuracy"));
  options.select = TableSelect::mean_last_k;
  options.last_k = 3;
  model = sweep.model(options);
  CHECK(model.lines[0].mean.value.value() == doctest::Approx(61.0));
  CHECK(has(model.footer[1].text, "mean over the last 3 evaluations"));
  {  // one that is damaged is a fault of its run
    const auto damaged = sweep.experiment.trials[0].id;
    const TrialFolder trial = sweep.store.trial(damaged);
    const auto path = trial.metrics(trial.load_result()->attempt);
    const std::string whole = read_file(path);
    write_atomically(path, "{\"step\": \n" + whole);
    const TableModel rest = sweep.model(options);
    CHECK(rest.problems.size() == 1);
    CHECK(has(rest.problems.at(0), "metrics.jsonl"));
    CHECK(rest.lines[2].mean.value.has_value());
    write_atomically(path, whole);
  }
  options.last_k = 5;
  CHECK(has(error_of(sweep, options), "has 4 values of eval/accuracy, fewer than 5; give --last 4"));
  options.last_k = 3;
  options.bootstrap = true;
  CHECK(has(error_of(sweep, options), "--bootstrap"));
}

TEST_CASE("sweep_table: best_minival without a minival is refused") {
  const Sweep sweep("1");
  for (std::size_t t = 0; t < sweep.experiment.trials.size(); ++t) {
    TrialResult result = sweep.result(t);
    result.metrics = {{"eval/accuracy", 0.5}};
    const TrialFolder folder = sweep.store.trial(result.id);
    make_folders(attempt_folder(folder.path(), 1));
    MetricsLog(folder.metrics(1)).append({.step = 10, .progress = 1, .values = result.metrics});
    sweep.publish(t, result);
  }
  TableOptions options;
  options.select = TableSelect::best_minival;
  CHECK(has(error_of(sweep, options), "has no minival/accuracy; it needs a run with \"dataset\": {\"minival\""));
}

TEST_CASE("sweep_table: folders without a descriptor make rows of what differs") {
  const Sweep sweep;
  sweep.publish_all();
  const std::filesystem::path out = sweep.store.out();
  const TableModel model = folders_table_model(std::vector{out}, {});
  CHECK(model.axes == std::vector<std::string>{"model.placement", "train.optimizer.lr"});
  REQUIRE(model.lines.size() == 4);
  CHECK(model.lines[0].axes == std::vector<std::string>{"dpn", "0.001"});
  CHECK(model.lines[3].axes == std::vector<std::string>{"pre_pre", "0.01"});
  CHECK(model.lines[0].seeds.size() == 2);
  CHECK(model.lines[0].seeds[1].seed == 1);
  const TableModel by_plan = sweep.model();
  CHECK(model.lines[3].mean.value == by_plan.lines[1].mean.value);

  // The same trial twice is one; one trial alone is a row without settings; damage is a row of its own.
  const std::filesystem::path one = sweep.store.trial(sweep.experiment.trials[5].id).path();
  CHECK(folders_table_model(std::vector{out, one}, {}).lines.size() == 4);
  const TableModel single = folders_table_model(std::vector{one}, {});
  REQUIRE(single.lines.size() == 1);
  CHECK(single.lines[0].label == "dpn");
  std::ofstream(one / "config.json") << "{";
  const TableModel damaged = folders_table_model(std::vector{out}, {});
  CHECK(damaged.lines.size() == 5);
  CHECK(damaged.problems.size() == 1);
  CHECK_THROWS_AS(folders_table_model(std::vector{sweep.folder.path()}, {}), InputError);
}

TEST_CASE(
    "sweep_table: rows of a folder have the plan's names of placements, and settings only where those do not do") {
  TemporaryFolder folder;
  const ResultStore store(folder / "out");
  const auto publish = [&](const std::string& stem, const std::string& model, const std::string& more, bool planned) {
    std::ofstream(folder / (stem + ".json"))
        << R"({"dataset": {"name": "shapes"}, "seeds": 1,
      "model": {"kind": "vit", "patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2)"
        << model << R"(}, "train": {"steps": 10, "batch_size": 4}, )" << more << "}";
    const Experiment experiment = load_experiment(folder / (stem + ".json"));
    for (const Trial& trial : experiment.trials) {
      store.trial(trial.id).write_config(full_json(trial.config));
      TrialResult result;
      result.id = trial.id;
      result.attempt = 1;
      result.metrics = {{"eval/accuracy", 0.5}};
      store.trial(trial.id).publish_result(result);
    }
    if (!planned) return;
    std::filesystem::create_directories(store.out() / "experiments" / stem);
    std::ofstream(store.out() / "experiments" / stem / "plan.json") << plan_json(experiment);
  };
  const auto labels = [&] {
    std::string out;
    for (const TableLine& line : folders_table_model(std::vector{store.out()}, {}).lines) out += line.label + "\n";
    return out;
  };
  publish("own", "", R"("placements": {"mine": {"base": "pre_pre", "stem": {"patch_in": "rms_norm"}}},
    "sweep": {"model.placement": ["pre_pre", "dpn", "mine"]})",
          true);
  CHECK(labels() ==
        "placement=dpn\n"
        "placement=mine\n"
        "placement=pre_pre\n");
  // One of no plan has no name; what is not at its default tells what it is.
  publish("unnamed", R"(, "placement": {"attn": {"query": {"kind": "rms_norm", "eps": 0.001}}})", R"("about": "")",
          false);
  CHECK(labels() ==
        "placement=dpn\n"
        "placement=mine\n"
        "placement=other, query=rms_norm, eps=0.001\n"
        "placement=pre_pre\n");
  // One name for two placements.
  publish("again", "", R"("placements": {"mine": {"base": "pre_pre", "final": "none"}},
    "sweep": {"model.placement": ["mine"]})",
          true);
  CHECK(labels() ==
        "placement=dpn\n"
        "placement=mine\n"
        "placement=mine, final=layer_norm, patch_in=rms_norm\n"
        "placement=other, query=rms_norm, eps=0.001\n"
        "placement=pre_pre\n");
}
