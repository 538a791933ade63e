// Rows of numbers that were not trained here.
#include "experiments/lab/tables/external_rows.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "experiments/lab/pictures/report.h"
#include "tests/lab/sweep/small_sweep.h"
#include "tests/lab/tables/table_example.h"

using namespace normlab;

namespace {

const char* const kSame = "placement=dpn, lr=0.001";

/// The sweep with numbers beside it. Seeds of "dpn" at 0.001 are our own, one point lower.
struct SweepWithExternal : SmallSweep {
  SweepWithExternal() {
    publish_all();
    plain = model();
    experiment.external = {{"timm", "files/timm.csv", "", {}}, {"other", "other.csv", "", {{"x", 0, "eval/loss", 2}}}};
    for (std::uint64_t seed = 0; seed < 2; ++seed) {
      add(kSame, seed, *plain.lines[2].seeds[seed].value - 0.01);
      add("resnet", seed, 0.7 + 0.01 * double(seed));
    }
  }
  void add(const std::string& row, std::uint64_t seed, double value) {
    experiment.external[0].values.push_back({row, seed, "eval/accuracy", value});
  }
  TableModel plain;  // without these numbers
};

std::string all_of(const std::vector<TableSentence>& footer) {
  std::string out;
  for (const TableSentence& sentence : footer) out += sentence.text + "\n";
  return out;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("external rows: they follow ours, with their label, and are compared with ours by Welch's t") {
  SweepWithExternal sweep;
  const TableModel model = sweep.model();
  REQUIRE(model.lines.size() == 6);
  const TableLine &same = model.lines[4], &stranger = model.lines[5];
  CHECK(same.label == "timm: placement=dpn, lr=0.001");
  CHECK(same.axes == std::vector<std::string>{"timm: dpn", "0.001"});
  CHECK(same.notes == std::vector<std::string>{"external"});
  CHECK(*same.gain.value == doctest::Approx(-1));
  const auto percent = [&](std::size_t line) {
    std::vector<double> values;
    for (const TableSeed& seed : model.lines[line].seeds) values.push_back(100 * *seed.value);
    return values;
  };
  CHECK(*same.gain_half_width.value == doctest::Approx(welch_interval(percent(4), percent(2)).half_width));
  CHECK(same.procedure == kUnpaired);
  CHECK(gain_cell(same).tail == "over ours");
  CHECK(stranger.label == "timm: resnet");
  CHECK(!stranger.gain.value);
  CHECK(stranger.half_width.value.has_value());
}

TEST_CASE("external rows: a difference is marked, and a loss has the other sign") {
  SweepWithExternal sweep;
  for (ExternalValue& value : sweep.experiment.external[0].values) value.value -= 0.3;
  CHECK(sweep.model().lines[4].differs);
  CHECK(gain_cell(sweep.model().lines[4]).tail == "* over ours");
  sweep.experiment.external[1].values = {{kSame, 0, "eval/loss", 1.2}, {kSame, 1, "eval/loss", 1.3}};
  TableOptions loss;
  loss.metric = "eval/loss";
  const TableModel model = sweep.model(loss);
  REQUIRE(model.lines.size() == 5);
  CHECK(*model.lines[4].gain.value == doctest::Approx(0.25));
}

TEST_CASE("external rows: no number of ours changes") {
  SweepWithExternal sweep;
  for (const bool chance : {false, true}) {
    TableOptions options;
    options.family = TableFamily::table;
    options.detect = 1;
    if (chance) options.diverged = TableDiverged::chance;
    const TableModel with = sweep.model(options);
    sweep.experiment.external.swap(sweep.experiment.external);
    SmallSweep alone;
    alone.publish_all();
    const TableModel without = alone.model(options);
    for (std::size_t r = 0; r < 4; ++r) {
      CHECK(with.lines[r].mean.value == without.lines[r].mean.value);
      CHECK(with.lines[r].gain.value == without.lines[r].gain.value);
      CHECK(with.lines[r].gain_half_width.value == without.lines[r].gain_half_width.value);
      CHECK(with.lines[r].p.value == without.lines[r].p.value);
    }
    const std::string sentences = all_of(with.footer);
    for (const TableSentence& sentence : without.footer)
      if (sentence.key != "chance" && sentence.key != "power") CHECK(has(sentences, sentence.text));
    for (std::size_t s = 0; s < 2; ++s) {
      CHECK(with.strips[s].best_by_chance.value == without.strips[s].best_by_chance.value);
      CHECK(with.strips[s].detectable.value == without.strips[s].detectable.value);
    }
  }
}

TEST_CASE("external rows: the footer says what they are, and what has no number") {
  SweepWithExternal sweep;
  const std::string footer = all_of(sweep.model().footer);
  CHECK(has(footer,
            "External, not trained here, and in no other number: timm (timm.csv). Their gain is over our row of "
            "the same name, unpaired: Welch's 95% t interval, each on its own."));
  CHECK(has(footer, "External rows without a row of that name here have no gain: timm: resnet."));
  CHECK(has(footer, "External numbers without eval/accuracy: other (other.csv has eval/loss)."));
  std::erase_if(sweep.experiment.external[0].values, [](const ExternalValue& value) { return value.row == kSame; });
  const std::string alone = all_of(sweep.model().footer);
  CHECK(has(alone, "in no other number: timm (timm.csv).\n"));
  CHECK(!has(alone, "Welch"));
  sweep.experiment.external[1].values = {{kSame, 0, "eval/loss", 1.2}};
  TableOptions loss;
  loss.metric = "eval/loss";
  CHECK(has(all_of(sweep.model(loss).footer), "each on its own; positive where it is lower."));
}

TEST_CASE("external rows: every format has them, marked") {
  SweepWithExternal sweep;
  const TableModel model = sweep.model();
  for (const TableFormat format : {TableFormat::text, TableFormat::markdown, TableFormat::latex, TableFormat::html}) {
    const std::string text = render_table(model, format);
    CHECK(has(text, "timm: dpn"));
    CHECK(has(text, "timm: resnet"));
    CHECK(has(text, "external"));
    CHECK(has(text, "over ours"));
  }
  const std::string csv = render_table(model, TableFormat::csv);
  CHECK(has(csv, ",external,"));
  CHECK(has(csv, "\ntimm: resnet,,"));
  const auto json = nlohmann::json::parse(render_table(model, TableFormat::json));
  CHECK(json["rows"][4]["external"] == "timm");
  CHECK(json["rows"][4]["compared_with"] == 2);
  CHECK(!json["rows"][0].contains("external"));
}

TEST_CASE("external rows: filters and grids know them") {
  SweepWithExternal sweep;
  TableOptions options;
  options.where = "row = 'timm: resnet'";
  CHECK(sweep.model(options).lines.size() == 1);
  options = {};
  options.cols = {"lr"};
  const std::string text = render_table(sweep.model(options), TableFormat::text);
  CHECK(has(text, "timm: dpn"));
  CHECK(!has(text, "over ours"));
  const std::string sentences = all_of(sweep.model(options).footer);
  CHECK_MESSAGE(has(sentences, "timm: resnet, in no cell, as none has its settings: 70 ±6 (2).\n"), sentences);
  CHECK(!has(text, "\ntimm: resnet  "));
}

TEST_CASE("external rows: their interval sets no decimals of ours") {
  SweepWithExternal sweep;
  for (const double far : {0.0, 1e-6}) {
    for (ExternalValue& value : sweep.experiment.external[0].values) value.value = 0.7 + far * double(value.seed);
    const TableModel model = sweep.model();
    for (std::size_t r = 0; r < 4; ++r) {
      CHECK(model.lines[r].mean.text == sweep.plain.lines[r].mean.text);
      CHECK(model.lines[r].gain.text == sweep.plain.lines[r].gain.text);
    }
  }
}

TEST_CASE("external rows: without a baseline they are in no pair, and never the best") {
  SweepWithExternal sweep;
  for (ExternalValue& value : sweep.experiment.external[0].values) value.value = 0.99;
  for (Cell& row : sweep.experiment.rows) row.baseline.reset();
  TableOptions options;
  options.pairs = TablePairs::all;
  CHECK(sweep.model(options).pairs.size() == 6);
  options.letters = true;
  options.bold = TableBold::best;
  const TableModel model = sweep.model(options);
  for (std::size_t r = 0; r < 6; ++r) CHECK(model.lines[r].letters.empty() == (r >= 4));
  CHECK(std::count_if(model.lines.begin(), model.lines.begin() + 4, [](const TableLine& l) { return l.is_best; }) == 1);
  CHECK(!model.lines[4].is_best);
  CHECK(has(all_of(model.footer), "External rows do not compete."));
  CHECK(has(all_of(model.footer), "Holm's test of all 6 pairs"));
}

TEST_CASE("external rows: a report shows them in its table, not in its pictures") {
  SweepWithExternal sweep;
  const TableModel model = sweep.model();
  const ExperimentCurves curves = read_curves(sweep.experiment, sweep.store, {"eval/accuracy"});
  const ReportInput input{sweep.experiment, sweep.store, model, curves};
  const std::string html = report_html(input);
  CHECK(has(html, "timm: dpn"));
  for (const PictureFile& picture : report_pictures(input)) CHECK(!has(picture.svg, "timm"));
}
