#include "experiments/lab/tables/lr_sensitivity.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "experiments/lab/tables/table.h"
#include "tests/lab/base/text.h"

using namespace normlab;

namespace {

TableSeed run_with(std::uint64_t seed, double accuracy, double final_loss, double first_loss = 2) {
  TableSeed run;
  run.seed = seed;
  run.trial = "t";
  run.state = SeedState::done;
  run.value = accuracy;
  run.first_loss = first_loss;
  run.final_loss = final_loss;
  return run;
}

TableSeed diverged(std::uint64_t seed, std::optional<double> first_loss = 2, std::int64_t step = 7) {
  TableSeed run;
  run.seed = seed;
  run.state = SeedState::diverged;
  run.diverged_step = step;
  run.first_loss = first_loss;
  return run;
}

/// Two placements at three rates, two seeds each. The final losses of seed s are 1 + s/10 and so on; the sensitivities
/// of pre_pre are 1/3 and 0.3, those of dpn 0.5 and 0.4.
TableInput three_rates() {
  TableInput input;
  input.name = "sweep";
  input.axes = {"model.placement", "train.optimizer.lr"};
  const double losses[2][3][2] = {{{1.5, 1.6}, {1.0, 1.1}, {1.5, 1.5}}, {{1.6, 1.5}, {0.9, 0.9}, {1.7, 1.5}}};
  const double accuracies[2][3][2] = {{{0.5, 0.6}, {0.8, 0.7}, {0.4, 0.4}}, {{0.5, 0.5}, {0.5, 0.6}, {0.7, 0.5}}};
  for (std::size_t p = 0; p < 2; ++p)
    for (std::size_t l = 0; l < 3; ++l) {
      TableRow& row = input.rows.emplace_back();
      row.axes = {p == 0 ? "pre_pre" : "dpn", l == 0 ? "1e-3" : l == 1 ? "0.01" : "0.1"};
      row.label = "placement=" + row.axes[0] + ", lr=" + row.axes[1];
      row.baseline = l;
      row.chance = 0.1;
      for (std::size_t s = 0; s < 2; ++s) row.seeds.push_back(run_with(s, accuracies[p][l][s], losses[p][l][s]));
    }
  return input;
}

TableModel model_of(const TableInput& swept, TableOptions options = {}) {
  options.lr_sensitivity = true;
  return table_model(lr_sensitivity_input(swept, options), lr_sensitivity_options(options));
}

std::string detection_refusal(const TableInput& swept, const TableOptions& options = {}) {
  try {
    lr_sensitivity_input(swept, options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string footer_of(const TableModel& model) {
  std::string text;
  for (const TableSentence& sentence : model.footer) text += sentence.text + "\n";
  return text;
}

}  // namespace

TEST_CASE("lr_sensitivity: the label of the metric is in heading and sentence") {
  TableInput input = three_rates();
  input.labels = {{"eval/accuracy", "Top-1"}};
  const std::string text = render_table(model_of(input), TableFormat::markdown);
  CHECK(text.find("| best Top-1 [%] |") != text.npos);
  CHECK(text.find("The best Top-1 is that of") != text.npos);
  CHECK(text.find("eval/accuracy") == text.npos);
}

TEST_CASE(
    "lr_sensitivity: a row for each combination of the other axes, computed by seed and paired with the baseline") {
  const TableModel model = model_of(three_rates());
  REQUIRE(model.lines.size() == 2);
  const TableLine &pre_pre = model.lines[0], &dpn = model.lines[1];
  CHECK(model.axes == std::vector<std::string>{"model.placement"});
  CHECK(*pre_pre.seeds[0].value == doctest::Approx(1.0 / 3));
  CHECK(*pre_pre.seeds[1].value == doctest::Approx(0.3));
  CHECK(*dpn.seeds[0].value == doctest::Approx(0.5));
  CHECK(*dpn.seeds[1].value == doctest::Approx(0.4));
  CHECK(*pre_pre.mean.value == doctest::Approx((1.0 / 3 + 0.3) / 2));
  CHECK(pre_pre.half_width.value);
  CHECK(pre_pre.is_baseline);
  CHECK(dpn.baseline == 0);
  CHECK(*dpn.gain.value == doctest::Approx((1.0 / 3 + 0.3) / 2 - 0.45));  // smaller is better
  CHECK(model.columns[1].heading == "best eval/accuracy [%]");
  CHECK(model.columns[2].heading == "lr sensitivity");
  CHECK(model.grid[0].cells[1].text().ends_with("(2) at 0.01"));
  CHECK(model.grid[0].cells[1].text().starts_with("75"));
  CHECK(model.grid[1].cells[1].text().ends_with("(2) at 0.1"));
  CHECK(has(footer_of(model), "over 3 rates from 1e-3 to 0.1"));
  CHECK(!has(footer_of(model), "Warning"));
  CHECK(!has(footer_of(model), "test set"));
}

TEST_CASE("lr_sensitivity: the order of the rates in the plan does not matter") {
  TableInput swept = three_rates();
  std::swap(swept.rows[0], swept.rows[2]);
  for (TableRow& row : swept.rows) row.baseline = 2 - *row.baseline % 3;
  swept.rows[0].baseline = 0;
  swept.rows[1].baseline = 1;
  swept.rows[2].baseline = 2;
  const TableModel model = model_of(swept);
  CHECK(*model.lines[0].seeds[0].value == doctest::Approx(1.0 / 3));
  CHECK(model.lines[0].rates.front().label == "1e-3");
  CHECK(model.lines[0].rates.back().runs.front().loss == 1.5);
}

TEST_CASE("lr_sensitivity: a diverged run, and one worse than at the start, count as the loss at the start") {
  TableInput swept = three_rates();
  swept.rows[2].seeds[0] = diverged(0);
  swept.rows[2].seeds[1].final_loss = 40;
  const TableModel model = model_of(swept);
  CHECK(*model.lines[0].seeds[0].value == doctest::Approx((1.5 + 1.0 + 2.0) / 3 - 1.0));
  CHECK(*model.lines[0].seeds[1].value == doctest::Approx((1.6 + 1.1 + 2.0) / 3 - 1.1));
  CHECK(model.lines[0].rates[2].runs[0].diverged);
  CHECK(!model.lines[0].rates[2].runs[1].diverged);
  CHECK(model.lines[0].notes == std::vector<std::string>{"1/6 runs diverged"});
  CHECK(model.lines[0].n == 2);
}

TEST_CASE("lr_sensitivity: a run that diverged in its first step takes the loss at the start from another rate") {
  TableInput swept = three_rates();
  swept.rows[2].seeds[0] = diverged(0, std::nullopt, 0);
  CHECK(*model_of(swept).lines[0].seeds[0].value == doctest::Approx((1.5 + 1.0 + 2.0) / 3 - 1.0));
  swept.rows[0].seeds[0] = swept.rows[1].seeds[0] = swept.rows[2].seeds[0];
  CHECK(!model_of(swept).lines[0].seeds[0].value);
}

TEST_CASE("lr_sensitivity: a seed without all rates has no value, and the row tells how many rates have results") {
  TableInput swept = three_rates();
  swept.rows[1].seeds[1] = {};
  swept.rows[1].seeds[1].seed = 1;
  swept.rows[5].seeds.pop_back();
  const TableModel model = model_of(swept);
  CHECK(model.lines[0].seeds[0].value);
  CHECK(!model.lines[0].seeds[1].value);
  CHECK(model.lines[0].count == "1/2");
  CHECK(model.lines[0].notes == std::vector<std::string>{"1/2 stopped at 66%", "2/3 rates"});
  CHECK(model.lines[1].count == "1/2");
  CHECK(model.lines[0].best.rate == "1e-3");  // the only rates with both seeds are 1e-3 and 0.1
  CHECK(has(footer_of(model), "1 of 11 runs are not finished"));
}

TEST_CASE("lr_sensitivity: one seed has no interval") {
  TableInput swept = three_rates();
  for (TableRow& row : swept.rows) row.seeds.pop_back();
  const TableModel model = model_of(swept);
  CHECK(model.lines[0].mean.value);
  CHECK(!model.lines[0].half_width.value);
  CHECK(!model.lines[1].gain_half_width.value);
  CHECK(model.lines[1].gain.value);
}

TEST_CASE("lr_sensitivity: rows with other rates have no gain, and each names its range") {
  TableInput swept = three_rates();
  swept.rows.pop_back();
  const TableModel model = model_of(swept);
  CHECK(!model.lines[1].baseline);
  CHECK(!model.lines[0].baseline);
  CHECK(model.lines[1].notes == std::vector<std::string>{"2 rates from 1e-3 to 0.01"});
  CHECK(model.lines[0].notes == std::vector<std::string>{"3 rates from 1e-3 to 0.1"});
  CHECK(has(footer_of(model), "over the rates of a row"));
}

TEST_CASE("lr_sensitivity: unevenly spaced rates are named") {
  TableInput swept = three_rates();
  for (const std::size_t r : {1U, 4U}) swept.rows[r].axes[1] = "0.05";
  CHECK(has(footer_of(model_of(swept)), "are not evenly spaced in the logarithm"));
  CHECK(evenly_spaced(std::vector{1e-4, 3e-4, 1e-3, 3e-3, 1e-2}));
  CHECK(!evenly_spaced(std::vector{1.0, 2.0, 5.0, 10.0}));
  CHECK(!evenly_spaced(std::vector{0.1, 0.2, 0.3}));
}

TEST_CASE("lr_sensitivity: tables without rates are refused") {
  TableInput swept = three_rates();
  swept.axes[1] = "train.optimizer.weight_decay";
  CHECK(has(detection_refusal(swept), "no row has two rates; sweep over train.optimizer.lr in the descriptor"));
  swept = three_rates();
  swept.rows.resize(1);
  CHECK(has(detection_refusal(swept), "no row has two rates"));
  swept = three_rates();
  swept.rows[1].axes[1] = "0";
  CHECK(has(detection_refusal(swept), "a rate of 0 has no logarithm"));
  TableOptions options;
  options.bootstrap = true;
  CHECK(has(detection_refusal(three_rates(), options), "--bootstrap"));
}

TEST_CASE("lr_sensitivity: results without the losses are named, with what to do") {
  TableInput swept = three_rates();
  swept.rows[1].seeds[1].first_loss.reset();
  swept.rows[4].seeds[0].final_loss.reset();
  const std::string words = detection_refusal(swept);
  CHECK(has(words, "2 of 12 results lack train/first_loss or train/loss"));
  CHECK(has(words, "placement=pre_pre, lr=0.01, seed 1 (trial t)"));
  CHECK(has(words, "placement=dpn, lr=0.01, seed 0 (trial t)"));
  CHECK(has(words, "remove the folders of these trials"));
  for (TableRow& row : swept.rows)
    for (TableSeed& run : row.seeds) run.first_loss.reset();
  CHECK(has(detection_refusal(swept), "; 9 more;"));
}

TEST_CASE("lr_sensitivity: an unreadable result is named as in other tables") {
  TableInput swept = three_rates();
  TableSeed& run = swept.rows[1].seeds[1];
  run.state = SeedState::unreadable;
  run.message = "x.json: is damaged";
  run.fault = ExitCode::bad_input;
  const TableModel model = model_of(swept);
  CHECK(model.problems == std::vector<std::string>{"pre_pre: x.json: is damaged"});
  CHECK(model.outcome == ExitCode::bad_input);
}

TEST_CASE("lr_sensitivity: JSON and CSV have the best metric, its rate and the losses") {
  const TableModel model = model_of(three_rates());
  const nlohmann::json json = nlohmann::json::parse(render_table_json(model));
  CHECK(json.at("metric") == "lr sensitivity");
  const nlohmann::json& row = json.at("rows").at(0);
  CHECK(row.at("best").at("rate") == 0.01);
  CHECK(row.at("best").at("mean") == doctest::Approx(75));
  CHECK(row.at("rates").at(2).at("runs").at(1).at("loss") == 1.5);
  CHECK(!row.at("seeds").at(0).contains("trial"));
  const std::string csv = render_table_csv(model);
  CHECK(has(csv, "model.placement,best eval/accuracy [%],best_half_width,best_n,best_rate,rates,lr sensitivity,"));
  CHECK(has(csv, "\npre_pre,75,"));
  CHECK(has(csv, ",2,0.01,3,0.31666666666666"));
}

TEST_CASE("learned: a row whose training loss stays near that of the first step says so") {
  TableInput swept = three_rates();
  TableOptions options;
  const auto noted = [&](const TableModel& model) {
    std::string labels;
    for (const TableLine& line : model.lines)
      for (const std::string& note : line.notes)
        labels += line.axes[0] + (line.axes.size() > 1 ? line.axes[1] : "") + ": " + note + "\n";
    return labels;
  };
  CHECK(noted(table_model(swept, options)).empty());
  options.learned = 0.77;
  // Means of the final losses over 2: 0.775 0.525 0.75, and 0.775 0.45 0.8.
  CHECK(noted(table_model(swept, options)) ==
        "pre_pre1e-3: has not learned\ndpn1e-3: has not learned\ndpn0.1: has not learned\n");
  CHECK(noted(model_of(swept, options)) == "pre_pre: has not learned at 1e-3\ndpn: has not learned at 1e-3, 0.1\n");
  CHECK(has(footer_of(table_model(swept, options)), "is above 0.77 of that of the first step"));
  swept.rows[0].seeds[0].first_loss.reset();
  swept.rows[0].seeds[1] = diverged(1);
  CHECK(!has(noted(table_model(swept, options)), "pre_pre1e-3: has not"));
  CHECK(has(footer_of(table_model(swept, options)), "did not record train/first_loss: 1 result."));
  options.learned = -1;
  CHECK_THROWS_WITH_AS(table_model(swept, options), "--learned -1: expected a number above 0", InputError);
}

TEST_CASE("lr_sensitivity: final losses of an older version beside newer ones are said once") {
  TableInput swept = three_rates();
  const auto said = [](const TableModel& model) {
    std::size_t times = 0;
    for (const TableSentence& sentence : model.footer) times += sentence.text.starts_with("Mixed train/loss: ");
    return times;
  };
  CHECK(said(model_of(swept)) == 0);
  swept.rows[2].seeds[1].last_steps = false;
  CHECK(said(model_of(swept)) == 1);
  TableOptions learned;
  learned.learned = 0.5;
  CHECK(said(model_of(swept, learned)) == 1);
}
