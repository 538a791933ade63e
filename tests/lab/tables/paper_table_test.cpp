// What a paper asks of a table: costs of rows, standard deviations, effect sizes, pairs, letters, bold and labels.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "experiments/lab/tables/labels.h"
#include "tests/lab/base/text.h"
#include "tests/lab/tables/table_example.h"

using namespace normlab;

namespace {

/// The three rows of one_strip(), with costs and times.
TableInput costly() {
  TableInput input = one_strip();
  std::int64_t params = 1'234'567;
  for (TableRow& row : input.rows) {
    row.params = params += 1000;
    row.macs = 5'000'000'000;
    for (TableSeed& seed : row.seeds) {
      seed.wall_seconds = 120 + double(seed.seed);
      seed.images_per_second = 1000;
      seed.peak_mb = 301 + double(seed.seed);
      seed.machine = "EPYC, 1 thread";
    }
  }
  return input;
}

TableOptions with_columns(std::vector<std::string> columns) {
  TableOptions options;
  options.columns = std::move(columns);
  return options;
}

TableOptions all_pairs_of(bool letters) {
  TableOptions options;
  options.pairs = TablePairs::all;
  options.letters = letters;
  return options;
}

std::string message_of(const TableInput& input, const TableOptions& options) {
  try {
    table_model(input, options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string cell_of(const TableModel& model, std::size_t row, const std::string& key) {
  for (std::size_t c = 0; c < model.columns.size(); ++c)
    if (model.columns[c].key == key) return model.grid[row].cells[c].text();
  return "no column " + key;
}

/// Of all sentences with this key.
std::string footers(const TableModel& model, const std::string& key) {
  std::string all;
  for (const TableSentence& sentence : model.footer)
    if (sentence.key == key) all += sentence.text + "\n";
  return all;
}

}  // namespace

TEST_CASE("columns: what a network costs and what its runs took") {
  const TableModel model =
      table_model(costly(), with_columns({"params", "macs", "seconds", "images_per_second", "peak_mb"}));
  CHECK(cell_of(model, 0, "params") == "1.236");
  CHECK(cell_of(model, 2, "params") == "1.238");
  CHECK(cell_of(model, 0, "macs") == "5.000");
  CHECK(cell_of(model, 0, "seconds") == "122");
  CHECK(cell_of(model, 0, "images_per_second") == "1000");
  CHECK(cell_of(model, 0, "peak_mb") == "303");
  CHECK(
      footers(model, "columns") ==
      "params: parameters of the network; macs: multiply-adds of its matrix products for one image, forward; peak MB: "
      "the most memory that the training process held at once, with its data; on a GPU that of its tensors and "
      "buffers.\n"
      "seconds, images/s, peak MB: means over the runs that did not diverge, with their evaluations, on EPYC, 1 "
      "thread.\n");
  const std::string text = render_table(model, TableFormat::text, {.width = 120, .caption = {}, .label = {}});
  CHECK(has(text, "params [M]  macs [G]  seconds  images/s  peak MB\n"));
}

TEST_CASE("columns: CSV and JSON have all digits") {
  const TableOptions options = with_columns({"params", "seconds"});
  const std::string csv = rendered(costly(), TableFormat::csv, options);
  CHECK(has(csv, ",differs,params,seconds,notes\n"));
  CHECK(has(csv, ",1235567,122,\n"));
  const auto json = nlohmann::json::parse(rendered(costly(), TableFormat::json, options));
  CHECK(json["rows"][0]["params"] == 1235567);
  CHECK(json["rows"][0]["params"].is_number_integer());
  CHECK(json["rows"][0]["seconds"] == 122);
}

TEST_CASE("columns: results of older versions record no memory") {
  TableInput input = costly();
  for (TableRow& row : input.rows)
    for (TableSeed& seed : row.seeds) seed.peak_mb = 0;
  const TableModel model = table_model(input, with_columns({"seconds", "peak_mb"}));
  CHECK(cell_of(model, 0, "peak_mb") == "");
  CHECK(has(footers(model, "columns"), "No result of these rows records peak_mb. `normlab plan` estimates memory.\n"));
  CHECK_FALSE(has(footers(model, "columns"), "seconds, peak MB"));
}

TEST_CASE("columns: rows of several runs have no seconds, which is not said of their results") {
  TableInput input = costly();
  for (TableRow& row : input.rows) {
    row.rates.resize(2);
    for (TableSeed& seed : row.seeds) seed.wall_seconds = 0;
  }
  const TableModel model = table_model(input, with_columns({"params", "seconds"}));
  CHECK(has(footers(model, "columns"), "Each row is of several runs, so these columns are empty: seconds.\n"));
  CHECK_FALSE(has(footers(model, "columns"), "records"));
}

TEST_CASE("columns: other machines, diverged runs and unknown values") {
  TableInput input = costly();
  input.rows[1].seeds[0].machine = "Xeon, 2 threads";
  input.rows[1].seeds[1] = diverged_seed(1, 7);
  input.rows[2].params = std::nullopt;
  const TableModel model = table_model(input, with_columns({"params", "seconds"}));
  CHECK(has(footers(model, "columns"), "on EPYC, 1 thread; Xeon, 2 threads, so rows may differ by their machines."));
  CHECK(cell_of(model, 1, "seconds") == "122");  // of seeds 0, 2, 3 and 4: 122.25
  CHECK(cell_of(model, 2, "params") == "");
}

TEST_CASE("columns: a row of a grid has a count that all its cells share, and the mean of their runs") {
  TableInput input = strips_table();
  for (std::size_t r = 0; r < input.rows.size(); ++r) {
    input.rows[r].params = r < 2 ? 5000 : 5000 + std::int64_t(r);
    for (TableSeed& seed : input.rows[r].seeds) seed.wall_seconds = r % 2 == 0 ? 10 : 20;
  }
  TableOptions options = with_columns({"params", "seconds"});
  options.cols = {"lr"};
  const TableModel model = table_model(input, options);
  CHECK(cell_of(model, 0, "params") == "5000");
  CHECK(cell_of(model, 1, "params") == "");
  CHECK(cell_of(model, 1, "seconds") == "15.0");
  CHECK(has(render_table(model, TableFormat::csv), ",params,seconds\n"));
}

TEST_CASE("columns: an unknown or repeated name is an error") {
  CHECK(message_of(costly(), with_columns({"parms"})) ==
        "--columns: unknown column \"parms\"; did you mean \"params\"?");
  CHECK(message_of(costly(), with_columns({"macs", "macs"})) == "--columns: macs is given twice");
}

TEST_CASE("sd: beside the interval, or instead of it") {
  TableOptions options;
  options.sd = TableSd::beside;
  const TableModel beside = table_model(one_strip(), options);
  // NumPy: np.std([75.487, 75.119, 74.477, 74.868, 74.728], ddof=1) is 0.385895
  CHECK(*beside.lines[0].sd.value == doctest::Approx(0.385895).epsilon(1e-5));
  CHECK(cell_of(beside, 0, "sd") == "0.4");
  CHECK(cell_of(beside, 0, "mean") == "74.9 ±0.5 (5)");
  CHECK(footer(beside, "sd") == "sd: standard deviation of the values of a row's seeds, over n - 1.");
  options.sd = TableSd::instead;
  const TableModel instead = table_model(one_strip(), options);
  CHECK(cell_of(instead, 0, "mean") == "74.9 ±0.4 (5)");
  CHECK(footer(instead, "interval") ==
        "±0.4 (5): standard deviation of the values of 5 seeds, over n - 1; it is no interval of the mean; last "
        "evaluation.");
  options.cols = {"placement"};
  CHECK(has(render_table(table_model(one_strip(), options), TableFormat::csv), "placement=dpn sd,"));
}

TEST_CASE("effect size: from a row's own pairs, positive if the row is better") {
  TableOptions options;
  options.effect_size = true;
  const TableModel model = table_model(one_strip(), options);
  // NumPy: d = [1.468, 1.178, 1.453, .951, 1.636]; np.mean(d) / np.std(d, ddof=1) * 0.797885 is 3.93346
  CHECK(*model.lines[1].effect_size.value == doctest::Approx(3.93346).epsilon(1e-4));
  CHECK(cell_of(model, 1, "effect_size") == "+3.93");
  CHECK(cell_of(model, 0, "effect_size") == "");
  CHECK(has(footer(model, "effect_size"), "Hedges' (1981)"));
  CHECK(has(render_table(model, TableFormat::csv), ",effect_size,"));
  options.metric = "eval/loss";
  CHECK(*table_model(one_strip(), options).lines[1].effect_size.value < -3);
}

TEST_CASE("pairs: a list of every two rows, with intervals that hold together") {
  const TableModel model = table_model(one_strip(), all_pairs_of(false));
  REQUIRE(model.grid.size() == 3);
  CHECK(model.grid[0].cells[0].value == "placement=dpn, lr=0.001");
  CHECK(model.grid[0].cells[1].value == "placement=pre_pre, lr=0.001");
  CHECK(model.grid[0].cells[2].text() == "+1.3 ±0.5 *");
  CHECK(model.grid[2].cells[2].text() == "-0.9 ±0.7 *");
  CHECK(footer(model, "gain") == "");
  CHECK(
      footer(model, "pairs") ==
      "Pairs: row minus the other, paired by seed; all 3 intervals hold together with 94 to 100%; * leaves out 0; p by "
      "Holm's procedure.");
  const auto gains = table_model(one_strip(), {});
  CHECK(*model.pairs[0].difference.value == *gains.lines[1].gain.value);
  CHECK(*model.pairs[0].half_width.value > *gains.lines[1].gain_half_width.value);
  CHECK(
      render_table(model, TableFormat::csv).starts_with("row,other,difference,half_width,low,high,pairs,p,differs\n"));
  CHECK(nlohmann::json::parse(render_table(model, TableFormat::json))["pairs"][2]["differs"] == true);
}

TEST_CASE("pairs: rows of other strips are not compared, and a filter hides pairs") {
  TableOptions options = all_pairs_of(false);
  CHECK(table_model(strips_table(), options).pairs.size() == 6);
  options.where = "lr = 0.003 and placement != dpn";
  const TableModel model = table_model(strips_table(), options);
  REQUIRE(model.pairs.size() == 1);
  const double whole = *table_model(strips_table(), all_pairs_of(false)).pairs[4].half_width.value;
  CHECK(*model.pairs[0].half_width.value == whole);
  CHECK(footer(model, "where") ==
        "2 of 6 rows are shown (lr = 0.003 and placement != dpn); all of them are counted in "
        "intervals and marks.");
  options.where = "placement = dpn";
  CHECK_THROWS_WITH_AS(table_model(strips_table(), options),
                       "--pairs all: no two rows match placement = dpn beside one baseline", InputError);
  options.letters = true;
  CHECK(table_model(strips_table(), options).lines.size() == 2);
}

TEST_CASE("pairs: strips of two rows have one interval each") {
  TableInput input = strips_table();
  input.rows.erase(input.rows.begin() + 4, input.rows.end());
  CHECK(footer(table_model(input, all_pairs_of(false)), "pairs") ==
        "Pairs: row minus the other, paired by seed; each interval holds with 95%; * leaves out 0; p by Holm's "
        "procedure.");
}

TEST_CASE("pairs: of a whole table all pairs are counted, and letters are of one baseline") {
  TableOptions options = all_pairs_of(false);
  CHECK(has(footer(table_model(strips_table(), options), "pairs"), "all 3 intervals beside one baseline hold"));
  options.family = TableFamily::table;
  CHECK(has(footer(table_model(strips_table(), options), "pairs"), "all 6 intervals of the table hold"));
  options.letters = true;
  CHECK(
      has(footer(table_model(strips_table(), options), "pairs"),
          "Letters: rows beside one baseline that share one cannot be told apart by Holm's test of all 6 pairs of the "
          "table, paired by seed"));
}

TEST_CASE("letters: rows that share one cannot be told apart, and the best row has the first") {
  const TableModel model = table_model(one_strip(), all_pairs_of(true));
  CHECK(model.lines[1].letters == "a");
  CHECK(model.lines[0].letters == "c");
  CHECK(model.lines[2].letters == "b");
  CHECK(cell_of(model, 1, "letters") == "a");
  CHECK(
      has(footer(model, "pairs"), "Holm's test of all 3 pairs, paired by seed (compact letter display, Piepho, 2004)"));
  CHECK(has(render_table(model, TableFormat::csv), ",differs,letters,notes\n"));
}

TEST_CASE("letters: one seed tells no rows apart") {
  TableInput input = one_strip();
  for (TableRow& row : input.rows) row.seeds.resize(1);
  const TableModel model = table_model(input, all_pairs_of(true));
  CHECK(model.lines[0].letters == "a");
  CHECK(model.lines[2].letters == "a");
  CHECK(footer(model, "pairs") == "No two rows share two seeds, so no pair can be told apart.");
}

TEST_CASE("letters: a table without a baseline compares all its rows") {
  TableInput input = one_strip();
  for (TableRow& row : input.rows) row.baseline.reset();
  CHECK(table_model(input, all_pairs_of(false)).pairs.size() == 3);
}

TEST_CASE("pairs: options that need another layout are errors") {
  TableOptions options;
  options.letters = true;
  CHECK(message_of(one_strip(), options) == "--letters: show which pairs of rows differ; add --pairs all");
  options.pairs = TablePairs::all;
  options.cols = {"lr"};
  CHECK(message_of(one_strip(), options) ==
        "--pairs all: is about single rows, which a grid does not list; leave out --rows and --cols");
  TableOptions columns = all_pairs_of(false);
  columns.columns = {"params"};
  CHECK(message_of(one_strip(), columns).starts_with("--columns: are of rows, and --pairs all lists pairs"));
}

TEST_CASE("bold: the best mean of each strip, in three formats") {
  TableOptions options;
  options.bold = TableBold::best;
  const TableModel model = table_model(strips_table(), options);
  for (const TableLine& line : model.lines) CHECK(line.is_best == line.label.starts_with("placement=dpn"));
  CHECK(has(render_table(model, TableFormat::markdown), "| **76.3** ±0.6 (5) |"));
  CHECK(has(render_table(model, TableFormat::html), "><strong>76.3</strong> ±0.6 (5)<"));
  CHECK(has(render_table(model, TableFormat::latex), "& \\bfseries 76.3 & $\\pm$ & 0.6"));
  CHECK(footer(model, "bold") ==
        "Bold: the highest mean of the rows with one baseline, and those that print alike. It may lead by chance.");
}

TEST_CASE("bold: ties, losses, survivors and a row alone") {
  TableOptions options;
  options.bold = TableBold::best;
  TableInput input = one_strip();
  input.rows[2] = input.rows[1];
  input.rows[2].seeds[0].value = *input.rows[2].seeds[0].value + 1e-6;
  TableModel model = table_model(input, options);
  CHECK(model.lines[1].is_best);
  CHECK(model.lines[2].is_best);
  input.rows[2].seeds[4] = diverged_seed(4, 100);  // the others have a higher mean, but are survivors
  for (TableSeed& seed : input.rows[2].seeds)
    if (seed.value) *seed.value += 0.1;
  model = table_model(input, options);
  CHECK(model.lines[1].is_best);
  CHECK(!model.lines[2].is_best);
  CHECK(has(footer(model, "bold"), "Rows with diverged or missing runs do not compete."));
  options.metric = "eval/loss";
  CHECK(table_model(one_strip(), options).lines[0].is_best);
  input.rows.resize(1);
  CHECK(!table_model(input, options).lines[0].is_best);
}

TEST_CASE("bold: without baselines each column of a grid has its own best") {
  TableInput input = strips_table();
  for (TableRow& row : input.rows) row.baseline.reset();
  TableOptions options;
  options.bold = TableBold::best;
  options.cols = {"lr"};
  const TableModel model = table_model(input, options);
  CHECK(model.grid[1].cells[1].bold);
  CHECK(model.grid[1].cells[2].bold);
  CHECK(!model.grid[0].cells[1].bold);
}

TEST_CASE("labels: readers see them, and data keep the names") {
  TableInput input = strips_table();
  input.labels = {
      {"dpn", "Dual PN"}, {"placement=sub_ln, lr=0.003", "Sub"}, {"eval/accuracy", "Top-1"}, {"0.001", "low"}};
  input.remarks = {"Chosen for placement=dpn, lr=0.001. Measured as eval/accuracy of 0.001 images."};
  const TableModel model = table_model(input, {});
  const std::string text = render_table(model, TableFormat::text);
  CHECK(has(text, "Top-1 [%]"));
  CHECK(has(text, "\nDual PN"));
  CHECK(has(text, "Chosen for placement=Dual PN, lr=low. Measured as Top-1 of 0.001 images."));
  CHECK(!has(text, "dpn"));
  for (const TableFormat format : {TableFormat::markdown, TableFormat::html, TableFormat::latex})
    CHECK(!has(render_table(model, format), "dpn"));
  const std::string csv = render_table(model, TableFormat::csv);
  CHECK(has(csv, ",label,eval/accuracy [%],"));
  CHECK(has(csv, "\ndpn,0.001,\"placement=Dual PN, lr=low\","));
  CHECK(has(csv, "\nsub_ln,0.003,Sub,"));
  const auto json = nlohmann::json::parse(render_table(model, TableFormat::json));
  CHECK(json["metric"] == "eval/accuracy");
  CHECK(json["metric_label"] == "Top-1");
  CHECK(json["rows"][2]["row"] == "placement=dpn, lr=0.001");
  CHECK(json["rows"][2]["label"] == "placement=Dual PN, lr=low");
  TableOptions options;
  options.where = "placement = dpn";
  CHECK(table_model(input, options).lines.size() == 2);
  options.where = "";
  options.cols = {"lr"};
  const std::string grid = rendered(input, TableFormat::text, options);
  CHECK(has(grid, "lr=low"));
  CHECK(has(grid, "Cells are Top-1 [%]."));
  CHECK(has(rendered(input, TableFormat::csv, options), "\ndpn,"));
}

TEST_CASE("labels: numbers and words of sentences are not names") {
  TableInput input = one_strip();
  for (std::size_t r = 0; r < 3; ++r)
    input.rows[r].label = input.rows[r].axes[0] = r == 0 ? "4" : r == 1 ? "best" : "seeds";
  input.labels = {{"4", "shallow"}, {"best", "DPN"}, {"seeds", "Sub"}};
  input.remarks = {"All rows: 4 epochs, chosen for seeds."};
  TableOptions options;
  const std::string text = rendered(input, TableFormat::text);
  CHECK(has(text, "All rows: 4 epochs, chosen for Sub."));
  CHECK(has(text, "\nDPN "));
  CHECK(has(text, "the best of 2 rows would still show"));
  CHECK(has(text, "5 seeds show a true gain"));
  options.where = "placement = best";
  CHECK(has(rendered(input, TableFormat::text, options), "1 of 3 rows are shown (placement = best)"));
}

TEST_CASE("labels: an external row and a strip have the label of ours in table and sentences") {
  TableInput input = strips_table();
  input.labels = {{"dpn", "Dual PN"}, {"0.003", "high"}};
  TableRow theirs = input.rows[1];
  theirs.baseline.reset();
  theirs.external = "timm";
  theirs.label = "timm: placement=dpn, lr=0.001";
  theirs.axes[0] = "timm: dpn";
  theirs.same_named = 1;
  theirs.remarks = {"external"};
  input.rows.push_back(theirs);
  const TableModel model = with_labels(table_model(input, {}));
  CHECK(model.lines.back().label == "timm: placement=Dual PN, lr=0.001");
  CHECK(model.grid.back().cells[0].value == "timm: Dual PN");
  CHECK(model.strips[1].label == "lr=high");
  input.rows[2].seeds[0].value = 0.9;  // so that strips differ
  CHECK(has(footer(with_labels(table_model(input, {})), "power"), "(lr=high)"));
}

TEST_CASE("interval: the example is a row that is shown, and a grid of gains shows no mean") {
  TableInput input = one_strip();
  input.rows[1].seeds.resize(3);
  TableOptions options;
  CHECK(has(footer(table_model(input, options), "interval"), "(5): 95% t interval of the mean of 5 seeds"));
  options.where = "placement = dpn";
  CHECK(has(footer(table_model(input, options), "interval"), "(3): 95% t interval of the mean of 3 seeds"));
  options = {};
  options.cols = {"lr"};
  options.cells = TableCellContent::gain;
  for (const TableSd sd : {TableSd::none, TableSd::instead}) {
    options.sd = sd;
    CHECK(footer(table_model(strips_table(), options), "interval") == "Each run counts with its last evaluation.");
  }
  options.bold = TableBold::best;
  CHECK(message_of(strips_table(), options).starts_with("--bold best: is the best mean"));
  options = {};
  options.cols = {"lr"};
  options.equivalent = 1;
  CHECK(message_of(strips_table(), options).starts_with("--equivalent: is about single rows"));
}

TEST_CASE("labels: a label replaces whole words once") {
  TableInput input = one_strip();
  for (std::size_t r = 0; r < 3; ++r) input.rows[r].label = input.rows[r].axes[0];
  input.labels = {{"pre_pre", "dpn"}, {"dpn", "pre_pre"}};
  input.remarks = {"From dpn to pre_pre, not pre_prepost."};
  CHECK(has(rendered(input, TableFormat::text), "From pre_pre to dpn, not pre_prepost."));
}

TEST_CASE("labels: figures and reports name rows and trials by them") {
  Experiment experiment;
  experiment.labels = {{"dpn", "Dual PN"}, {"0.1", "high"}};
  experiment.rows.resize(2);
  experiment.rows[0].label = "placement=dpn, lr=0.1";
  experiment.rows[1].label = "placement=dpn, lr=0.2";
  for (const std::size_t r : {0, 1}) {
    Trial& trial = experiment.trials.emplace_back();
    trial.row = r;
    trial.label = experiment.rows[r].label + ", seed 3";
  }
  show_labels(experiment);
  CHECK(experiment.rows[0].label == "placement=Dual PN, lr=high");
  CHECK(experiment.trials[0].label == "placement=Dual PN, lr=high, seed 3");
  CHECK(experiment.trials[1].label == "placement=Dual PN, lr=0.2, seed 3");
}

TEST_CASE("headings: none breaks inside a word in 80 or 40 columns") {
  for (const std::size_t width : {80, 40}) {
    CAPTURE(width);
    TableInput input = costly();
    input.axes[0] = "model.placement_of_norms";
    for (TableRow& row : input.rows) row.axes[0] = row.axes[0].substr(0, 3);
    for (TableRow& row : input.rows) row.axes[1] = row.axes[0];
    input.axes[1] = "train.schedule.warmup_steps";
    TableOptions options = with_columns({"params", "images_per_second", "peak_mb"});
    options.sd = TableSd::beside;
    options.effect_size = true;
    const std::string text = rendered(input, TableFormat::text, options, width);
    CAPTURE(text);
    check_fits(text, width);
    for (const char* word : {"placement_of_norms", "warmup_steps", "eval/accuracy", "images/s", "params", "effect"})
      CHECK(has(text, word));
  }
}
