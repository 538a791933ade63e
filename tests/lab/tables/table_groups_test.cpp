#include "experiments/lab/tables/sweep_table.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "experiments/lab/tables/table.h"

using namespace normlab;

namespace {

/// Two placements on three benchmarks, two seeds each. Values are shares.
TableInput three_benchmarks() {
  TableInput input;
  input.axes = {"benchmark", "model.placement"};
  const double values[3][2][2] = {{{0.5, 0.6}, {0.7, 0.9}}, {{0.1, 0.2}, {0.1, 0.4}}, {{0.9, 0.7}, {0.8, 0.9}}};
  const char* const names[] = {"a", "b", "c"};
  for (std::size_t b = 0; b < 3; ++b)
    for (std::size_t p = 0; p < 2; ++p) {
      TableRow& row = input.rows.emplace_back();
      row.axes = {names[b], p == 0 ? "pre_pre" : "dpn"};
      row.label = row.axes[0] + ", " + row.axes[1];
      row.baseline = 2 * b;
      row.chance = 0.1 * double(b + 1);
      for (std::size_t s = 0; s < 2; ++s) {
        TableSeed& seed = row.seeds.emplace_back();
        seed.seed = s;
        seed.state = SeedState::done;
        seed.value = values[b][p][s];
        seed.environment = "here";
      }
    }
  return input;
}

const std::vector<BenchmarkGroup> kGroups{{"two", {"a", "b"}}, {"all", {"a", "b", "c"}}};

TableInput with_means(TableInput input, const TableOptions& options = {}) {
  add_benchmark_means(input, kGroups, options);
  return input;
}

}  // namespace

TEST_CASE("table_groups: a seed's value is the mean over the benchmarks") {
  const TableInput input = with_means(three_benchmarks());
  REQUIRE(input.rows.size() == 10);
  CHECK(input.rows[6].label == "benchmark=mean of two, placement=pre_pre");
  CHECK(input.rows[6].axes == std::vector<std::string>{"mean of two", "pre_pre"});
  CHECK(input.rows[7].mean_of == std::vector<std::size_t>{1, 3});
  CHECK(*input.rows[7].seeds[0].value == doctest::Approx((0.7 + 0.1) / 2));
  CHECK(*input.rows[7].seeds[1].value == doctest::Approx((0.9 + 0.4) / 2));
  CHECK(*input.rows[9].seeds[1].value == doctest::Approx((0.9 + 0.4 + 0.9) / 3));
  CHECK(*input.rows[9].chance == doctest::Approx(0.2));
  CHECK(input.rows[9].remarks.empty());
}

TEST_CASE("table_groups: the gain of a mean is paired by seed with the mean of the baselines") {
  const TableInput input = with_means(three_benchmarks());
  CHECK(input.rows[6].baseline == 6);
  CHECK(input.rows[7].baseline == 6);
  CHECK(input.rows[9].baseline == 8);
  const TableModel model = table_model(input, {});
  CHECK(*model.lines[7].mean.value == doctest::Approx(100 * (0.4 + 0.65) / 2));
  CHECK(*model.lines[7].gain.value == doctest::Approx(100 * ((0.4 - 0.3) + (0.65 - 0.4)) / 2));
  CHECK(model.lines[7].pairs == 2);
  CHECK(model.lines[7].gain_half_width.value);
}

TEST_CASE("table_groups: a seed without the value of a benchmark has no mean, and the note says of which") {
  TableInput input = three_benchmarks();
  input.rows[3].seeds[1].state = SeedState::missing;
  input.rows[3].seeds[1].value.reset();
  const TableModel model = table_model(with_means(input), {});
  CHECK(model.lines[6].n == 2);
  CHECK(model.lines[7].n == 1);
  CHECK(model.lines[7].count == "1/2");
  CHECK(*model.lines[7].mean.value == doctest::Approx(40));
  CHECK(model.lines[7].notes == std::vector<std::string>{"1/2 missing", "no value of b"});
}

TEST_CASE("table_groups: a benchmark without a row is named") {
  TableInput input = three_benchmarks();
  input.rows.erase(input.rows.begin() + 5);
  const TableInput means = with_means(input);
  CHECK(means.rows[8].remarks == std::vector<std::string>{"without c"});
  CHECK(means.rows[6].remarks.empty());
  CHECK(means.rows[8].mean_of.size() == 2);
  CHECK(means.rows[7].mean_of.size() == 3);
  CHECK(!means.rows[8].baseline);  // of three benchmarks
  CHECK(means.rows[6].baseline == 5);
}

TEST_CASE("table_groups: without the axis there are no means") {
  TableInput input = three_benchmarks();
  input.axes[0] = "model.depth";
  CHECK(with_means(input).rows.size() == 6);
  CHECK(with_means(input).remarks.empty());
}

TEST_CASE("table_groups: a mean over other benchmarks than the baseline's has no baseline") {
  TableInput input = three_benchmarks();
  input.rows[3].baseline.reset();
  const TableInput means = with_means(input);
  CHECK(means.rows[6].baseline == 6);
  CHECK(!means.rows[7].baseline);
}

TEST_CASE("table_groups: rows that are still being tuned have no mean") {
  TableInput input = three_benchmarks();
  input.rows[0].seeds.clear();
  const TableModel model = table_model(with_means(input), {});
  CHECK(model.lines[6].n == 0);
  CHECK(model.lines[6].notes == std::vector<std::string>{"missing", "no value of a"});
}

TEST_CASE("table_groups: a diverged run counts in a mean as it does in its row") {
  TableInput input = three_benchmarks();
  input.rows[3].seeds[1].state = SeedState::diverged;
  input.rows[3].seeds[1].value.reset();
  input.rows[3].seeds[1].diverged_step = 40;
  CHECK(!with_means(input).rows[7].seeds[1].value);
  const TableModel model = table_model(with_means(input), {});
  CHECK(model.lines[7].partial);
  CHECK(model.lines[7].notes.front().starts_with("1/2 diverged @40"));
  TableOptions options;
  options.diverged = TableDiverged::chance;
  CHECK(*with_means(input, options).rows[7].seeds[1].value == doctest::Approx((0.9 + 0.2) / 2));
  const TableModel guessed = table_model(with_means(input, options), options);
  CHECK(*guessed.lines[7].mean.value == doctest::Approx(100 * ((0.7 + 0.1) / 2 + (0.9 + 0.2) / 2) / 2));
  REQUIRE(!guessed.lines[7].notes.empty());
  CHECK(guessed.lines[7].notes.front().starts_with("1/2 diverged @40"));
}

TEST_CASE("table_groups: guessing adds no noise to a mean") {
  TableInput input = three_benchmarks();
  input.rows[0].seeds[1].value = 0.75;
  for (TableSeed& seed : input.rows[3].seeds) {
    seed.state = SeedState::diverged;
    seed.value.reset();
  }
  TableOptions options;
  options.diverged = TableDiverged::chance;
  const TableModel model = table_model(with_means(input, options), options);
  CHECK(model.lines[3].procedure == "paired t, Holm");
  CHECK(model.lines[7].procedure == "paired t, Holm");
  CHECK(model.lines[7].n == 2);
  CHECK(!model.lines[7].half_width.value);  // no seed without a guess
}

TEST_CASE("table_groups: a guess beside a missing run gives no mean") {
  TableInput input = three_benchmarks();
  input.rows[3].seeds[1].state = SeedState::diverged;
  input.rows[1].seeds[1].state = SeedState::missing;
  for (const std::size_t row : {1, 3}) input.rows[row].seeds[1].value.reset();
  TableOptions options;
  options.diverged = TableDiverged::chance;
  CHECK(table_model(with_means(input, options), options).lines[7].n == 1);
}

TEST_CASE("table_groups: a mean is no run") {
  TableInput input = three_benchmarks();
  input.rows[3].seeds[1].state = SeedState::missing;
  const TableModel model = table_model(with_means(input), {});
  const auto said = [&](const std::string& words) {
    return std::any_of(model.footer.begin(), model.footer.end(),
                       [&](const TableSentence& s) { return s.text.find(words) != std::string::npos; });
  };
  CHECK(said("1 of 12 runs are not finished"));
  CHECK(said("A row \"mean of\" is the mean over the benchmarks of a group"));
  CHECK(!said("Mixed environments"));
  const auto json = nlohmann::json::parse(render_table(model, TableFormat::json));
  CHECK(json["rows"][7]["mean_of"] == 2);
  CHECK(!json["rows"][7]["seeds"][0].contains("trial"));
  CHECK(json["rows"][0]["seeds"][0].contains("trial"));
}
