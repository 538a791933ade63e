#include "experiments/lab/pictures/report.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "experiments/lab/pictures/figures.h"
#include "experiments/lab/tables/sweep_table.h"
#include "tests/lab/pictures/fake_results.h"
#include "tests/lab/pictures/svg_reader.h"

using namespace normlab;

namespace {

/// A descriptor of rows by sweep, with the question `about`.
std::string descriptor(const std::string& sweep, int seeds, const std::string& baseline, const std::string& about) {
  return fmt::format(R"({{"about": "{}",
    "dataset": {{"name": "shapes", "train_images": 200, "eval_images": 50}},
    "model": {{"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}},
    "train": {{"epochs": 4, "batch_size": 20}},
    "sweep": {}, "seeds": {}{}}})",
                     about, sweep, seeds, baseline.empty() ? "" : ", \"baseline\": " + baseline);
}

const std::string kTwoRows = R"({"model.placement": ["pre_pre", "dpn"]})";
const std::string kBaseline = R"({"model.placement": "pre_pre"})";

struct Made {
  TableModel table;
  std::string html;
  std::vector<PictureFile> pictures;
};

Made make(const Experiment& experiment, const ResultStore& store, const TableModel* rates = nullptr) {
  const TableModel table = sweep_table_model(experiment, store, {});
  const ExperimentCurves curves = read_curves(experiment, store, default_curves(table.metric));
  const ReportInput input{experiment, store, table, curves, rates, {}, "a test"};
  return {table, report_html(input), report_pictures(input)};
}

/// Two rows of three trials each, all done.
struct FinishedSweep {
  TemporaryFolder folder;
  Experiment experiment = experiment_of(folder, descriptor(kTwoRows, 3, kBaseline, "Does it help? Two rows."));
  Made made;

  FinishedSweep() {
    const ResultStore store(folder / "results");
    for (const Trial& trial : experiment.trials)
      fake_done(
          store, trial,
          0.5 + 0.01 * double(trial.config.seed) + (trial.row == 1 ? 0.05 + 0.002 * double(trial.config.seed) : 0.0));
    made = make(experiment, store);
  }
};

/// Whether each element that is opened is closed, in order; for the markup that the report writes.
bool well_formed(const std::string& html) {
  static const std::vector<std::string> kVoid{"meta", "input", "link", "br", "hr", "!doctype"};
  std::vector<std::string> open;
  for (std::size_t at = 0; (at = html.find('<', at)) != html.npos;) {
    const std::size_t end = html.find('>', at);
    const bool closing = html[at + 1] == '/', empty = html[end - 1] == '/';
    const std::size_t begin = at + 1 + closing;
    const std::string tag = html.substr(begin, html.find_first_of(" />\n", begin) - begin);
    at = end;
    if (closing) {
      if (open.empty() || open.back() != tag) return false;
      open.pop_back();
    } else if (!empty && std::find(kVoid.begin(), kVoid.end(), tag) == kVoid.end()) {
      open.push_back(tag);
      // Scripts and styles have text, not markup.
      if (tag == "script" || tag == "style") at = html.find("</" + tag, at) - 1;
    }
  }
  return open.empty();
}

}  // namespace

TEST_CASE("report: a finished sweep has its question above its table") {
  const FinishedSweep sweep;
  const Made& made = sweep.made;
  CHECK(well_formed(made.html));
  CHECK(made.html.find("<h1>Does it help?</h1>") != std::string::npos);
  CHECK(made.html.find("<p>Two rows.</p>") != std::string::npos);
  CHECK(made.html.find("2 rows, 6 trials: 6 done.") != std::string::npos);
  for (const TableSentence& sentence : made.table.footer)
    CHECK(occurrences(made.html, sentence.text.substr(0, 20)) >= 1);
}

TEST_CASE("report: every trial has its settings and its provenance") {
  const FinishedSweep sweep;
  const std::string& html = sweep.made.html;
  for (const Trial& trial : sweep.experiment.trials) CHECK(occurrences(html, "id=\"trial-" + trial.id + "\"") == 1);
  CHECK(html.find("<code>model.placement.stem.patch_in</code>") != std::string::npos);
  CHECK(html.find("&quot;patch_size&quot;: 8") != std::string::npos);
  CHECK(html.find("a &lt;cpu&gt; &amp; more") != std::string::npos);
}

TEST_CASE("report: a page loads nothing from elsewhere") {
  const FinishedSweep sweep;
  for (const char* part : {"http://", "https://", "src=", "@import", "url("}) {
    CAPTURE(part);
    CHECK(sweep.made.html.find(part) == std::string::npos);
  }
}

TEST_CASE("report: the pictures are the gains and the curves") {
  const FinishedSweep sweep;
  const Made& made = sweep.made;
  REQUIRE(made.pictures.size() == 3);
  CHECK(made.pictures[0].name == "gains.svg");
  CHECK(made.pictures[1].name == "curves-eval-accuracy.svg");
  CHECK(made.pictures[2].name == "curves-train-loss.svg");
}

TEST_CASE("report: the losses by rate have a section and a picture with a line per row") {
  const TemporaryFolder folder;
  const ResultStore store(folder / "results");
  const Experiment experiment = experiment_of(
      folder, descriptor(R"({"model.placement": ["pre_pre", "dpn"], "train.optimizer.lr": [0.001, 0.01, 0.1]})", 2,
                         kBaseline, "How sensitive?"));
  for (const Trial& trial : experiment.trials) {
    fake_metrics(store, trial, 0.5);
    TrialResult result = fake_result(trial, TrialEnd::done, 0.5);
    result.metrics["train/first_loss"] = 2.5;
    result.metrics["train/loss"] = 1 + 0.1 * double(trial.row);
    if (trial.row == 5) {  // dpn at 0.1
      result.status = TrialEnd::diverged;
      result.diverged_step = 50;
      result.metrics = {{"train/first_loss", 2.5}};
    }
    if (result.status == TrialEnd::done) {
      MetricsLog log(store.trial(trial.id).metrics(1));
      result.steps = 60;
      std::map<std::string, double> last = result.metrics;
      last.erase("train/first_loss");
      log.append({60, 1, last});
    }
    store.trial(trial.id).publish_result(result);
  }
  TableOptions options;
  options.lr_sensitivity = true;
  const TableModel rates = sweep_table_model(experiment, store, options);
  const Made made = make(experiment, store, &rates);
  CHECK(well_formed(made.html));
  CHECK(made.html.find("<section id=\"lr-sensitivity\">") != std::string::npos);
  CHECK(made.html.find("<a href=\"#lr-sensitivity\">") != std::string::npos);
  CHECK(made.html.find("<th scope=\"col\">learning rate</th>") != std::string::npos);
  CHECK(make(experiment, store).html.find("lr-sensitivity") == std::string::npos);
  const Chart chart = rates_chart(rates);
  CHECK(chart.across.logarithmic);
  REQUIRE(chart.panels.size() == 1);
  const std::vector<ChartSeries>& rows = chart.panels[0].series;
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].label == "pre_pre");
  CHECK(rows[0].crosses.empty());
  REQUIRE(rows[1].points.size() == 3);
  CHECK(rows[1].points[0].at == 0.001);
  CHECK(rows[1].points[0].mean == doctest::Approx(1.3));
  CHECK(rows[1].points[2].mean == 2.5);
  CHECK(rows[1].crosses.size() == 2);
  CHECK(made.html.find("dpn, seed 1: diverged at 0.1") != std::string::npos);
  CHECK(made.html.find("dpn, seed 0: diverged at 0.1") != std::string::npos);
  CHECK(made.html.find("dpn: from 1.3 to 2.5.") != std::string::npos);
}

TEST_CASE("report: the plot of gains has the numbers of the table") {
  const FinishedSweep sweep;
  const Made& made = sweep.made;
  const auto plots = strip_charts(made.table);
  REQUIRE(plots.size() == 1);
  REQUIRE(plots[0].panels[0].lanes.size() == 1);
  const ChartLane& lane = plots[0].panels[0].lanes[0];
  REQUIRE(lane.dots.size() == 3);
  CHECK(lane.dots[2].value == doctest::Approx(5.4));
  CHECK(lane.point->mean == doctest::Approx(5.2));
  CHECK(lane.numbers == made.table.grid[1].cells[2].text());
  CHECK(lane.numbers.ends_with(" *"));
  CHECK(made.html.find("<span>gain " + lane.numbers + "</span>") != std::string::npos);
}

TEST_CASE("report: a bar ends where the interval of the table ends") {
  const FinishedSweep sweep;
  TableModel table = sweep.made.table;
  TableLine& line = table.lines[1];
  line.gain_half_width.value = 6;
  line.gain_low.value = 0;  // cut by Holm's procedure
  line.gain_high.value = 11.2;
  const auto lane = [&] { return strip_charts(table)[0].panels[0].lanes[0]; };
  CHECK(lane().bar);
  CHECK(lane().point->low == 0);
  CHECK(lane().point->high == 11.2);
  line.gain_high.value = std::numeric_limits<double>::infinity();
  CHECK_FALSE(lane().bar);
}

TEST_CASE("report: one value per row is a sentence and no panel") {
  const TemporaryFolder folder;
  const Experiment experiment =
      experiment_of(folder, descriptor(R"({"model.placement": ["pre_pre", "dpn", "sub_ln"]})", 1, kBaseline, "Why?"));
  const auto trial = [&](std::size_t row) { return experiment.trials[experiment.rows[row].trials[0]]; };
  const ResultStore once(folder / "once");
  for (const std::size_t row : {0, 1}) fake_metrics(once, trial(row), 0.5, 1);
  const Made lone = make(experiment, once);
  CHECK(well_formed(lone.html));
  CHECK(occurrences(lone.html, "One value per row, at step 10: no curve to draw.") == 2);
  CHECK(occurrences(lone.html, "class=\"panel\"") == 0);
  CHECK(occurrences(lone.html, "<td>10</td><td>") == 4);  // the numbers stay
  for (const PictureFile& picture : lone.pictures) CHECK(picture.name == "gains.svg");
}

TEST_CASE("report: a row with one value beside curves is named and not drawn") {
  const TemporaryFolder folder;
  const Experiment experiment =
      experiment_of(folder, descriptor(R"({"model.placement": ["pre_pre", "dpn", "sub_ln"]})", 1, kBaseline, "Why?"));
  const auto trial = [&](std::size_t row) { return experiment.trials[experiment.rows[row].trials[0]]; };
  const ResultStore mixed(folder / "mixed");
  fake_metrics(mixed, trial(0), 0.5, 1);
  fake_metrics(mixed, trial(1), 0.5, 3);
  const Made some = make(experiment, mixed);
  CHECK(occurrences(some.html, "Not drawn, with one value each: pre_pre.") == 2);
  CHECK(occurrences(some.html, "class=\"panel\" data-row=\"1\"") == 2);
  CHECK(occurrences(some.html, "class=\"panel\" data-row=\"0\"") == 0);
}

TEST_CASE("report: every state of a trial is shown with its reason") {
  const TemporaryFolder folder;
  const Experiment experiment = experiment_of(
      folder, descriptor(R"({"model.placement": ["pre_pre", "dpn", "sub_ln", "dyt"]})", 3, kBaseline, ""));
  const ResultStore store(folder / "results");
  const auto trial = [&](std::size_t row, std::size_t seed) -> const Trial& {
    return experiment.trials[experiment.rows[row].trials[seed]];
  };
  for (std::size_t s = 0; s < 3; ++s) fake_done(store, trial(0, s), 0.6 + 0.01 * double(s));
  fake_done(store, trial(1, 0), 0.7);
  fake_diverged(store, trial(1, 1), 25);
  fake_metrics(store, trial(1, 2), 0.5, 2);
  fake_failed(store, trial(2, 0), "out of <memory>");
  std::filesystem::create_directories(store.trial(trial(3, 0).id).path());
  std::ofstream(store.trial(trial(3, 0).id).path() / "result.json") << "{ damaged";
  const Made made = make(experiment, store);
  CHECK(well_formed(made.html));
  CHECK(made.html.find("<h1>small</h1>") != std::string::npos);  // no question: the file's name
  CHECK(made.html.find("diverged after step 25 at blocks.1.mlp.pre") != std::string::npos);
  CHECK(made.html.find("stopped 40%") != std::string::npos);
  CHECK(made.html.find("out of &lt;memory&gt;") != std::string::npos);
  CHECK(made.html.find("Results that could not be read") != std::string::npos);
  CHECK(made.html.find("left out of the curves") == std::string::npos);  // said once, by the table
  CHECK(made.html.find("12 trials: 4 done, 1 diverged, 1 stopped, 1 failed, 4 missing, 1 unreadable.") !=
        std::string::npos);
  CHECK(occurrences(made.html, "class=\"p-cross p-s2\"") >= 1);
  CHECK(made.html.find("no values yet") != std::string::npos);
}

TEST_CASE("report: a sweep that has not run says so") {
  const TemporaryFolder folder;
  const Experiment experiment = experiment_of(folder, descriptor(kTwoRows, 2, kBaseline, "Why?"));
  const Made made = make(experiment, ResultStore(folder / "nothing"));
  CHECK(well_formed(made.html));
  CHECK(made.html.find("No trial has written metrics yet.") != std::string::npos);
  CHECK(made.html.find("4 missing") != std::string::npos);
}

TEST_CASE("report: one seed has no bars") {
  const TemporaryFolder folder;
  const Experiment experiment = experiment_of(folder, descriptor(kTwoRows, 1, kBaseline, "Why?"));
  const ResultStore store(folder / "one");
  for (const Trial& trial : experiment.trials) fake_done(store, trial, 0.6);
  const Made made = make(experiment, store);
  CHECK(well_formed(made.html));
  CHECK(made.html.find("No bars: one seed has no interval.") != std::string::npos);
  CHECK(occurrences(made.pictures[0].svg, "class=\"p-dot p-s1\"") == 1);
}

TEST_CASE("report: without a baseline the values are plotted") {
  const TemporaryFolder folder;
  const Experiment experiment = experiment_of(folder, descriptor(kTwoRows, 3, "", "Why?"));
  const ResultStore store(folder / "no-baseline");
  for (const Trial& trial : experiment.trials) fake_done(store, trial, 0.6 + 0.01 * double(trial.config.seed));
  const Made made = make(experiment, store);
  CHECK(well_formed(made.html));
  CHECK(made.pictures[0].name == "values.svg");
  CHECK(made.html.find("No baseline to compare with, so values are shown.") != std::string::npos);
  CHECK(drawn(made.pictures[0].svg, "path", "p-zero").empty());
  const auto plots = strip_charts(made.table);
  REQUIRE(plots.size() == 1);
  std::vector<double> values;
  for (const ChartDot& dot : plots[0].panels[0].lanes[0].dots) values.push_back(dot.value);
  REQUIRE(values.size() == 3);
  CHECK(values[1] == doctest::Approx(61));
}

TEST_CASE("report: strips are by model, lanes by what differs within a strip") {
  const TemporaryFolder folder;
  const Experiment experiment = experiment_of(
      folder, descriptor(R"({"model.placement": ["pre_pre", "dpn"], "model.depth": [1, 2]})", 2, kBaseline, ""));
  const ResultStore store(folder / "results");
  for (const Trial& trial : experiment.trials)
    fake_done(store, trial, 0.5 + 0.01 * double(trial.row) + 0.003 * double(trial.config.seed % 2));
  const auto plots = strip_charts(make(experiment, store).table);
  REQUIRE(plots.size() == 1);
  REQUIRE(plots[0].panels.size() == 2);
  for (std::size_t s = 0; s < 2; ++s) {
    const ChartPanel& strip = plots[0].panels[s];
    CHECK(strip.heading.find(s == 0 ? "depth=1" : "depth=2") != std::string::npos);
    REQUIRE(strip.lanes.size() == 1);
    CHECK(strip.lanes[0].label == "dpn");
    CHECK(strip.values_name.find("pre_pre") != std::string::npos);
  }
}

TEST_CASE("report: labels and messages are escaped") {
  const TemporaryFolder folder;
  const std::string evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>";
  const Experiment experiment = experiment_of(folder, fmt::format(R"({{"about": "{0}",
        "dataset": {{"name": "shapes", "train_images": 200, "eval_images": 50}},
        "model": {{"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}},
        "train": {{"epochs": 4, "batch_size": 20}},
        "placements": {{"{0}": {{"base": "dpn"}}}},
        "sweep": {{"model.placement": ["pre_pre", "{0}"]}},
        "seeds": 2, "baseline": {{"model.placement": "pre_pre"}}}})",
                                                                  evil));
  const ResultStore store(folder / "results");
  for (const Trial& trial : experiment.trials) {
    if (trial.row == 1 && trial.config.seed == 1)
      fake_failed(store, trial, evil + " ]]> --> \x1b[2J");
    else
      fake_done(store, trial, 0.6);
  }
  const Made made = make(experiment, store);
  CHECK(well_formed(made.html));
  CHECK(occurrences(made.html, "<script>") == 1);
  CHECK(occurrences(made.html, "</script>") == 1);
  CHECK(occurrences(made.html, "<img") == 0);
  CHECK(made.html.find('\x1b') == std::string::npos);
  CHECK(made.html.find("&lt;/script&gt;&lt;script&gt;alert(1)") != std::string::npos);
  for (const PictureFile& picture : made.pictures) {
    CHECK(occurrences(picture.svg, "<script") == 0);
    CHECK(occurrences(picture.svg, "<img") == 0);
  }
}

TEST_CASE("report: two hundred rows are one file of a few megabytes") {
  const TemporaryFolder folder;
  std::string rates;
  for (int i = 1; i <= 50; ++i) rates += fmt::format("{}{}e-4", i == 1 ? "" : ", ", i);
  const Experiment experiment = experiment_of(
      folder,
      descriptor(
          fmt::format(R"({{"model.placement": ["pre_pre", "dpn", "sub_ln", "dyt"], "train.optimizer.lr": [{}]}})",
                      rates),
          2, kBaseline, "Which rate?"));
  REQUIRE(experiment.rows.size() == 200);
  const ResultStore store(folder / "results");
  for (const Trial& trial : experiment.trials)
    fake_done(store, trial, 0.5 + 0.001 * double(trial.row) + 0.002 * double(trial.config.seed));
  const Made made = make(experiment, store);
  CHECK(well_formed(made.html));
  CHECK(made.html.size() < 6'000'000);
  CHECK(strip_charts(made.table)[0].panels.size() == 50);
}
