// What a table says beside its numbers: notes, footer and the grid of axes across.
#include <doctest/doctest.h>

#include "core/error.h"
#include "experiments/lab/tables/table_model.h"
#include "tests/lab/base/text.h"
#include "tests/lab/tables/table_example.h"

using namespace normlab;

namespace {

/// The placements down and the rates across.
TableModel rates_across(TableCellContent cells) {
  TableOptions options;
  options.rows = {"placement"};
  options.cols = {"lr"};
  options.cells = cells;
  return table_model(strips_table(), options);
}

}  // namespace

TEST_CASE("table_model: notes and footer number mixed environments") {
  TableInput input = strips_table();
  input.rows[0].seeds[0].environment = "gpu";
  const TableModel model = table_model(input, {});
  CHECK(model.lines[0].notes == std::vector<std::string>{"env 1+2"});
  CHECK(model.lines[1].notes == std::vector<std::string>{"env 2"});
  CHECK(footer(model, "environments") == "Mixed environments (env): 1 = gpu; 2 = cpu.");
}

TEST_CASE("table_model: notes and footer name runs that stopped early") {
  TableInput input = strips_table();
  input.rows[0].seeds[0].environment = "gpu";
  input.rows[1].seeds[0].early_stopped_step = 400;
  input.rows[1].seeds[1].early_stopped_step = 700;
  input.rows[1].seeds[0].early_stop_rule = "no better minival/loss for 3 evaluations";
  const TableModel model = table_model(input, {});
  CHECK(model.lines[1].notes == std::vector<std::string>{"2/5 stopped early @400..700", "env 2"});
  CHECK(footer(model, "early_stop") ==
        "Runs could be stopped early by a rule: no better minival/loss for 3 evaluations.");
}

TEST_CASE("table_model: a note counts runs without the metric") {
  TableInput input = strips_table();
  input.rows[2].seeds[4].value.reset();
  CHECK(table_model(input, {}).lines[2].notes.front() == "1/5 without eval/accuracy");
}

TEST_CASE("table_model: remarks stand in the notes or the footer") {
  TableInput input = strips_table();
  input.rows[3].remarks = {"tuned lr=0.003 (edge)"};
  input.remarks = {"Weight decay was fixed for all rows; it was chosen for pre_pre."};
  const TableModel model = table_model(input, {});
  CHECK(model.lines[3].notes.front() == "tuned lr=0.003 (edge)");
  CHECK(footer(model, "remark") == input.remarks.front());
}

TEST_CASE("table_model: the footer counts results of different orders of addition") {
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

TEST_CASE("table_model: the footer counts evaluation losses with label smoothing of an older version") {
  TableInput input = strips_table();
  TableOptions options;
  options.metric = "eval/loss";
  CHECK(footer(table_model(input, options), "eval_loss").empty());
  input.rows[1].seeds[0].loss_smoothing = input.rows[1].seeds[1].loss_smoothing = 0.1;
  const std::string text = footer(table_model(input, options), "eval_loss");
  CHECK_MESSAGE(text.starts_with("eval/loss of 2 of "), text);
  CHECK(has(text, " runs contains the training's label smoothing, because an older version measured it"));
  options.metric = "minival/ema_loss";
  CHECK(footer(table_model(input, options), "eval_loss").starts_with("minival/ema_loss of 2 of "));
  for (const char* other : {"eval/accuracy", "train/loss"}) {
    options.metric = other;
    CHECK(footer(table_model(input, options), "eval_loss").empty());
  }
}

TEST_CASE("table_model: the footer says where training losses are averages of different lengths") {
  TableInput input = strips_table();
  TableOptions options;
  options.metric = "train/loss";
  input.rows[1].seeds[0].last_steps = false;
  const std::string text = footer(table_model(input, options), "train_loss");
  CHECK_MESSAGE(text.starts_with("Mixed train/loss: the mean of the last 50 steps in "), text);
  CHECK(has(text, ", and in 1 run that of an older version, of 50 steps or fewer."));
  options.metric = "eval/accuracy";
  CHECK(footer(table_model(input, options), "train_loss").empty());
  options.learned = 0.5;
  CHECK(footer(table_model(input, options), "train_loss") == text);
  options.metric = "train/loss";
  for (TableRow& row : input.rows)
    for (TableSeed& seed : row.seeds) seed.last_steps = false;
  CHECK(footer(table_model(input, options), "train_loss").empty());
}

TEST_CASE("table_model: the footer counts images that were left out") {
  TableInput input = strips_table();
  CHECK(footer(table_model(input, {}), "bad_images").empty());
  input.rows[0].seeds[1].bad_images = 4;
  input.rows[3].seeds[0].bad_images = 2;
  CHECK(footer(table_model(input, {}), "bad_images").starts_with("Images that could not be decoded were left out"));
  CHECK(has(footer(table_model(input, {}), "bad_images"), "up to 4 in 2 runs"));
}

TEST_CASE("table_model: the footer says which runs saw a JPEG copy of a lossless data set") {
  TableInput input = states_table();
  CHECK(footer(table_model(input, {}), "jpeg_copy").empty());
  std::size_t ended = 0;
  const auto mark = [&](std::size_t row, const std::string& copy) {
    for (TableSeed& seed : input.rows[row].seeds)
      if (seed.state == SeedState::done || seed.state == SeedState::diverged) seed.jpeg_copy = copy, ++ended;
  };
  mark(0, "cifar10 as JPEG, quality 75");
  CHECK(footer(table_model(input, {}), "jpeg_copy") ==
        "cifar10 as JPEG, quality 75, in 3 of 11 runs: not the published pixels.");
  mark(1, "cifar10 as JPEG");
  CHECK(footer(table_model(input, {}), "jpeg_copy") ==
        "cifar10 as JPEG, in 3 of 11 runs; cifar10 as JPEG, quality 75, in 3 of 11 runs: not the published pixels.");
  ended = 0;
  for (std::size_t row = 0; row < input.rows.size(); ++row) mark(row, "cifar10 as JPEG, quality 75");
  CHECK(ended == 11);
  CHECK(footer(table_model(input, {}), "jpeg_copy") == "cifar10 as JPEG, quality 75: not the published pixels.");
  CHECK(has(rendered(input, TableFormat::text), "\ncifar10 as JPEG, quality 75: not the published pixels.\n"));
}

TEST_CASE("table_model: an axis may go across, one column a value") {
  const TableModel model = rates_across(TableCellContent::mean);
  REQUIRE(model.columns.size() == 3);
  CHECK(model.columns[1].heading == "lr=0.001");
  REQUIRE(model.grid.size() == 3);
  CHECK(model.grid[1].cells[0].text() == "dpn");
  CHECK(model.grid[1].cells[1].text() == model.lines[2].mean.text + " ±" + model.lines[2].half_width.text + " (5) *");
  CHECK(model.grid[1].lines == std::vector<std::size_t>{2, 3});
  CHECK(model.grid[0].is_baseline);
}

TEST_CASE("table_model: cells of an axis across may be gains") {
  const TableModel model = rates_across(TableCellContent::gain);
  CHECK(model.grid[1].cells[2].text() == model.lines[3].gain.text + " ±" + model.lines[3].gain_half_width.text + " *");
  CHECK(model.grid[0].cells[1].text() == "baseline");
}

TEST_CASE("table_model: axes that --rows leaves out go across") {
  TableOptions options;
  options.rows = {"model.placement"};
  CHECK(table_model(strips_table(), options).columns.size() == 3);
}

TEST_CASE("table_model: an axis cannot go down and across") {
  TableOptions options;
  options.rows = {"lr"};
  options.cols = {"lr"};
  CHECK_THROWS_WITH(table_model(strips_table(), options), "--rows, --cols: train.optimizer.lr cannot be both");
}

TEST_CASE("table_model: a table with all axes across has one row") {
  TableOptions options;
  options.cols = {"placement"};
  const TableModel model = table_model(states_table(), options);
  REQUIRE(model.grid.size() == 1);
  CHECK(model.grid[0].cells[0].text() == "patch_norm");
  CHECK(model.grid[0].cells[5].text() == "1/3 failed: out of memory");
  CHECK(has(footer(model, "note"), "post_post: 2/3 diverged @1200"));
}

TEST_CASE("table_model: an empty table has no lines") { CHECK(table_model(TableInput{}, {}).lines.empty()); }

TEST_CASE("table_model: rows without a baseline have no gains") {
  TableInput input = strips_table();
  for (TableRow& row : input.rows) row.baseline.reset();
  const TableModel model = table_model(input, {});
  CHECK(model.strips.empty());
  CHECK(footer(model, "gain").empty());
  CHECK(model.columns.size() == 3);
}

TEST_CASE("table_model: with few seeds the footer says what simulations show") {
  TableInput input = one_strip();
  CHECK(has(footer(table_model(input, {}), "gain"), "all 2 intervals hold with 92 to 97%;"));
  TableInput many = input;  // a row that is like others is copied: more rows know more
  for (int k = 0; k < 4; ++k) many.rows.push_back(many.rows[std::size_t(1 + k % 2)]);
  CHECK(has(footer(table_model(many, {}), "gain"), "all 6 intervals hold with 95%;"));
  many.rows[2].seeds.resize(2);
  CHECK(has(footer(table_model(many, {}), "gain"), "hold with 87 to 100%;"));
  many.rows[2].apart = true;  // its own t interval is exact
  CHECK(has(footer(table_model(many, {}), "gain"), "hold with 95%;"));
  for (TableRow& row : input.rows) row.seeds.resize(3);
  CHECK(has(footer(table_model(input, {}), "gain"), "all 2 intervals hold with 91 to 98%;"));
  // Two-stage seeds: the noise rests on the first.
  input = one_strip();
  input.first_stage = {0, 1, 2, 3};
  CHECK(has(footer(table_model(input, {}), "gain"), "hold with 92 to 97%;"));
  input.rows.pop_back();
  CHECK(footer(table_model(input, {}), "gain") ==
        "Gains: paired by seed; ± is a 95% paired t interval; * leaves out 0.");
}

TEST_CASE("table_model: a plain footer has at most eight lines of 80 columns") {
  TableInput input = one_strip();
  for (TableRow& row : input.rows)
    for (TableSeed& seed : row.seeds) seed.images = 10'000, seed.guess = 0.1;
  input.remarks = {
      "Nothing was tuned; all rows: adamw, lr 0.002, weight decay 0.05, batches of 50, 6 epochs, warm-up of 1 epoch, "
      "dropout 0, drop-path 0."};
  const std::string text = rendered(input, TableFormat::text, {}, 80);
  const std::string below = text.substr(text.find("\n\n", text.find("sub_ln")) + 2);
  CAPTURE(below);
  CHECK(std::count(below.begin(), below.end(), '\n') <= 7);  // and one for a remark on the data
}
