#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/tasks.h"
#include "experiments/lab/pictures/report_parts.h"
#include "experiments/lab/tables/markup.h"

namespace normlab {
namespace {

constexpr std::size_t kMostNumbers = 20;  // points of a curve in the table of its numbers

std::string unit_words(const TableModel& table, bool gain) {
  if (table.unit.empty()) return "";
  return table.unit == "%" && gain ? " [percentage points]" : " [" + table.unit + "]";
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

PlotLane lane_of(const TableLine& line, const std::string& strip, const TableModel& table, bool gains) {
  PlotLane lane;
  lane.label = lane_label(line.label, strip);
  lane.note = joined(line.notes, ", ");
  const std::optional<double> value = gains ? line.gain.value : line.mean.value;
  for (const TableSeed& seed : line.seeds) {
    std::optional<double> dot = gains ? seed.gain : seed.value;
    if (!gains && dot) *dot *= table.scale;
    if (dot && std::isfinite(*dot)) lane.dots.push_back({fmt::format("seed {}", seed.seed), *dot});
  }
  if (value && std::isfinite(*value)) lane.mean = value;
  std::optional<double> low, high;
  if (gains)
    low = line.gain_low.value, high = line.gain_high.value;
  else if (const auto& half = line.half_width.value; value && half)
    low = *value - *half, high = *value + *half;
  if (lane.mean && low && high && std::isfinite(*low) && std::isfinite(*high)) lane.interval.emplace(*low, *high);
  lane.clear = gains && line.differs;
  lane.numbers = gains ? gain_cell(line).text() : with_interval(line.mean, line.half_width);
  return lane;
}

const TableLine* line_of(const TableModel& table, std::size_t plan_index) {
  for (const TableLine& line : table.lines)
    if (line.plan_index == plan_index) return &line;
  return nullptr;
}

StripPlot plot_of(const TableModel& table, bool gains) {
  StripPlot plot;
  plot.gains = gains;
  plot.axis = (gains ? "gain in " : "") + table.metric + unit_words(table, gains);
  std::size_t rows = 0, clear = 0;
  const auto add_strip = [&](PlotStrip strip, const std::string& heading, auto&& belongs) {
    strip.heading = heading;
    for (const TableLine& line : table.lines) {
      if (!belongs(line)) continue;
      strip.lanes.push_back(lane_of(line, heading, table, gains));
      ++rows;
      clear += strip.lanes.back().clear;
    }
    if (!strip.lanes.empty()) plot.strips.push_back(std::move(strip));
  };
  if (!gains) add_strip({}, "", [](const TableLine& line) { return !line.baseline; });
  for (std::size_t s = 0; gains && s < table.strips.size(); ++s) {
    const TableStrip& from = table.strips[s];
    PlotStrip strip;
    if (const TableLine* baseline = from.baseline ? line_of(table, *from.baseline) : nullptr) {
      strip.zero = "0 = " + lane_label(baseline->label, from.label);
      if (!baseline->mean.text.empty())
        strip.zero +=
            ", " + with_interval(baseline->mean, baseline->half_width) + (table.unit.empty() ? "" : " " + table.unit);
    }
    add_strip(std::move(strip), from.label,
              [&](const TableLine& line) { return line.baseline && !line.is_baseline && line.strip == s; });
  }
  plot.title = gains ? "Gains over the baseline in " + table.metric : table.metric + " of each row";
  plot.description = fmt::format("{} row{} in {} strip{}", rows, rows == 1 ? "" : "s", plot.strips.size(),
                                 plot.strips.size() == 1 ? "" : "s");
  if (gains) plot.description += fmt::format("; the interval excludes zero in {} of them", clear);
  plot.description += ". The table after the picture gives the numbers.";
  return plot;
}

std::string plot_numbers(const StripPlot& plot, const TableModel& table) {
  std::string html = "<details><summary>Numbers of this picture</summary><div class=\"scroll\" tabindex=\"0\"><table>";
  html += html_element("caption", plot.axis + ": mean with its interval, and each seed");
  html += "<thead><tr><th scope=\"col\">row</th><th scope=\"col\">mean</th><th scope=\"col\">seeds</th></tr></thead>\n";
  const int decimals = table.scale == 100 ? 2 : 4;
  for (const PlotStrip& strip : plot.strips)
    for (const PlotLane& lane : strip.lanes) {
      std::string seeds;
      for (const PlotDot& dot : lane.dots)
        seeds += fmt::format(
            "{}{}: {}", seeds.empty() ? "" : "; ", dot.name,
            plot.gains ? fmt::format("{:+.{}f}", dot.value, decimals) : fmt::format("{:.{}f}", dot.value, decimals));
      if (!lane.note.empty()) seeds += (seeds.empty() ? "" : "; ") + lane.note;
      const std::string label = strip.heading.empty() ? lane.label : strip.heading + ", " + lane.label;
      html += "<tr><th scope=\"row\">" + escaped(label) + "</th>" + html_element("td", lane.numbers) +
              html_element("td", seeds) + "</tr>\n";
    }
  return html + "</table></div></details>\n";
}

std::string plot_caption(const StripPlot& plot) {
  bool intervals = false;
  for (const PlotStrip& strip : plot.strips)
    for (const PlotLane& lane : strip.lanes) intervals = intervals || lane.interval;
  std::string text = plot.gains
                         ? "Line at zero: the baseline. Dots: each seed's difference to the same seed of the baseline."
                         : "No baseline to compare with, so values are shown. Dots: seeds.";
  text += " Diamond: their mean.";
  if (intervals)
    text += plot.gains ? " Bar: the interval of the table; a filled diamond and * where it excludes zero."
                       : " Bar: the interval of the table.";
  else
    text += " No bars: one seed has no interval.";
  return text;
}

std::string curve_caption(const CurvePlot& plot) {
  bool dashed = false, diverged = false;
  for (const CurvePanel& panel : plot.panels) {
    dashed = dashed || !panel.baseline.empty();
    diverged = diverged || !panel.diverged.empty();
  }
  std::string text = "Line: mean over the seeds at that step; band: from the lowest to the highest seed, no interval.";
  if (dashed) text += " Dashed: the baseline's mean.";
  text += " Where a seed ends, line and band break and continue with the remaining seeds.";
  if (diverged) text += " Cross: a seed diverged after this step.";
  if (plot.cut) text += " Values far outside the others' range are cut off at the frame.";
  if (plot.every > 1)
    text += fmt::format(" One point in {} is drawn; `export --curves` writes all of {}.", plot.every, plot.metric);
  return text;
}

/// Text that replaces a panel with a single dot.
std::string single_words(const CurvePlot& plot) {
  std::string names;
  bool one_step = true;
  for (const CurvePanel& panel : plot.single) {
    names += (names.empty() ? "" : ", ") + panel.label;
    one_step = one_step && panel.band.front().at == plot.single.front().band.front().at;
  }
  if (!plot.panels.empty()) return "Not drawn, with one value each: " + names + ".";
  return fmt::format("One value per row{}: no curve to draw.",
                     one_step ? fmt::format(", at step {}", plot.single.front().band.front().at) : "");
}

/// The panels' numbers as a table, with at most kMostNumbers points of each.
std::string curve_numbers(const CurvePlot& plot) {
  std::string html = fmt::format("<details><summary>Numbers{}</summary><div class=\"scroll\" tabindex=\"0\"><table>",
                                 plot.panels.empty() ? "" : " of these pictures");
  bool all = plot.every == 1;
  std::string body;
  for (const auto* panels : {&plot.panels, &plot.single})
    for (const CurvePanel& panel : *panels) {
      all = all && panel.band.size() <= kMostNumbers;
      for (const BandPoint& point : thinned(panel.band, kMostNumbers))
        body += "<tr><th scope=\"row\">" + escaped(panel.label) +
                fmt::format("</th><td>{}</td><td>{:.4g}</td><td>{:.4g}</td><td>{:.4g}</td><td>{}</td></tr>\n", point.at,
                            point.mean, point.low, point.high, point.n);
    }
  html += html_element("caption", plot.heading() + " over seeds" +
                                      (all ? ""
                                           : fmt::format("; at most {} steps a row, `export --curves` writes all of {}",
                                                         kMostNumbers, plot.metric)));
  html +=
      "<thead><tr><th scope=\"col\">row</th><th scope=\"col\">step</th><th scope=\"col\">mean</th><th "
      "scope=\"col\">lowest</th><th scope=\"col\">highest</th><th scope=\"col\">seeds</th></tr></thead>\n";
  return html + body + "</table></div></details>\n";
}

/// The panels below their caption, which follow the filter of the table; `id` starts their ids.
std::string panels_figure(const CurvePlot& plot, const std::string& caption, const std::string& id) {
  std::string html = "<figure>\n" + html_element("figcaption", caption) + "\n<div class=\"panels\">\n";
  for (std::size_t i = 0; i < plot.panels.size(); ++i) {
    html += fmt::format("<div class=\"panel\" data-row=\"{}\">{}</div>\n", plot.panels[i].row,
                        curve_panel(plot, i, fmt::format("{}-{}", id, i)));
  }
  return html + "</div>\n</figure>\n";
}

}  // namespace

std::vector<StripPlot> strip_plots(const TableModel& table) {
  std::vector<StripPlot> plots;
  for (const bool gains : {true, false})
    if (StripPlot plot = plot_of(table, gains); !plot.strips.empty()) plots.push_back(std::move(plot));
  return plots;
}

std::vector<std::string> default_curves(const std::string& metric) {
  if (metric == "train/loss") return {metric};
  return {metric, "train/loss"};
}

std::vector<CurvePlot> curve_plots(const ReportInput& input) {
  std::vector<std::size_t> shown;
  for (const TableLine& line : input.table.lines)
    if (line.mean_of.empty()) shown.push_back(line.plan_index);
  std::vector<std::optional<std::size_t>> baselines;
  for (const Cell& row : input.experiment.rows) baselines.push_back(row.baseline);
  std::vector<CurvePlot> plots;
  for (const MetricCurves& curves : input.curves.metrics) {
    const bool share = is_share(curves.metric);
    CurvePlot plot = curve_plot(curves, shown, baselines, share ? "%" : "", share ? 100 : 1);
    const bool any =
        std::any_of(plot.panels.begin(), plot.panels.end(), [](const CurvePanel& p) { return !p.band.empty(); });
    if (!any) continue;
    const auto is_curve = [](const CurvePanel& p) { return p.band.size() > 1 || p.baseline.size() > 1; };
    const auto lone = std::stable_partition(plot.panels.begin(), plot.panels.end(),
                                            [&](const CurvePanel& p) { return p.band.empty() || is_curve(p); });
    plot.single.assign(std::make_move_iterator(lone), std::make_move_iterator(plot.panels.end()));
    plot.panels.erase(lone, plot.panels.end());
    if (std::none_of(plot.panels.begin(), plot.panels.end(), is_curve)) plot.panels.clear();
    plots.push_back(std::move(plot));
  }
  return plots;
}

std::string gains_section(const ReportInput& input) {
  std::string html;
  for (const StripPlot& plot : strip_plots(input.table)) {
    const std::string name = plot.gains ? "gains" : "values";
    html += "<section id=\"" + name + "\">\n" + html_element("h2", plot.title) + "\n<figure>\n";
    html += "<div class=\"wide\">" + strip_plot(plot, name + "-wide", StripWidth::wide, false) + "</div>\n";
    html += "<div class=\"narrow\">" + strip_plot(plot, name + "-narrow", StripWidth::narrow, false) + "</div>\n";
    html += html_element("figcaption", plot_caption(plot)) + "\n</figure>\n" + plot_numbers(plot, input.table) +
            "</section>\n";
  }
  return html;
}

std::string curves_section(const ReportInput& input) {
  std::string html = "<section id=\"curves\">\n<h2>Learning curves</h2>\n";
  const std::vector<CurvePlot> plots = curve_plots(input);
  if (const std::string without = input.curves.without_words(); !without.empty())
    html += html_element("p", without + ".");
  else if (plots.empty())
    html += html_element("p", input.curves.known.empty() ? "No trial has written metrics yet."
                                                         : "No shown row has values of the metrics to draw.");
  for (std::size_t p = 0; p < plots.size(); ++p) {
    const CurvePlot& plot = plots[p];
    html += html_element("h3", plot.heading() + " by step") + "\n";
    if (!plot.single.empty()) html += html_element("p", single_words(plot)) + "\n";
    if (!plot.panels.empty()) html += panels_figure(plot, curve_caption(plot), fmt::format("curve-{}", p));
    html += curve_numbers(plot);
  }
  return html + "</section>\n";
}

std::vector<PictureFile> report_pictures(const ReportInput& input) {
  std::vector<PictureFile> files;
  for (const StripPlot& plot : strip_plots(input.table)) {
    const std::string name = plot.gains ? "gains" : "values";
    files.push_back({name + ".svg", strip_plot(plot, name, StripWidth::wide, true)});
  }
  std::set<std::string> taken;
  for (const CurvePlot& plot : curve_plots(input)) {
    if (plot.panels.empty()) continue;
    const std::string wanted = "curves-" + plain_name(plot.metric);
    std::string name = wanted;
    for (int number = 2; !taken.insert(name).second; ++number) name = fmt::format("{}-{}", wanted, number);
    files.push_back({name + ".svg", curve_sheet(plot, name, plot.heading() + " by step")});
  }
  return files;
}

}  // namespace normlab
