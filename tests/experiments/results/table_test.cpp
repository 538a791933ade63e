#include "experiments/results/table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "experiments/results/table_numbers.h"

using namespace normlab;

namespace {

TableCellInput done(std::uint64_t seed, double percent, const std::string& environment = "cpu") {
  TableCellInput cell;
  cell.seed = seed;
  cell.state = TrialState::done;
  cell.value = percent / 100;
  cell.environment = environment;
  return cell;
}

TableCellInput other(std::uint64_t seed, TrialState state, double progress = 0, const std::string& message = "",
                     std::int64_t diverged_step = 0) {
  TableCellInput cell;
  cell.seed = seed;
  cell.state = state;
  cell.progress = progress;
  cell.message = message;
  cell.diverged_step = diverged_step;
  return cell;
}

TableSpec example() {
  TableSpec spec;
  spec.about = "Does Dual PatchNorm help?";
  spec.rows = {
      {"pre_pre", true, std::nullopt, {done(0, 76.086), done(1, 75.545), done(2, 76.045)}},
      {"pre_post", false, 0, {done(0, 76.672), done(1, 75.947), done(2, 75.958)}},
      {"post_post",
       false,
       0,
       {done(0, 51.3), other(1, TrialState::diverged, 1, "", 1200), other(2, TrialState::diverged, 1, "", 1200)}},
      {"dpn", false, 0, {done(0, 77.1), done(1, 76.5), other(2, TrialState::running, 0.437)}},
      {"sub_ln",
       false,
       0,
       {other(0, TrialState::failed, 0, "out of memory"), other(1, TrialState::missing),
        other(2, TrialState::missing, 0.5)}},
      {"none", false, 0, {other(0, TrialState::missing), other(1, TrialState::missing), other(2, TrialState::missing)}},
  };
  return spec;
}

std::size_t columns(const std::string& line) {
  return std::size_t(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

void check_fits(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(columns(line) <= 80, line);
}

}  // namespace

TEST_CASE("table: text") {
  CHECK(render_table(example(), TableFormat::text) == R"(Does Dual PatchNorm help?

row        eval/accuracy [%]  n    gain        notes
pre_pre    75.9 ±0.7          3    baseline
pre_post   76.2 ±1.0          3     +0.3 ±0.9
post_post  51.3               1/3  -24.8       2/3 diverged @1200
dpn        76.8 ±3.8          2/3   +1.0 ±0.4  1/3 running 43%
sub_ln                        0/3              1/3 failed: out of memory, 1/3
                                               stopped at 50%, 1/3 missing
none                          0/3              missing

± is the 95% Student-t interval of the mean over n seeds: over the randomness of
training, with this test set.
eval/accuracy is that of the last evaluation of each run; nothing was selected.
Gains are differences to the baseline, paired by seed; their ± holds for each
row by itself, not for all rows at once.
The smallest true gain that 3 seeds show four times in five is 0.9 percentage
points (paired t-test at 5%, power 80%, differences with the sd 0.29 pooled over
the rows).
Diverged runs count in neither mean nor gain: those speak of the runs that did
not.
)");
}

TEST_CASE("table: markdown and csv show the same digits") {
  CHECK(render_table(example(), TableFormat::markdown) == R"(Does Dual PatchNorm help?

| row | eval/accuracy [%] | n | gain | notes |
|:---|---:|---:|---:|:---|
| pre_pre | 75.9 ±0.7 | 3 | baseline |  |
| pre_post | 76.2 ±1.0 | 3 | +0.3 ±0.9 |  |
| post_post | 51.3 | 1/3 | -24.8 | 2/3 diverged @1200 |
| dpn | 76.8 ±3.8 | 2/3 | +1.0 ±0.4 | 1/3 running 43% |
| sub_ln |  | 0/3 |  | 1/3 failed: out of memory, 1/3 stopped at 50%, 1/3 missing |
| none |  | 0/3 |  | missing |

- ± is the 95% Student-t interval of the mean over n seeds: over the randomness of training, with this test set.
- eval/accuracy is that of the last evaluation of each run; nothing was selected.
- Gains are differences to the baseline, paired by seed; their ± holds for each row by itself, not for all rows at once.
- The smallest true gain that 3 seeds show four times in five is 0.9 percentage points (paired t-test at 5%, power 80%, differences with the sd 0.29 pooled over the rows).
- Diverged runs count in neither mean nor gain: those speak of the runs that did not.
)");
  CHECK(render_table(example(), TableFormat::csv) ==
        R"(row,eval/accuracy [%],half_width,n,gain,gain_half_width,pairs,notes
pre_pre,75.9,0.7,3,,,0,
pre_post,76.2,1.0,3,+0.3,0.9,3,
post_post,51.3,,1/3,-24.8,,1,2/3 diverged @1200
dpn,76.8,3.8,2/3,+1.0,0.4,2,1/3 running 43%
sub_ln,,,0/3,,,0,"1/3 failed: out of memory, 1/3 stopped at 50%, 1/3 missing"
none,,,0/3,,,0,missing
)");
}

TEST_CASE("table: json has the same digits and each seed in full") {
  const auto json = nlohmann::json::parse(render_table(example(), TableFormat::json));
  const TableNumbers numbers = table_numbers(example());
  REQUIRE(json["rows"].size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    CAPTURE(i);
    const auto same = [](const nlohmann::json& value, const std::string& text) {
      return text.empty() ? value.is_null() : value.get<double>() == std::stod(text);
    };
    CHECK(same(json["rows"][i]["mean"], numbers.lines[i].mean));
    CHECK(same(json["rows"][i]["half_width"], numbers.lines[i].half_width));
    CHECK(same(json["rows"][i]["gain"], numbers.lines[i].gain));
    CHECK(same(json["rows"][i]["gain_half_width"], numbers.lines[i].gain_half_width));
  }
  CHECK(json["rows"][1]["seeds"][0].dump() == R"({"environment":"cpu","seed":0,"state":"done","value":0.76672})");
  CHECK(json["rows"][2]["n"] == 1);
  CHECK(json["rows"][2]["planned"] == 3);
  CHECK(json["rows"][2]["seeds"][1]["diverged_step"] == 1200);
  CHECK(json["footer"].size() == numbers.footer.size());
}

TEST_CASE("table: mixed environments are named, one seed has no interval, a loss has no unit") {
  TableSpec spec;
  spec.metric = "eval/loss";
  spec.unit = "";
  spec.scale = 1;
  spec.rows = {{"a", true, std::nullopt, {done(0, 123.4, "cpu Zen 5")}}, {"b", false, 0, {done(0, 120.0, "gpu H200")}}};
  CHECK(render_table(spec, TableFormat::text) == R"(row  eval/loss  n  gain      notes
a    1.2340     1  baseline  env 1
b    1.2000     1  -0.0340   env 2

One seed has no interval: no ± is shown.
eval/loss is that of the last evaluation of each run; nothing was selected.
Gains are differences to the baseline, paired by seed.
Mixed environments (env): 1 = cpu Zen 5; 2 = gpu H200.
)");
}

TEST_CASE("table: long labels and messages fit 80 columns") {
  TableSpec spec = example();
  spec.about = std::string(200, 'a') + " and a question that is longer than a line of eighty columns can be, mind you";
  spec.rows[1].label = "model.placement.stem.patch_in=layer_norm, train.schedule.warmup_steps=500, ünïcödé";
  spec.rows[4].cells[0].message =
      "loss is nan at step 17 in blocks.3.attn.pre; see /a/very/long/path/" + std::string(90, 'x');
  const std::string text = render_table(spec, TableFormat::text);
  check_fits(text);
  CHECK(text.find("…") != text.npos);
  CHECK(text.find("nan at step") != text.npos);
  check_fits(render_table(example(), TableFormat::text));
  CHECK(render_table(TableSpec{}, TableFormat::text).find("row") == 0);

  spec.rows[0].label = "a|b";
  CHECK(render_table(spec, TableFormat::markdown).find("| a\\|b |") != text.npos);
  spec.rows[0].label = "a,\"b\"";
  CHECK(render_table(spec, TableFormat::csv).find("\n\"a,\"\"b\"\"\",") != text.npos);
}

TEST_CASE("table: digits follow the half width") {
  CHECK(decimals_for(0.41) == 1);
  CHECK(decimals_for(0.14) == 2);
  CHECK(decimals_for(0.196) == 1);  // would be shown as 0.20
  CHECK(decimals_for(0.01) == 3);
  CHECK(decimals_for(3.0) == 0);
  CHECK(decimals_for(25.0) == 0);
  CHECK(decimals_for(1e-12) == 6);
}

TEST_CASE("table: a done trial without the metric is said to have none") {
  TableSpec spec = example();
  spec.rows[0].cells[1].value.reset();
  const TableNumbers numbers = table_numbers(spec);
  CHECK(numbers.lines[0].n == "2/3");
  CHECK(numbers.lines[0].notes == std::vector<std::string>{"1/3 without eval/accuracy"});
  CHECK(numbers.lines[1].notes == std::vector<std::string>{"gain over 2 seeds"});
}

TEST_CASE("table: format names") {
  CHECK(table_format("csv") == TableFormat::csv);
  CHECK(!table_format("xml"));
}
