#include "experiments/lab/tables/sweep_table.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/tables/table.h"
#include "experiments/lab/tables/trial_seed.h"
#include "experiments/lab/trials/metrics_log.h"
#include "tests/lab/base/text.h"
#include "tests/lab/pictures/fake_results.h"
#include "tests/lab/sweep/small_sweep.h"
#include "tests/lab/trials/unsealed_result.h"

using namespace normlab;

namespace {

/// The sweep with results and metrics. One row is not finite, as earlier versions wrote it.
struct SweepWithNan : SmallSweep {
  SweepWithNan() {
    publish_all();
    for (const std::size_t t : {2, 3}) {
      TrialResult old = result(t);
      old.metrics = {{"eval/accuracy", 0.1}, {"eval/loss", std::numeric_limits<double>::quiet_NaN()}};
      old.steps = 10;
      remove_file(result_file(t));
      publish_unsealed(store.trial(old.id), old);
    }
    for (const Trial& planned : experiment.trials) {
      const TrialFolder trial = store.trial(planned.id);
      make_folders(attempt_folder(trial.path(), 1));
      MetricsLog(trial.metrics(1)).append({10, 1.0, trial.load_result()->metrics});
    }
  }
};

/// One seed each, with four evaluations in the attempt that the result names.
struct SweepWithEvaluations : SmallSweep {
  SweepWithEvaluations() : SmallSweep("1") {
    const double eval[] = {0.50, 0.61, 0.62, 0.60}, minival[] = {0.40, 0.55, 0.54, 0.55};
    for (std::size_t t = 0; t < 4; ++t) {
      const TrialFolder trial = store.trial(experiment.trials[t].id);
      make_folders(attempt_folder(trial.path(), 1));
      make_folders(attempt_folder(trial.path(), 2));  // of a process that lost the race
      MetricsLog log(trial.metrics(1));
      for (int e = 0; e < 4; ++e) {
        log.append({.step = 10 * e + 5, .progress = 0.1, .values = {{"train/loss", 1.0}}});
        log.append({.step = 10 * e + 10,
                    .progress = 0.1,
                    .values = {{"eval/accuracy", eval[e] + 0.01 * double(t)}, {"minival/accuracy", minival[e]}}});
      }
      TrialResult last = result(t);
      last.metrics = {{"eval/accuracy", eval[3] + 0.01 * double(t)}};
      publish(t, last);
    }
  }
};

TableOptions mean_of_last(std::size_t k) {
  TableOptions options;
  options.select = TableSelect::mean_last_k;
  options.last_k = k;
  return options;
}

std::string error_of(const SmallSweep& sweep, const TableOptions& options) {
  try {
    sweep.model(options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("sweep_table: a row without results is missing") {
  const SmallSweep sweep;
  const TableModel model = sweep.model();
  REQUIRE(model.lines.size() == 4);
  CHECK(model.lines[3].notes == std::vector<std::string>{"missing"});
  CHECK(model.lines[3].count == "0/2");
}

TEST_CASE("sweep_table: a row with some results counts them") {
  const SmallSweep sweep;
  sweep.publish(0, sweep.result(0));
  sweep.publish(6, sweep.result(6));
  const TableModel model = sweep.model();
  CHECK(model.lines[0].count == "1/2");
  CHECK(model.lines[0].seeds[0].trial == sweep.experiment.trials[0].id);
  CHECK(model.lines[3].mean.value.value() == doctest::Approx(100 * *model.lines[3].seeds[0].value));
  CHECK(!model.lines[3].gain.value.has_value() == !model.lines[1].mean.value.has_value());
}

TEST_CASE("sweep_table: rows with all results are in strips with their baselines") {
  const SmallSweep sweep;
  sweep.publish_all();
  const TableModel model = sweep.model();
  CHECK(model.strips.size() == 2);
  CHECK(model.strips[0].label == "lr=0.001");
  CHECK(model.lines[2].baseline == 0);
  CHECK(model.lines[3].baseline == 1);
  CHECK(model.lines[2].gain.value.has_value());
  CHECK(model.problems.empty());
}

TEST_CASE("sweep_table: times and memory are those of the results") {
  SmallSweep sweep;
  TrialResult result = sweep.result(0);
  result.wall_seconds = 12;
  result.images_per_second = 340;
  result.peak_mb = 56;
  sweep.publish(0, result);
  TableOptions options;
  options.columns = {"seconds", "images_per_second", "peak_mb"};
  const std::vector<Figure> measured = sweep.model(options).lines[0].measured;
  REQUIRE(measured.size() == 3);
  CHECK(measured[0].value == 12);
  CHECK(measured[1].value == 340);
  CHECK(measured[2].value == 56);
}

TEST_CASE("sweep_table: a result that cannot be read is named in its row") {
  const SmallSweep sweep;
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

TEST_CASE("sweep_table: an old result that is not finite is a diverged run") {
  const SweepWithNan sweep;
  const TableModel model = sweep.model();
  CHECK(model.problems.empty());
  CHECK(model.lines[1].n == 0);
  CHECK(!model.lines[1].mean.value);
  CHECK(model.lines[1].notes.front().starts_with("2/2 diverged @10 in evaluation"));
  for (const TableFormat format : {TableFormat::text, TableFormat::markdown, TableFormat::csv, TableFormat::latex,
                                   TableFormat::json, TableFormat::html}) {
    CAPTURE(render_table(model, format));
    CHECK(count(render_table(model, format), "10.0") ==
          count(render_table(model, format), "most frequent class: 10.0"));
  }
}

TEST_CASE("sweep_table: a run that counts as guessing has no interval") {
  const SweepWithNan sweep;
  TableOptions options;
  options.diverged = TableDiverged::chance;
  const TableModel model = sweep.model(options);
  CHECK(model.lines[1].mean.value == 10.0);
  CHECK(!model.lines[1].half_width.value);
  CHECK(!has(render_table(model, TableFormat::text), "±0.0"));
}

TEST_CASE("sweep_table: runs that count as guessing alone are no single seeds") {
  const SmallSweep sweep;
  for (const Trial& trial : sweep.experiment.trials) fake_diverged(sweep.store, trial, 25);
  TableOptions options;
  options.diverged = TableDiverged::chance;
  const std::string text = render_table(sweep.model(options), TableFormat::text);
  CHECK(has(text, "Runs that count as guessing have no spread"));
  CHECK(!has(text, "One seed has no interval"));
}

TEST_CASE("sweep_table: a result that is not finite has no mean of any metric") {
  const SweepWithNan sweep;
  TableOptions options;
  options.metric = "eval/loss";
  CHECK(!sweep.model(options).lines[1].mean.value);
  options = {};
  options.select = TableSelect::mean_last_k;
  options.last_k = 1;
  CHECK(!sweep.model(options).lines[1].mean.value);
}

TEST_CASE("sweep_table: an unknown metric is refused with the nearest one") {
  const SmallSweep sweep;
  TableOptions options;
  options.metric = "eval/acuracy";
  CHECK_NOTHROW(sweep.model(options));  // without results no metric is known
  sweep.publish_all();
  CHECK(error_of(sweep, options) ==
        "--metric eval/acuracy: no result has it; did you mean \"eval/accuracy\"?; the results have eval/accuracy, "
        "eval/loss");
}

TEST_CASE("sweep_table: a loss has no unit and no chance level") {
  const SmallSweep sweep;
  sweep.publish_all();
  TableOptions options;
  options.metric = "eval/loss";
  const TableModel model = sweep.model(options);
  CHECK(model.unit.empty());
  CHECK(model.lines[0].mean.text == "1.5000");
  options.diverged = TableDiverged::chance;
  CHECK(has(error_of(sweep, options), "--diverged chance: the eval/loss of a run that guesses is unknown"));
}

TEST_CASE("sweep_table: only accuracies of classification have a chance level") {
  const SmallSweep sweep;
  const ModelConfig& model = sweep.experiment.trials[0].config.model;
  CHECK(chance_of("eval/accuracy", model) == 1.0 / double(num_classes(model)));
  CHECK(chance_of("minival/ema_accuracy", model) == 1.0 / double(num_classes(model)));
  for (const char* metric : {"eval/loss", "eval/miou", "eval/pixel_accuracy", "eval/5shot_accuracy"})
    CHECK(!chance_of(metric, model));
  ModelConfig segments = model;
  std::get<ViTConfig>(segments).task = Task::segment;
  CHECK(!chance_of("eval/accuracy", segments));
}

TEST_CASE("sweep_table: best_minival selects the evaluation with the best minival accuracy") {
  const SweepWithEvaluations sweep;
  TableOptions options;
  options.select = TableSelect::best_minival;
  const TableModel model = sweep.model(options);
  CHECK(model.lines[0].mean.value.value() ==
        doctest::Approx(61.0));  // the first of equals, not the best on the test set
  CHECK(model.lines[2].gain.value.value() == doctest::Approx(2.0));
  CHECK(has(model.footer[1].text, "best minival/accuracy"));
}

TEST_CASE("sweep_table: mean_last_k averages the last evaluations") {
  const SweepWithEvaluations sweep;
  const TableModel model = sweep.model(mean_of_last(3));
  CHECK(model.lines[0].mean.value.value() == doctest::Approx(61.0));
  CHECK(has(model.footer[1].text, "mean over the last 3 evaluations"));
}

TEST_CASE("sweep_table: damaged metrics are a problem of their run alone") {
  const SweepWithEvaluations sweep;
  const TrialFolder trial = sweep.store.trial(sweep.experiment.trials[0].id);
  const auto path = trial.metrics(trial.load_result()->attempt);
  write_atomically(path, "{\"step\": \n" + read_file(path));
  const TableModel rest = sweep.model(mean_of_last(3));
  CHECK(rest.problems.size() == 1);
  CHECK(has(rest.problems.at(0), "metrics.jsonl"));
  CHECK(rest.lines[2].mean.value.has_value());
}

TEST_CASE("sweep_table: mean_last_k of more evaluations than there are is refused") {
  const SweepWithEvaluations sweep;
  CHECK(has(error_of(sweep, mean_of_last(5)), "has 4 values of eval/accuracy, fewer than 5; give --last 4"));
}

TEST_CASE("sweep_table: the bootstrap of several evaluations is refused") {
  const SweepWithEvaluations sweep;
  TableOptions options = mean_of_last(3);
  options.bootstrap = true;
  CHECK(has(error_of(sweep, options), "--bootstrap"));
}

TEST_CASE("sweep_table: best_minival without a minival is refused") {
  const SmallSweep sweep("1");
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

TEST_CASE("sweep_table: what guessing reaches is recorded, or derived from a data set that is known to be balanced") {
  SmallSweep sweep;
  TrialResult result = sweep.result(0);
  TrialConfig config = sweep.experiment.trials[0].config;
  const EvaluatedSlices shapes = slices_of(result, config);
  CHECK(shapes.at("eval").images == 1000);
  CHECK(shapes.at("eval").guess.at("accuracy") == 0.1);
  CHECK(shapes.at("eval").guess.at("loss") == doctest::Approx(std::log(10.0)));
  config.dataset.eval_images = 1003;
  CHECK(slices_of(result, config).at("eval").guess.at("accuracy") == 101.0 / 1003);
  const auto unknown = [&](auto&& change) {
    TrialConfig other = config;
    change(other.dataset);
    CHECK(slices_of(result, other).empty());
  };
  unknown([](DatasetConfig& data) { data.eval = "test[:100]"; });
  unknown([](DatasetConfig& data) { data.eval = "train"; });
  unknown([](DatasetConfig& data) { data.name = "mnist"; });  // not as many images of each class
  unknown([](DatasetConfig& data) { data.name = "my own"; });
  unknown([](DatasetConfig& data) { data.classes = {"a", "b"}; });
  config.dataset.name = "cifar10";
  CHECK(slices_of(result, config).at("eval").images == 10'000);
  unknown([](DatasetConfig& data) { data.path = "mine"; });
  unknown([](DatasetConfig& data) { data.layout = DatasetLayout::image_folder; });
  result.bad_images = {"one"};
  unknown([](DatasetConfig&) {});
  result.slices = {{"eval", {38, {{"accuracy", 31.0 / 38}, {"loss", 1.4}}}}};
  CHECK(slices_of(result, config) == result.slices);
  // A loss of 1.5 is above 1.4.
  result.bad_images.clear();
  sweep.publish(0, result);
  sweep.publish(1, sweep.result(1));
  const TableModel model = sweep.model();
  CHECK(model.lines[0].notes[0] == "1/2 loss above guessing");
  CHECK(model.lines[0].seeds[0].guess == 31.0 / 38);
  CHECK(model.lines[0].seeds[1].guess == 0.1);
}
