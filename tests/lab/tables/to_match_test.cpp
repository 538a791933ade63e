// --to-match: when the baseline is as good as a row.
#include "experiments/lab/tables/to_match.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "experiments/lab/statistics/student.h"
#include "tests/lab/pictures/fake_results.h"
#include "tests/lab/sweep/small_sweep.h"
#include "tests/lab/tables/table_example.h"

using namespace normlab;

namespace {

constexpr char kThreeRows[] = R"({"dataset": "shapes", "train": {"epochs": 5},
  "sweep": {"model.placement": ["pre_pre", "dpn", "bn"]}, "baseline": {"model.placement": "pre_pre"}, "seeds": 3})";

/// Losses at epochs 1 to 5 are 2, 1, 2/3, 1/2 and 2/5 of `scale`, which differs between seeds.
struct Curves {
  explicit Curves(const char* text = kThreeRows) : experiment(experiment_of(folder, text)), store(folder / "out") {}

  void write(std::size_t row, std::size_t seed, double last, double scale = 1) {
    const Trial& trial = experiment.trials[experiment.rows[row].trials[seed]];
    const TrialFolder at = store.trial(trial.id);
    std::filesystem::create_directories(at.metrics(1).parent_path());
    MetricsLog log(at.metrics(1));
    for (int k = 1; k <= 5; ++k)
      log.append({10 * k, k / 5.0, {{"eval/loss", k == 5 && last > 0 ? last : scale * 2 / k}, {"train/loss", 1.0}}});
    TrialResult result = fake_result(trial, TrialEnd::done, 0.5);
    result.metrics = {{"eval/loss", last > 0 ? last : scale * 0.4}, {"train/loss", 1.0}};
    at.publish_result(result);
  }
  void write_baseline() {
    for (std::size_t s = 0; s < 3; ++s) write(0, s, 0, 1 + 0.1 * double(s));
  }
  TableModel model(TableMatch unit = TableMatch::epochs, const std::string& metric = "eval/loss") const {
    TableOptions options;
    options.metric = metric;
    options.to_match = unit;
    return sweep_table_model(experiment, store, options);
  }
  std::string error(TableMatch unit = TableMatch::epochs, const std::string& metric = "eval/loss") const {
    try {
      model(unit, metric);
    } catch (const InputError& problem) {
      return problem.what();
    }
    return "";
  }

  TemporaryFolder folder;
  Experiment experiment;
  ResultStore store;
};

}  // namespace

TEST_CASE("to match: the first place as good as the target, between two points") {
  const std::vector<std::pair<double, double>> falling{{1, 4}, {2, 2}, {3, 3}, {4, 1}};
  CHECK(first_match(falling, 3, true) == 1.5);
  CHECK(first_match(falling, 2, true) == 2);
  CHECK(first_match(falling, 1.5, true) == 3.75);
  CHECK(first_match(falling, 5, true) == 1);
  CHECK(!first_match(falling, 0.5, true));
  CHECK(first_match({{10, 0.2}, {20, 0.6}}, 0.4, false) == doctest::Approx(15));
  CHECK(!first_match({}, 1, true));
}

TEST_CASE("to match: the mean over seeds has the t interval of their places") {
  Curves curves;
  curves.write_baseline();
  for (std::size_t s = 0; s < 3; ++s) curves.write(1, s, 0.75);
  const TableModel model = curves.model();
  const BaselineMatch& match = model.lines[1].match;
  CHECK(match.pairs == 3);
  CHECK(match.reached == 3);
  // Between 2 / 2 and 2 / 3 of the scale at epochs 2 and 3.
  std::vector<double> places;
  for (const double scale : {1.0, 1.1, 1.2}) {
    const double at2 = scale, at3 = scale * 2 / 3, at4 = scale / 2;
    places.push_back(0.75 >= at3 ? 2 + (at2 - 0.75) / (at2 - at3) : 3 + (at3 - 0.75) / (at3 - at4));
  }
  CHECK(*match.mean.value == doctest::Approx(mean(places)));
  CHECK(*match.half_width.value == doctest::Approx(*mean_interval(places)->half_width));
  CHECK(model.lines[0].match.pairs == 0);
  const auto is_early = [](const TableSentence& s) { return s.text.find("at its first measurement") != s.text.npos; };
  CHECK(std::none_of(model.footer.begin(), model.footer.end(), is_early));
  const std::string text = render_table(model, TableFormat::text);
  CHECK(text.find("epochs to match") != text.npos);
  CHECK(*curves.model(TableMatch::steps).lines[1].match.mean.value == doctest::Approx(10 * mean(places)));
}

TEST_CASE("to match: a baseline that never gets there is said so, and gives no mean") {
  Curves curves;
  curves.write_baseline();
  for (std::size_t s = 0; s < 3; ++s) curves.write(1, s, s == 0 ? 0.45 : 0.3), curves.write(2, s, 0.2);
  const TableModel model = curves.model();
  CHECK(model.lines[1].match.reached == 1);
  CHECK(!model.lines[1].match.mean.value);
  const std::string text = render_table(model, TableFormat::text);
  CHECK(text.find("never in 2/3") != text.npos);
  CHECK(text.find("never (3)") != text.npos);
  std::string footer;
  for (const TableSentence& sentence : model.footer) footer += sentence.text;
  CHECK(footer.find("epochs to match: after how many epochs the baseline first is as good in eval/loss") !=
        footer.npos);
  CHECK(footer.find("a shorter training may need less") != footer.npos);
  const std::string csv = render_table(model, TableFormat::csv);
  CHECK(csv.find("epochs to match,match_half_width,match_reached,match_pairs") != csv.npos);
  const auto json = nlohmann::json::parse(render_table(model, TableFormat::json));
  CHECK(json["rows"][1]["match"]["reached"] == 1);
  CHECK(json["rows"][1]["match"]["mean"].is_null());
}

TEST_CASE("to match: a match at the first measurement may be earlier, which is said") {
  Curves curves;
  curves.write_baseline();
  for (std::size_t s = 0; s < 3; ++s) curves.write(1, s, s == 1 ? 2.5 : 0.75), curves.write(2, s, 0.75);
  const TableModel model = curves.model();
  CHECK(model.lines[1].match.reached == 3);
  std::string footer;
  for (const TableSentence& sentence : model.footer) footer += sentence.text + "\n";
  CHECK(footer.find("The baseline is as good at its first measurement already, so it may be so earlier: dpn.\n") !=
        footer.npos);
}

TEST_CASE("to match: only seeds that both have finished count") {
  Curves curves;
  curves.write_baseline();
  curves.write(1, 0, 0.75);
  fake_diverged(curves.store, curves.experiment.trials[curves.experiment.rows[1].trials[1]], 25);
  CHECK(curves.model().lines[1].match.pairs == 1);
  CHECK(curves.model().lines[2].match.pairs == 0);
}

TEST_CASE("to match: a damaged curve of the baseline is named") {
  Curves curves;
  curves.write_baseline();
  curves.write(1, 0, 0.75);
  const Trial& trial = curves.experiment.trials[curves.experiment.rows[0].trials[0]];
  std::fstream(curves.store.trial(trial.id).metrics(1)) << 'x';
  CHECK(curves.error().find("metrics.jsonl") != std::string::npos);
}

TEST_CASE("to match: the errors say what is missing") {
  Curves curves;
  curves.write_baseline();
  curves.write(1, 0, 0.75);
  CHECK(curves.error(TableMatch::epochs, "eval/loss").empty());
  Curves steps(R"({"dataset": "shapes", "train": {"steps": 50}, "sweep": {"model.placement": ["pre_pre", "dpn"]},
    "baseline": {"model.placement": "pre_pre"}, "seeds": 3})");
  steps.write_baseline();
  steps.write(1, 0, 0.75);
  CHECK(steps.error().find(
            "--to-match epochs: pre_pre, seed 0: is not trained for a number of epochs; use --to-match steps") !=
        std::string::npos);
  CHECK(steps.error(TableMatch::steps).empty());
  Curves alone(R"({"dataset": "shapes", "sweep": {"model.placement": ["pre_pre", "dpn"]}})");
  CHECK(alone.error().find("--to-match: no row has a baseline") != std::string::npos);
  TableOptions options;
  options.metric = "eval/loss";
  options.to_match = TableMatch::epochs;
  options.cols = {"placement"};
  CHECK_THROWS_WITH_AS(sweep_table_model(curves.experiment, curves.store, options),
                       doctest::Contains("--rows and --cols out"), InputError);
  options.cols = {};
  options.select = TableSelect::mean_last_k;
  options.last_k = 1;
  CHECK_THROWS_WITH_AS(sweep_table_model(curves.experiment, curves.store, options),
                       doctest::Contains("about the value at the end of a training"), InputError);
}
