#include "experiments/lab/tables/table_model.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/statistics/many_to_one.h"
#include "experiments/lab/statistics/proportions.h"
#include "experiments/lab/tables/table.h"
#include "tests/lab/base/text.h"
#include "tests/lab/tables/table_example.h"

using namespace normlab;

namespace {

StripRow values_of(const TableRow& row) {
  StripRow out;
  for (const TableSeed& seed : row.seeds) {
    out.apart = out.apart || seed.state == SeedState::diverged;
    if (seed.state == SeedState::done) out.values[seed.seed] = 100 * *seed.value;
  }
  return out;
}

ManyToOne statistics_of(const TableInput& strip) {
  return many_to_one({values_of(strip.rows[0]), {values_of(strip.rows[1]), values_of(strip.rows[2])}});
}

/// The strips with one row that is much better, so that its p is tiny.
TableModel model_with_small_p() {
  TableInput input = strips_table();
  for (TableSeed& seed : input.rows[4].seeds) *seed.value += 0.5;
  TableOptions options;
  options.equivalent = 1e3;
  return table_model(input, options);
}

/// A baseline and two rows with two seeds of 120 images; one row differs equally in both.
TableInput equal_differences() {
  TableInput input = strips_table();
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
  return input;
}

}  // namespace

TEST_CASE("table_model: gains and intervals are those of the statistics of each strip") {
  const TableInput input = strips_table();
  const TableModel model = table_model(input, {});
  REQUIRE(model.strips.size() == 2);
  CHECK(model.strips[1].label == "lr=0.003");
  for (std::size_t s = 0; s < 2; ++s) {
    const Strip strip{values_of(input.rows[s]), {values_of(input.rows[2 + s]), values_of(input.rows[4 + s])}};
    const ManyToOne expected = many_to_one(strip);
    for (std::size_t r = 0; r < 2; ++r) {
      const TableLine& line = model.lines[2 + 2 * r + s];
      CHECK(line.gain.value == expected.rows[r].gain);
      CHECK(line.gain_half_width.value == expected.rows[r].half_width);
      CHECK(line.gain_low.value == expected.rows[r].low);
      CHECK(line.p.value == expected.rows[r].p);
      CHECK(line.differs == expected.rows[r].differs);
      CHECK(line.procedure == kSharedNoise);
      CHECK(line.strip == s);
    }
    CHECK(model.strips[s].best_by_chance.value == best_gain_by_chance(std::vector{expected}));
    CHECK(model.strips[s].detectable.value == detectable_gain(expected, 5)->gain);
    CHECK(model.strips[s].detectable_high.value == detectable_gain(expected, 5)->high);
  }
}

TEST_CASE("table_model: means, gains and half widths are as computed by hand") {
  const TableModel model = table_model(strips_table(), {});
  // The mean of 1.468, 1.178, 1.453, 0.951, 1.636.
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
  CHECK(has(footer(table, "gain"), "all 4 intervals of the table hold with 92 to 97%"));
  CHECK(has(footer(table, "chance"), "the best of 4 rows"));
  CHECK(has(footer(strip, "chance"), "the best of a strip"));
}

TEST_CASE("table_model: printed intervals agree with their marks") {
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

TEST_CASE("table_model: a row whose runs diverged, or that is declared apart, has its own interval") {
  TableInput input = strips_table();
  const TableModel plain = table_model(input, {});
  CHECK(footer(plain, "apart").empty());
  for (const bool declared : {false, true}) {
    input = strips_table();
    input.rows[4].apart = declared;
    if (!declared) input.rows[4].seeds[4] = diverged_seed(4, 7, "evaluation");
    const TableModel model = table_model(input, {});
    CHECK(model.lines[4].procedure == kOwnNoise);
    CHECK(model.lines[2].procedure == kSharedNoise);
    CHECK(model.lines[4].partial == !declared);
    CHECK(footer(model, "apart") ==
          "Intervals from a row's own runs alone (runs diverged, or \"apart\"): placement=sub_ln, lr=0.001.");
  }
}

TEST_CASE("table_model: a row with diverged runs has their rate") {
  const TableModel model = table_model(states_table(), {});
  const Bounds rate = clopper_pearson(2, 3);
  CHECK(model.lines[2].notes.front() == "2/3 diverged @1200 (rate " + std::to_string(std::lround(100 * rate.low)) +
                                            " to " + std::to_string(std::lround(100 * rate.high)) + "%)");
}

TEST_CASE("table_model: a row with diverged runs has a gain over the pairs that finished") {
  const TableModel model = table_model(states_table(), {});
  const TableLine& line = model.lines[2];
  CHECK(line.partial);
  CHECK(line.pairs == 1);
  CHECK(line.count == "1/3");
  CHECK(has(footer(model, "diverged"), "† marks gains over the pairs in which both runs finished"));
}

TEST_CASE("table_model: the footer counts the runs that are not finished") {
  CHECK(has(footer(table_model(states_table(), {}), "unfinished"), "7 of 18 runs are not finished"));
}

TEST_CASE("table_model: a diverged run may count as one that guesses") {
  TableOptions options;
  options.diverged = TableDiverged::chance;
  const TableModel chance = table_model(states_table(), options);
  CHECK(chance.lines[2].count == "3");
  CHECK(chance.lines[2].mean.value.value() == doctest::Approx((51.3 + 10 + 10) / 3));
  CHECK(chance.lines[2].pairs == 3);
  CHECK(!chance.lines[2].partial);
  CHECK(has(footer(chance, "diverged"), "counts as one that guesses"));
}

TEST_CASE("table_model: a row that only diverged adds no noise") {
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
    // Of the same noise, over one more row.
    StripRow guesses{.values = {}, .stand_ins = {}, .apart = true};
    if (policy == TableDiverged::chance)
      for (std::uint64_t seed = 0; seed < 5; ++seed) guesses.values[seed] = 10, guesses.stand_ins.insert(seed);
    const Strip measured{values_of(input.rows[0]), {values_of(input.rows[2]), values_of(input.rows[4])}};
    Strip strip = measured;
    strip.rows.push_back(guesses);
    const ManyToOne expected = many_to_one(strip), noise = many_to_one(measured);
    CHECK(expected.sd == noise.sd);
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

TEST_CASE("table_model: people see a small p as a bound") {
  const TableModel model = model_with_small_p();
  const TableLine& line = model.lines[4];
  REQUIRE(line.p.value);
  CHECK(*line.p.value < 1e-4);
  CHECK(*line.p.value >= 0);
  CHECK(line.p.text == "<0.0001");
  CHECK(line.equivalent_p.text == "<0.0001");
  const TableLine& large = model.lines[5];
  CHECK(large.p.text == fmt::format("{:.4f}", *large.p.value));
}

TEST_CASE("table_model: programs get a small p in full") {
  const TableModel model = model_with_small_p();
  const TableLine& line = model.lines[4];
  const std::string csv = render_table(model, TableFormat::csv);
  CHECK(!has(csv, "<"));
  CHECK(has(csv, fmt::format(",{},yes,", *line.p.value)));
  const auto row = nlohmann::json::parse(render_table(model, TableFormat::json))["rows"][4];
  CHECK(row["p"] == *line.p.value);
  CHECK(row["equivalent_p"] == *line.equivalent_p.value);
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

TEST_CASE("table_model: one seed has no intervals") {
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
  CHECK(footer(model, "gain") == "Gains: differences to the baseline, paired by seed.");
  CHECK(footer(model, "power").empty());
  CHECK(has(footer(model, "detect"), "is unknown, because there is no sd yet"));
}

TEST_CASE("table_model: --detect tells the seeds that a gain needs") {
  const TableInput input = one_strip();
  TableOptions options;
  options.detect = 0.4;
  const TableModel model = table_model(input, options);
  const SeedsNeeded needed = *seeds_needed(statistics_of(input), 0.4);
  CHECK(has(footer(model, "detect"), "takes " + std::to_string(needed.seeds) + " (" + std::to_string(needed.low) +
                                         " to " + std::to_string(needed.high) + ") seeds"));
}

TEST_CASE("table_model: --detect gives a range over many strips, also if some need more seeds than are counted") {
  TableInput input;
  input.axes = {"model.placement", "train.optimizer.lr"};
  for (std::size_t strip = 0; strip < 5; ++strip) {
    const double noise = strip < 2 ? 0.1 + 0.1 * double(strip) : 20;
    const std::string rate = std::to_string(strip + 1);
    input.rows.push_back(table_row("a" + rate, {"a", rate}, 2 * strip,
                                   {done_seed(0, 50), done_seed(1, 50 + noise), done_seed(2, 50 - noise)}));
    input.rows.push_back(table_row("b" + rate, {"b", rate}, 2 * strip,
                                   {done_seed(0, 50), done_seed(1, 50 - noise), done_seed(2, 50 + noise)}));
  }
  TableOptions options;
  options.detect = 0.1;
  const std::string text = footer(table_model(input, options), "detect");
  CAPTURE(text);
  CHECK(has(text, " to more than 10000 (more than 10000 to more than 10000), by strip, seeds"));
}

TEST_CASE("table_model: --equivalent tests whether a gain is too small to matter") {
  const TableInput input = one_strip();
  TableOptions options;
  options.equivalent = 0.9;
  const TableModel model = table_model(input, options);
  const Comparison row = statistics_of(input).rows[1];
  CHECK(model.lines[2].equivalent == true);
  CHECK(model.lines[2].equivalent_p.value == equivalence_p(*row.gain, *row.standard_error, row.freedom, 0.9));
  CHECK(model.lines[1].equivalent == false);
  CHECK(has(footer(model, "equivalent"), "two one-sided t tests"));
}

TEST_CASE("table_model: options of gains are refused where there are none") {
  TableInput input = one_strip();
  TableOptions options;
  options.cells = TableCellContent::gain;
  CHECK_THROWS_WITH_AS(table_model(input, options), doctest::Contains("--cells gain: needs --rows or --cols"),
                       InputError);
  options.rows = {input.axes.front()};
  for (TableRow& row : input.rows) row.baseline.reset();
  CHECK_THROWS_WITH_AS(table_model(input, options), doctest::Contains("--cells gain: no row has a baseline"),
                       InputError);
  options.cells = TableCellContent::mean;
  CHECK_NOTHROW(table_model(input, options));
  options.equivalent = 1;
  CHECK_THROWS_WITH_AS(table_model(input, options), doctest::Contains("--equivalent: no row has a baseline"),
                       InputError);
}

TEST_CASE("table_model: a value that is not finite is noted and left out") {
  TableInput input = strips_table();
  input.rows[2].seeds[1].value = std::numeric_limits<double>::quiet_NaN();
  const TableModel model = table_model(input, {});
  CHECK(model.lines[2].count == "4/5");
  CHECK(model.lines[2].notes.front() == "1/5 not finite");
  CHECK(std::isfinite(*model.lines[2].gain.value));
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

TEST_CASE("table_model: a gain in a loss is how far a row lies below its baseline") {
  const TableInput input = strips_table();
  TableOptions options;
  const TableModel accuracy = table_model(input, options);
  options.metric = "eval/loss";
  options.sort = "-gain";
  const TableModel loss = table_model(input, options);
  CHECK(loss.metric_heading() == "eval/loss [%] (lower is better)");
  CHECK(footer(loss, "gain").starts_with("Gains (how far a row is below the baseline): paired by seed; "));
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

TEST_CASE("table_model: a note names a difference that is equal in all seeds") {
  TableInput input = equal_differences();
  input.rows[2].seeds[1].state = SeedState::diverged;  // so that each row has its own interval
  const TableModel alone = table_model(input, {});
  CHECK(alone.lines[1].gain_half_width.text.empty());
  CHECK(alone.lines[1].notes.back() == "the difference to the baseline is the same in each seed: no interval");
}
