#include "experiments/lab/pictures/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/tasks.h"
#include "experiments/lab/pictures/figures.h"
#include "experiments/lab/pictures/page.h"
#include "experiments/lab/tables/markup.h"
#include "experiments/lab/tables/table.h"

namespace normlab {
namespace {

/// Splits the text `about` after its first question mark: the question, and the rest.
std::pair<std::string, std::string> question_of(const TableModel& table) {
  const std::string& about = table.about;
  if (about.empty()) return {table.name, ""};
  const auto mark = about.find('?');
  if (mark == about.npos) return {about, ""};
  const auto rest = about.find_first_not_of(" \n", mark + 1);
  return {about.substr(0, mark + 1), rest == about.npos ? "" : about.substr(rest)};
}

/// "5 rows, 20 trials: 18 done, 1 diverged, 1 running."
std::string trial_counts(const TableModel& table) {
  constexpr std::array kStates{SeedState::done,   SeedState::diverged, SeedState::running,   SeedState::stopped,
                               SeedState::failed, SeedState::missing,  SeedState::unreadable};
  std::size_t all = 0;
  std::string parts;
  for (const SeedState state : kStates) {
    std::size_t count = 0;
    for (const TableLine& line : table.lines)
      for (const TableSeed& seed : line.seeds) count += line.has_runs() && seed.state == state;
    all += count;
    if (count > 0) parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", count, word_of(state));
  }
  return fmt::format("{}, {}{}{}.", plural(table.lines.size(), "row"), plural(all, "trial"), parts.empty() ? "" : ": ",
                     parts);
}

/// A table that scrolls, without its question and with its footer as a list below.
std::string table_part(const TableModel& table, const std::string& name) {
  std::string html =
      fmt::format("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n", escaped(name));
  // The question is the page's heading, and the footer follows as a list, which wraps on a narrow screen.
  TableModel bare = table;
  bare.about.clear();
  bare.footer.clear();
  html += render_table_html(bare) + "</div>\n<ul class=\"footnotes\">\n";
  for (const TableSentence& sentence : table.footer) html += html_element("li", sentence.text) + "\n";
  return html + "</ul>\n";
}

/// Charts below their headings, "" without any.
std::string charts_part(const std::vector<Chart>& charts) {
  std::string html;
  for (const Chart& chart : charts) html += html_element("h3", chart.title) + "\n" + chart_html(chart, kReportNumbers);
  return html;
}

std::string curves_section(const ReportInput& input) {
  const std::vector<Chart> charts = curve_charts(input.experiment, input.table, input.curves.metrics);
  std::string why;
  if (const std::string without = input.curves.without_words(); !without.empty())
    why = without + ".";
  else if (charts.empty())
    why = input.curves.known.empty() ? "No trial has written metrics yet."
                                     : "No shown row has values of the metrics to draw.";
  return "<section id=\"curves\">\n<h2>Learning curves</h2>\n" + (why.empty() ? "" : html_element("p", why)) +
         charts_part(charts) + "</section>\n";
}

std::string problems_part(const ReportInput& input) {
  const std::vector<std::string> problems = report_problems(input);
  if (problems.empty()) return "";
  std::string html =
      "<section class=\"problems\" aria-label=\"Problems\"><h2>Results that could not be read</h2><ul>\n";
  for (const std::string& problem : problems) html += html_element("li", problem) + "\n";
  return html + "</ul></section>\n";
}

/// The row's label without the parts that the strip's heading repeats.
std::string lane_label(const std::string& label, const std::string& strip) {
  if (strip.empty()) return label;
  std::string rest = label;
  for (std::size_t begin = 0, end; begin <= strip.size(); begin = end + 2) {
    end = std::min(strip.find(", ", begin), strip.size());
    const std::string part = strip.substr(begin, end - begin);
    for (const std::string& cut : {part + ", ", ", " + part})
      if (const auto at = rest.find(cut); at != rest.npos) {
        rest.erase(at, cut.size());
        break;
      }
  }
  // A lone "placement=dpn" becomes "dpn".
  if (const auto equals = rest.find('='); equals != rest.npos && rest.find(", ") == rest.npos)
    rest.erase(0, equals + 1);
  return rest;
}

ChartLane lane_of(const TableLine& line, const std::string& strip, const TableModel& table, bool gains) {
  ChartLane lane{lane_label(line.label, strip), line.label};
  lane.note = joined(line.notes, ", ");
  for (const TableSeed& seed : line.seeds) {
    std::optional<double> dot = gains ? seed.gain : seed.value;
    if (!gains && dot) *dot *= table.scale;
    if (dot && std::isfinite(*dot)) lane.dots.push_back({fmt::format("seed {}", seed.seed), *dot});
  }
  lane.clear = gains && line.differs;
  lane.numbers = gains ? gain_cell(line).text() : with_interval(line.mean, line.half_width);
  const std::optional<double> value = gains ? line.gain.value : line.mean.value;
  if (!value || !std::isfinite(*value)) return lane;
  std::optional<double> low = line.gain_low.value, high = line.gain_high.value;
  if (!gains) {
    low = high = line.half_width.value;
    if (low) *low = *value - *low, *high += *value;
  }
  lane.bar = low && high && std::isfinite(*low) && std::isfinite(*high);
  lane.point = {double(&line - table.lines.data()), *value, low.value_or(*value), high.value_or(*value),
                gains ? line.pairs : line.n};
  return lane;
}

Chart strip_chart(const TableModel& table, bool gains) {
  Chart chart;
  chart.kind = gains ? ChartKind::gains : ChartKind::values;
  chart.name = gains ? "gains" : "values";
  chart.title = gains ? "Gains over the baseline in " + table.shown_metric() : table.shown_metric() + " of each row";
  chart.quantity = table.shown_metric();
  const std::string unit = table.unit == "%" && gains ? "percentage points" : table.unit;
  chart.across_name = (gains ? "gain in " : "") + table.shown_metric() + (unit.empty() ? "" : " [" + unit + "]");
  bool intervals = false, points = false;
  const auto add_strip = [&](const std::string& heading, const std::string& zero, auto&& belongs) {
    ChartPanel strip{heading, zero};
    for (const TableLine& line : table.lines)
      if (belongs(line)) strip.lanes.push_back(lane_of(line, heading, table, gains));
    const std::vector<ChartLane> lanes = std::exchange(strip.lanes, {});
    const std::size_t parts = (lanes.size() + kChartLanes - 1) / kChartLanes;
    for (std::size_t p = 0; p < parts; ++p) {
      if (parts > 1) strip.part = fmt::format("{} of {}", p + 1, parts);
      const auto at = [&](std::size_t end) { return lanes.begin() + std::ptrdiff_t(lanes.size() * end / parts); };
      strip.lanes.assign(at(p), at(p + 1));
      chart.panels.push_back(strip);
    }
    for (const ChartLane& lane : lanes) intervals = intervals || lane.bar, points = points || lane.point;
  };
  if (!gains) add_strip("", "", [](const TableLine& line) { return !line.baseline && line.external.empty(); });
  for (std::size_t s = 0; gains && s < table.strips.size(); ++s) {
    const TableStrip& from = table.strips[s];
    std::string zero;
    for (const TableLine& line : table.lines) {
      if (!from.baseline || line.plan_index != *from.baseline) continue;
      zero = "0 = " + lane_label(line.label, from.label);
      if (!line.mean.text.empty())
        zero += ", " + with_interval(line.mean, line.half_width) + (table.unit.empty() ? "" : " " + table.unit);
    }
    add_strip(from.label, zero,
              [&](const TableLine& line) { return line.baseline && !line.is_baseline && line.strip == s; });
  }
  if (!gains)
    chart.caption = "No baseline to compare with, so values are shown. Dots: seeds.";
  else if (lower_is_better(table.metric))
    chart.caption = "Line at zero: the baseline. Dots: how far each seed is below the same seed of the baseline.";
  else
    chart.caption = "Line at zero: the baseline. Dots: each seed's difference to the same seed of the baseline.";
  chart.caption += " Diamond: their mean.";
  chart.caption += !points      ? " There is none yet: no row shares a finished seed with its baseline."
                   : !intervals ? " No bars: one seed has no interval."
                   : gains      ? " Bar: the interval of the table; a filled diamond and * where it excludes zero."
                                : " Bar: the interval of the table.";
  set_chart_axes(chart, ChartScale::linear, ChartScale::linear);
  return chart;
}

}  // namespace

std::pair<std::string, double> curve_unit(const std::string& metric) {
  return is_share(metric) ? std::pair(metric + " [%]", 100.0) : std::pair(metric, 1.0);
}

ChartSeries curve_of(const RowCurves& row, double scale, ChartLook look) {
  ChartSeries series{row.label, row.band, look == ChartLook::base ? std::size_t(0) : 1, look};
  for (BandPoint& point : series.points) {
    point.mean *= scale;
    point.low *= scale;
    point.high *= scale;
  }
  if (look == ChartLook::base) return series;
  for (const SeedCurve& seed : row.seeds) {
    if (seed.state != TrialState::diverged) continue;
    const auto last = std::find_if(seed.values.rbegin(), seed.values.rend(),
                                   [](const auto& entry) { return std::isfinite(entry.second); });
    if (last != seed.values.rend())
      series.crosses.push_back({double(last->first), scale * last->second,
                                fmt::format("seed {}: diverged after step {}", seed.seed, last->first)});
  }
  return series;
}

namespace {

/// Why rows with a single value, which have no panel, are not drawn.
std::string single_words(const std::vector<const RowCurves*>& single, bool others) {
  std::string names;
  bool one_step = true;
  for (const RowCurves* row : single) {
    names += (names.empty() ? "" : ", ") + row->label;
    one_step = one_step && row->band.front().at == single.front()->band.front().at;
  }
  if (single.empty()) return "";
  if (others) return "Not drawn, with one value each: " + names + ". ";
  return fmt::format("One value per row{}: no curve to draw.",
                     one_step ? fmt::format(", at step {}", single.front()->band.front().at) : "");
}

Chart curve_chart(const Experiment& experiment, const TableModel& table, const MetricCurves& curves) {
  const auto [name, scale] = curve_unit(curves.metric);
  Chart chart;
  chart.kind = ChartKind::small;
  chart.title = name + " by step";
  chart.across_name = "step";
  std::vector<const RowCurves*> single;
  bool drawn = false, dashed = false, diverged = false;
  std::size_t longest = 0;
  for (const TableLine& line : table.lines) {
    if (!line.is_planned()) continue;
    const RowCurves& row = curves.rows[line.plan_index];
    ChartPanel panel{row.label, name};
    panel.row = line.plan_index;
    panel.corner = plural(row.seeds.size(), "seed");
    if (const auto baseline = experiment.rows[line.plan_index].baseline; baseline && *baseline != line.plan_index)
      panel.series.push_back(curve_of(curves.rows[*baseline], scale, ChartLook::base));
    const bool is_curve = row.band.size() > 1 || (!panel.series.empty() && panel.series[0].points.size() > 1);
    panel.drawn = is_curve || row.band.empty();
    if (!panel.drawn) single.push_back(&row);
    drawn = drawn || is_curve;
    panel.series.push_back(curve_of(row, scale, ChartLook::band));
    dashed = dashed || (panel.drawn && panel.series.size() > 1 && !panel.series[0].points.empty());
    diverged = diverged || (panel.drawn && !panel.series.back().crosses.empty());
    longest = std::max(longest, row.band.size());
    chart.panels.push_back(std::move(panel));
  }
  if (longest == 0) return {};
  set_chart_axes(chart, ChartScale::linear, ChartScale::central);
  chart.across = make_axis(0, chart.across.high, 4);
  chart.caption = single_words(single, drawn);
  for (ChartPanel& panel : chart.panels) panel.drawn = panel.drawn && drawn;
  if (drawn) {
    chart.caption += "Line: mean over the seeds at that step; band: from the lowest to the highest seed, no interval.";
    if (dashed) chart.caption += " Dashed: the baseline's mean.";
    chart.caption += " Where a seed ends, line and band break and continue with the remaining seeds.";
    if (diverged) chart.caption += " Cross: a seed diverged after this step.";
    if (longest > kMaxCurvePoints)
      chart.caption += fmt::format(" One point in {} is drawn.", (longest + kMaxCurvePoints - 1) / kMaxCurvePoints);
  }
  if (longest > kReportNumbers)
    chart.caption += fmt::format(" `normlab export --curves` writes all points of {}.", curves.metric);
  return chart;
}

}  // namespace

std::vector<std::string> report_problems(const ReportInput& input) {
  std::vector<std::string> problems = input.table.problems;
  for (const CurveProblem& problem : input.curves.problems) {
    const bool said = std::any_of(input.table.problems.begin(), input.table.problems.end(),
                                  [&](const std::string& other) { return other.find(problem.error) != other.npos; });
    if (!said) problems.push_back(problem.text());
  }
  return problems;
}

std::string report_html(const ReportInput& input) {
  const auto [question, rest] = question_of(input.table);
  const std::vector<Chart> strips = strip_charts(input.table);
  std::string html = page_start(input.table.name + ": " + question, input.reload_seconds) +
                     "<a class=\"skip\" href=\"#results\">To the table</a>\n<header>\n";
  html += html_element("h1", question) + "\n";
  if (!rest.empty()) html += html_element("p", rest) + "\n";
  html += html_element("p", trial_counts(input.table), "soft") + "\n<nav aria-label=\"Parts\"><ul>";
  std::string sections;
  const auto add = [&](const char* id, const char* name, const std::string& section) {
    html += fmt::format("<li><a href=\"#{}\">{}</a></li>", id, name);
    sections += section;
  };
  add("results", "Table",
      "<section id=\"results\">\n<h2>Table</h2>\n"
      "<div class=\"tools\" hidden><label for=\"filter\">Filter rows (curves and trials follow)</label><input "
      "type=\"search\" id=\"filter\" autocomplete=\"off\" spellcheck=\"false\"><span id=\"status\" "
      "role=\"status\"></span></div>\n" +
          table_part(input.table, "Table of results") + "</section>\n");
  for (const Chart& chart : strips)
    add(chart.name.c_str(), chart.kind == ChartKind::gains ? "Gains" : "Values",
        "<section id=\"" + chart.name + "\">\n" + html_element("h2", chart.title) + "\n" +
            chart_html(chart, kReportNumbers) + "</section>\n");
  if (input.rates != nullptr)
    add("lr-sensitivity", "Learning rates",
        "<section id=\"lr-sensitivity\">\n<h2>Learning-rate sensitivity</h2>\n" +
            table_part(*input.rates, "Table of learning-rate sensitivity") + charts_part({rates_chart(*input.rates)}) +
            "</section>\n");
  add("curves", "Learning curves", curves_section(input));
  if (!input.measurements.empty())
    add("measurements", "Measurements",
        "<section id=\"measurements\">\n<h2>Measurements</h2>\n" + charts_part(input.measurements) + "</section>\n");
  add("trials", "Trials", trials_section(input));
  const std::string again = input.reload_seconds > 0 ? fmt::format(" Reloads every {} s.", input.reload_seconds) : "";
  return html + "</ul></nav>\n</header>\n<main>\n" + problems_part(input) + sections + "</main>\n<footer>" +
         html_element("p", "Written " + input.written + "." + again, "soft") + "</footer>\n" + page_end();
}

std::vector<PictureFile> report_pictures(const ReportInput& input) {
  std::vector<PictureFile> files;
  std::vector<Chart> rates;
  if (input.rates != nullptr) rates = {rates_chart(*input.rates)};
  for (const auto& charts :
       {strip_charts(input.table), curve_charts(input.experiment, input.table, input.curves.metrics),
        input.measurements, rates})
    for (const Chart& chart : charts)
      for (PictureFile& file : chart_files(chart)) files.push_back(std::move(file));
  return files;
}

std::vector<Chart> strip_charts(const TableModel& table) {
  std::vector<Chart> charts;
  for (const bool gains : {true, false})
    if (Chart chart = strip_chart(table, gains); !chart.panels.empty()) charts.push_back(std::move(chart));
  return charts;
}

std::vector<std::string> default_curves(const std::string& metric) {
  if (metric == "train/loss") return {metric};
  return {metric, "train/loss"};
}

std::vector<Chart> curve_charts(const Experiment& experiment, const TableModel& table,
                                const std::vector<MetricCurves>& metrics) {
  std::vector<Chart> charts;
  std::set<std::string> taken;
  for (const MetricCurves& curves : metrics) {
    Chart chart = curve_chart(experiment, table, curves);
    if (chart.panels.empty()) continue;
    const std::string wanted = "curves-" + plain_name(curves.metric);
    chart.name = wanted;
    for (int number = 2; !taken.insert(chart.name).second; ++number) chart.name = fmt::format("{}-{}", wanted, number);
    charts.push_back(std::move(chart));
  }
  return charts;
}

}  // namespace normlab
