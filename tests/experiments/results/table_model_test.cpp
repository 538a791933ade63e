#include "experiments/results/table_model.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "experiments/base/text_layout.h"
#include "experiments/results/table.h"
#include "experiments/statistics/many_to_one.h"
#include "experiments/statistics/proportions.h"
#include "tests/experiments/base/text.h"
#include "tests/experiments/results/table_example.h"

using namespace normlab;

namespace {

std::string footer(const TableModel& model, const std::string& key) {
  for (const TableSentence& sentence : model.footer)
    if (sentence.key == key) return sentence.text;
  return "";
}

StripRow values_of(const TableRow& row) {
  StripRow out;
  for (const TableSeed& seed : row.seeds) {
    out.diverged = out.diverged || seed.state == SeedState::diverged;
    if (seed.state == SeedState::done) out.values[seed.seed] = 100 * *seed.value;
  }
  return out;
}

}  // namespace

TEST_CASE("table_model: means, gains, intervals and marks are those of the statistics of each strip") {
  const TableInput input = strips_table();
  const TableModel model = table_model(input, {});
  REQUIRE(model.strips.size() == 2);
  CHECK(model.strips[1].label == "lr=0.003");
  for (std::size_t s = 0; s < 2; ++s) {
    const Strip strip{values_of(input.rows[s]), {values_of(input.rows[2 + s]), values_of(input.rows[4 + s])}};
    const ManyToOne expected = many_to_one(strip);
    REQUIRE(expected.procedure == Procedure::pooled);
    for (std::size_t r = 0; r < 2; ++r) {
      const TableLine& line = model.lines[2 + 2 * r + s];
      CHECK(line.gain.value == expected.rows[r].gain);
      CHECK(line.gain_half_width.value == expected.rows[r].half_width);
      CHECK(line.gain_low.value == expected.rows[r].low);
      CHECK(line.p.value == expected.rows[r].p);
      CHECK(line.differs == expected.rows[r].differs);
      CHECK(line.procedure == "simultaneous");
      CHECK(line.strip == s);
    }
    CHECK(model.strips[s].best_by_chance.value == best_gain_by_chance(std::vector{expected}));
    CHECK(model.strips[s].detectable.value == detectable_gain(expected, 5)->gain);
    CHECK(model.strips[s].detectable_high.value == detectable_gain(expected, 5)->high);
  }
  // By hand: the mean of 1.468, 1.178, 1.453, 0.951, 1.636.
  CHECK(model.lines[2].gain.value.value() == doctest::Approx(1.3372));
  CHECK(model.lines[2].differs);
  CHECK(model.lines[2].seeds[3].gain.value() == doctest::Approx(0.951));
  // Student: t(0.975, 4) = 2.776445, sd of 75.487 75.119 74.477 74.868 74.728 by hand 0.385895.
  CHECK(model.lines[0].mean.value.value() == doctest::Approx(74.9358));
  CHECK(model.lines[0].half_width.value.value() == doctest::Approx(2.776445 * 0.385895 / std::sqrt(5)).epsilon(1e-5));
  CHECK(model.lines[0].is_baseline);
}

TEST_CASE("table_model: --family table widens the intervals over all strips") {
  TableOptions options;
  const TableModel strip = table_model(strips_table(), options);
  options.family = TableFamily::table;
  const TableModel table = table_model(strips_table(), options);
  for (const std::size_t r : {2, 3, 4, 5})
    CHECK(*table.lines[r].gain_half_width.value > *strip.lines[r].gain_half_width.value);
  CHECK(has(footer(table, "gain"), "for all 4 rows of the table"));
  CHECK(has(footer(table, "chance"), "the best of 4 rows"));
  CHECK(has(footer(strip, "chance"), "the best of a strip"));
}

TEST_CASE("table_model: interval and mark agree also as they are printed") {
  // The gain's interval leaves out zero by less than a digit of it.
  TableInput input = strips_table();
  for (int shift = 0; shift < 40; ++shift) {
    for (TableSeed& seed : input.rows[4].seeds) *seed.value += 0.0001;
    const TableModel model = table_model(input, {});
    for (const TableLine& line : model.lines) {
      if (line.gain_half_width.text.empty() || line.cut) continue;
      CAPTURE(line.gain.text);
      CAPTURE(line.gain_half_width.text);
      CHECK((std::abs(std::stod(line.gain.text)) > std::stod(line.gain_half_width.text)) == line.differs);
    }
  }
}

TEST_CASE("table_model: divergence: Holm's intervals, rates, gains over the pairs that finished") {
  const TableInput input = states_table();
  const TableModel model = table_model(input, {});
  const TableLine& line = model.lines[2];
  CHECK(line.partial);
  CHECK(line.pairs == 1);
  CHECK(line.count == "1/3");
  const Bounds rate = clopper_pearson(2, 3);
  CHECK(line.notes.front() == "2/3 diverged @1200 (rate " + std::to_string(std::lround(100 * rate.low)) + " to " +
                                  std::to_string(std::lround(100 * rate.high)) + "%)");
  CHECK(model.lines[1].procedure == "paired t, Holm");
  CHECK(has(footer(model, "gain"), "Each row has its own 95% paired t interval, at levels by Holm over"));
  CHECK(has(footer(model, "diverged"), "† marks gains over the pairs in which both finished"));
  CHECK(has(footer(model, "unfinished"), "7 of 18 runs are not finished"));

  TableOptions options;
  options.diverged = TableDiverged::chance;
  const TableModel chance = table_model(input, options);
  CHECK(chance.lines[2].count == "3");
  CHECK(chance.lines[2].mean.value.value() == doctest::Approx((51.3 + 10 + 10) / 3));
  CHECK(chance.lines[2].pairs == 3);
  CHECK(!chance.lines[2].partial);
  CHECK(has(footer(chance, "diverged"), "counts as one that guesses"));
}

TEST_CASE("table_model: a row that only diverged enters no noise, also where it counts as guessing") {
  TableInput input = strips_table();
  const TableModel without = table_model(input, {});
  input.rows.push_back(table_row("diverged", input.rows[2].axes, 0, {}));
  for (std::uint64_t seed = 0; seed < 5; ++seed)
    input.rows.back().seeds.push_back(diverged_seed(seed, 7, "evaluation"));
  TableOptions options;
  for (const TableDiverged policy : {TableDiverged::exclude, TableDiverged::chance}) {
    options.diverged = policy;
    const TableModel model = table_model(input, options);
    CHECK(model.strips[0].detectable.value.value() > 0);
    // Of the same noise, by Holm's first step over one more row.
    StripRow guesses{.values = {}, .diverged = true};
    if (policy == TableDiverged::chance)
      for (std::uint64_t seed = 0; seed < 5; ++seed) guesses.values[seed] = 10, guesses.stand_ins.insert(seed);
    const Strip measured{values_of(input.rows[0]), {values_of(input.rows[2]), values_of(input.rows[4])}};
    Strip strip = measured;
    strip.rows.push_back(guesses);
    const ManyToOne expected = many_to_one(strip), noise = many_to_one(measured);
    CHECK(expected.residual_sd == noise.residual_sd);
    CHECK(expected.freedom == noise.freedom);
    CHECK(expected.within_square == noise.within_square);
    CHECK(expected.left_freedom == noise.left_freedom);
    CHECK(model.strips[0].detectable.value == detectable_gain(expected, 5)->gain);
    const TableLine& line = model.lines.back();
    CHECK(!line.half_width.value);
    CHECK(line.mean.value.has_value() == (policy == TableDiverged::chance));
    CHECK(!has(render_table(model, TableFormat::text), "±0.0"));
  }
}

TEST_CASE("table_model: a small p is shown as a bound to people and in full to programs") {
  TableInput input = strips_table();
  for (TableSeed& seed : input.rows[4].seeds) *seed.value += 0.5;
  TableOptions options;
  options.equivalent = 1e3;
  const TableModel model = table_model(input, options);
  const TableLine& line = model.lines[4];
  REQUIRE(line.p.value);
  CHECK(*line.p.value < 1e-4);
  CHECK(*line.p.value >= 0);
  CHECK(line.p.text == "<0.0001");
  CHECK(line.equivalent_p.text == "<0.0001");
  const std::string csv = render_table(model, TableFormat::csv);
  CHECK(!has(csv, "<"));
  CHECK(has(csv, fmt::format(",{},yes,", *line.p.value)));
  const auto row = nlohmann::json::parse(render_table(model, TableFormat::json))["rows"][4];
  CHECK(row["p"] == *line.p.value);
  CHECK(row["equivalent_p"] == *line.equivalent_p.value);
  const TableLine& large = model.lines[5];  // as before
  CHECK(large.p.text == fmt::format("{:.4f}", *large.p.value));
}

TEST_CASE("table_model: a baseline that diverged marks the gains of the other rows") {
  TableInput input = states_table();
  input.rows.resize(2);
  input.rows[0].seeds[1] = diverged_seed(1, 30, "blocks.0.mlp");
  const TableModel model = table_model(input, {});
  CHECK(model.lines[1].partial);
  CHECK(model.lines[1].pairs == 2);
  CHECK(model.lines[0].notes.front().starts_with("1/3 diverged @30 in blocks.0.mlp (rate "));
  CHECK(model.lines[1].notes == std::vector<std::string>{"gain over 2 seeds"});
}

TEST_CASE("table_model: one seed says what it cannot say") {
  TableInput input = strips_table();
  for (TableRow& row : input.rows) row.seeds.resize(1);
  TableOptions options;
  options.detect = 0.5;
  options.equivalent = 0.5;
  const TableModel model = table_model(input, options);
  CHECK(model.lines[2].gain.text == "+1.47");
  CHECK(!model.lines[2].gain_half_width.value);
  CHECK(!model.lines[2].differs);
  CHECK(!model.lines[2].equivalent);
  CHECK(footer(model, "interval") ==
        "One seed has no interval: no ± is shown, and no difference can be told from chance.");
  CHECK(footer(model, "gain") == "A gain is the difference to the baseline, paired by seed.");
  CHECK(footer(model, "power").empty());
  CHECK(has(footer(model, "detect"), "is unknown, because there is no sd yet"));
}

TEST_CASE("table_model: --detect and --equivalent ask the statistics") {
  TableInput input = strips_table();
  std::erase_if(input.rows, [](const TableRow& row) { return row.axes[1] == "0.003"; });
  for (TableRow& row : input.rows) row.baseline = 0;
  TableOptions options;
  options.detect = 0.4;
  options.equivalent = 0.9;
  const TableModel model = table_model(input, options);
  const ManyToOne expected =
      many_to_one({values_of(input.rows[0]), {values_of(input.rows[1]), values_of(input.rows[2])}});
  const SeedsNeeded needed = *seeds_needed(expected, 0.4);
  CHECK(has(footer(model, "detect"), "takes " + std::to_string(needed.seeds) + " (" + std::to_string(needed.low) +
                                         " to " + std::to_string(needed.high) + ") seeds"));
  const Comparison& row = expected.rows[1];
  const Equivalence test = equivalence(*row.gain, *row.standard_error, row.freedom, 0.9);
  CHECK(model.lines[2].equivalent == test.equivalent);
  CHECK(model.lines[2].equivalent_p.value == test.p);
  CHECK(test.equivalent);
  CHECK(model.lines[1].equivalent == false);
  CHECK(has(footer(model, "equivalent"), "two one-sided t tests"));
}

TEST_CASE("table_model: a value that is not finite counts nowhere and is said") {
  TableInput input = strips_table();
  input.rows[2].seeds[1].value = std::numeric_limits<double>::quiet_NaN();
  const TableModel model = table_model(input, {});
  CHECK(model.lines[2].count == "4/5");
  CHECK(model.lines[2].notes.front() == "1/5 not finite");
  CHECK(std::isfinite(*model.lines[2].gain.value));
}

TEST_CASE("table_model: environments, early stops, unmeasured runs and remarks stand in notes and footer") {
  TableInput input = strips_table();
  input.rows[0].seeds[0].environment = "gpu";
  input.rows[1].seeds[0].early_stopped_step = 400;
  input.rows[1].seeds[1].early_stopped_step = 700;
  input.rows[1].seeds[0].early_stop_rule = "no better minival/loss for 3 evaluations";
  input.rows[2].seeds[4].value.reset();
  input.rows[3].remarks = {"tuned lr=0.003 (edge)"};
  input.remarks = {"Weight decay was fixed for all rows; it was chosen for pre_pre."};
  const TableModel model = table_model(input, {});
  CHECK(model.lines[0].notes == std::vector<std::string>{"env 1+2"});
  CHECK(model.lines[1].notes == std::vector<std::string>{"2/5 stopped early @400..700", "env 2"});
  CHECK(model.lines[2].notes.front() == "1/5 without eval/accuracy");
  CHECK(model.lines[3].notes.front() == "tuned lr=0.003 (edge)");
  CHECK(footer(model, "environments") == "Mixed environments (env): 1 = gpu; 2 = cpu.");
  CHECK(footer(model, "early_stop") ==
        "Runs could be stopped early by a rule: no better minival/loss for 3 evaluations.");
  CHECK(footer(model, "remark") == input.remarks.front());
}

TEST_CASE("table_model: results that were added up in different orders are counted in the footer") {
  TableInput input = strips_table();
  for (TableRow& row : input.rows)
    for (TableSeed& seed : row.seeds) seed.arithmetic = "4";
  CHECK(footer(table_model(input, {}), "arithmetic").empty());
  input.rows[1].seeds[0].arithmetic = "3";
  input.rows[2].seeds[0].arithmetic = "";
  const std::string text = footer(table_model(input, {}), "arithmetic");
  CHECK(text.starts_with("Mixed arithmetic: 3 (1 run), 4 ("));
  CHECK(has(text, " runs), not recorded (1 run). Versions of normlab"));
}

TEST_CASE("table_model: a first stage keeps its noise") {
  TableInput input = strips_table();
  const TableModel one = table_model(input, {});
  input.first_stage = {0, 1, 2};
  const TableModel two = table_model(input, {});
  ManyToOneOptions options;
  options.first_stage = input.first_stage;
  const ManyToOne expected =
      many_to_one({values_of(input.rows[0]), {values_of(input.rows[2]), values_of(input.rows[4])}}, options);
  CHECK(two.lines[2].gain_half_width.value == expected.rows[0].half_width);
  CHECK(two.lines[2].gain_half_width.value != one.lines[2].gain_half_width.value);
  CHECK(two.lines[0].mean.value.value() == doctest::Approx(*one.lines[0].mean.value));
}

TEST_CASE("table_model: digits follow the half width") {
  CHECK(decimals_for(0.41) == 1);
  CHECK(decimals_for(0.14) == 2);
  CHECK(decimals_for(0.196) == 1);  // would be shown as 0.20
  CHECK(decimals_for(0.01) == 3);
  CHECK(decimals_for(3.0) == 0);
  CHECK(decimals_for(25.0) == 0);
  CHECK(decimals_for(1e-12) == 6);
}

TEST_CASE("table_model: axes across and down") {
  TableOptions options;
  options.rows = {"placement"};
  options.cols = {"lr"};
  TableModel model = table_model(strips_table(), options);
  REQUIRE(model.columns.size() == 3);
  CHECK(model.columns[1].heading == "lr=0.001");
  REQUIRE(model.grid.size() == 3);
  CHECK(model.grid[1].cells[0].text() == "dpn");
  CHECK(model.grid[1].cells[1].text() == model.lines[2].mean.text + " ±" + model.lines[2].half_width.text + " (5) *");
  CHECK(model.grid[1].lines == std::vector<std::size_t>{2, 3});
  CHECK(model.grid[0].is_baseline);
  options.cells = TableCellContent::gain;
  model = table_model(strips_table(), options);
  CHECK(model.grid[1].cells[2].text() == model.lines[3].gain.text + " ±" + model.lines[3].gain_half_width.text + " *");
  CHECK(model.grid[0].cells[1].text() == "baseline");

  options = {};
  options.rows = {"model.placement"};  // what is not named goes across
  CHECK(table_model(strips_table(), options).columns.size() == 3);
  options.rows = {"lr"};
  options.cols = {"lr"};
  CHECK_THROWS_WITH(table_model(strips_table(), options), "--rows, --cols: train.optimizer.lr cannot be both");
  options = {};
  options.cols = {"placement"};
  model = table_model(states_table(), options);
  REQUIRE(model.grid.size() == 1);
  CHECK(model.grid[0].cells[0].text() == "patch_norm");
  CHECK(model.grid[0].cells[5].text() == "1/3 failed: out of memory");
  CHECK(has(footer(model, "note"), "post_post: 2/3 diverged @1200"));
}

TEST_CASE("table_model: empty tables and rows without a baseline") {
  CHECK(table_model(TableInput{}, {}).lines.empty());
  TableInput input = strips_table();
  for (TableRow& row : input.rows) row.baseline.reset();
  const TableModel model = table_model(input, {});
  CHECK(model.strips.empty());
  CHECK(footer(model, "gain").empty());
  CHECK(model.columns.size() == 3);
}

TEST_CASE("table_model: images that were left out are counted below the table") {
  TableInput input = strips_table();
  CHECK(footer(table_model(input, {}), "bad_images").empty());
  input.rows[0].seeds[1].bad_images = 4;
  input.rows[3].seeds[0].bad_images = 2;
  CHECK(footer(table_model(input, {}), "bad_images").starts_with("Images that could not be decoded were left out"));
  CHECK(has(footer(table_model(input, {}), "bad_images"), "up to 4 in 2 runs"));
}

TEST_CASE("table_model: of a loss, a gain is how far a row lies below its baseline") {
  const TableInput input = strips_table();
  TableOptions options;
  const TableModel accuracy = table_model(input, options);
  options.metric = "eval/loss";
  options.sort = "-gain";
  const TableModel loss = table_model(input, options);
  CHECK(loss.metric_heading() == "eval/loss [%] (lower is better)");
  CHECK(footer(loss, "gain").starts_with("A gain is how far a row lies below the baseline"));
  CHECK(*loss.lines.front().gain.value >= *loss.lines[1].gain.value);
  for (const TableLine& line : loss.lines) {
    const TableLine& same = accuracy.lines[line.plan_index];
    CHECK(line.mean.value == same.mean.value);
    if (!same.gain.value) continue;
    CHECK(*line.gain.value == -*same.gain.value);
    CHECK(*line.gain_low.value == -*same.gain_high.value);
    CHECK(line.differs == same.differs);
    CHECK(*line.seeds[0].gain == -*same.seeds[0].gain);
  }
}

TEST_CASE("table_model: differences that are equal in all seeds are said in words, and are no spread") {
  TableInput input = strips_table();  // two seeds of 120 images, as they were seen
  input.axes = {"row"};
  const auto row = [](const char* label, std::vector<double> values) {
    TableRow out{.label = label, .axes = {label}, .baseline = 0, .seeds = {}, .chance = {}, .remarks = {}};
    for (std::size_t s = 0; s < values.size(); ++s) {
      TableSeed& seed = out.seeds.emplace_back();
      seed.seed = s;
      seed.state = SeedState::done;
      seed.value = values[s] / 120;
    }
    return out;
  };
  input.rows = {row("base", {37, 31}), row("near", {36, 30}), row("far", {35, 25})};
  const TableModel model = table_model(input, {});
  CHECK_FALSE(has(footer(model, "gain"), "times as far"));

  input.rows[2].seeds[1].state = SeedState::diverged;  // each row by itself then
  const TableModel alone = table_model(input, {});
  CHECK(alone.lines[1].gain_half_width.text.empty());
  CHECK(alone.lines[1].notes.back() == "the difference to the baseline is the same in each seed: no interval");
}
