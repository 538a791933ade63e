#include "experiments/lab/pictures/chart.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include "experiments/lab/pictures/page.h"
#include "experiments/lab/tables/markup.h"

namespace normlab {
namespace {

struct ChartNumber {
  std::string panel, row, at;
  BandPoint point;
};

/// At most `most` numbers of each series.
std::vector<ChartNumber> numbers_of(const Chart& chart, std::size_t most) {
  std::vector<ChartNumber> numbers;
  for (const ChartPanel& panel : chart.panels) {
    const std::string name = panel_name(chart, panel);
    for (const ChartSeries& s : panel.series) {
      if (s.look == ChartLook::base || s.again) continue;
      for (const BandPoint& point : thinned(s.points, most)) {
        const auto at = std::size_t(std::max(0.0, point.at));
        const bool category = at < chart.categories.size();
        numbers.push_back({name, s.label, category ? chart.categories[at] : fmt::format("{}", point.at), point});
      }
    }
    for (const ChartPixels& p : panel.pixels)
      for (std::size_t i = 0; i < std::min(most, p.values.size()); ++i)
        numbers.push_back({name,
                           p.label,
                           fmt::format("y{} x{}", i / std::size_t(p.width), i % std::size_t(p.width)),
                           {double(i), p.values[i], p.values[i], p.values[i], 1}});
    for (const ChartLane& lane : panel.lanes)
      if (lane.point)
        numbers.push_back({name, lane.row, chart.kind == ChartKind::gains ? "gain" : "mean", *lane.point});
  }
  if (chart.has_lanes())  // in the order of the table
    std::stable_sort(numbers.begin(), numbers.end(),
                     [](const ChartNumber& a, const ChartNumber& b) { return a.point.at < b.point.at; });
  return numbers;
}

std::string across_heading(const Chart& chart) { return chart.has_lanes() ? "quantity" : chart.across_name; }

/// Headings and rows of the table of numbers.
std::vector<std::vector<std::string>> table_of(const Chart& chart, std::size_t most) {
  std::vector<std::vector<std::string>> rows{
      {"panel", "row", across_heading(chart), "value", "lowest", "highest", "seeds"}};
  for (const auto& [panel, row, at, point] : numbers_of(chart, most))
    rows.push_back({panel, row, at, fmt::format("{:.4g}", point.mean), fmt::format("{:.4g}", point.low),
                    fmt::format("{:.4g}", point.high), std::to_string(point.n)});
  if (chart.kind == ChartKind::small)  // a panel has no other name than its row
    for (std::vector<std::string>& row : rows) row.erase(row.begin());
  return rows;
}

/// The table of lanes, with every seed.
std::vector<std::vector<std::string>> table_of_lanes(const Chart& chart) {
  std::vector<std::vector<std::string>> rows{{"row", "mean", "seeds"}};
  for (const ChartPanel& panel : chart.panels)
    for (const ChartLane& lane : panel.lanes) {
      std::string seeds;
      for (const ChartDot& dot : lane.dots) seeds += (seeds.empty() ? "" : "; ") + dot_words(chart, dot);
      if (!lane.note.empty()) seeds += (seeds.empty() ? "" : "; ") + lane.note;
      rows.push_back({panel.heading.empty() ? lane.label : panel.heading + ", " + lane.label, lane.numbers, seeds});
    }
  return rows;
}

}  // namespace

std::string panel_name(const Chart& chart, const ChartPanel& panel) {
  return chart.has_lanes() ? chart.quantity : panel.heading.empty() ? panel.values_name : panel.heading;
}

std::string caption_of(const Chart& chart) {
  return chart.caption + (chart.cut ? " Arrows: beyond the axis, at the number beside them." : "") +
         (chart.left_out.empty() ? "" : " " + chart.left_out + ".");
}

std::vector<BandPoint> thinned(const std::vector<BandPoint>& points, std::size_t most) {
  if (points.size() <= most) return points;
  const std::size_t every = (points.size() + most - 1) / most;
  std::vector<BandPoint> result;
  for (std::size_t i = (points.size() - 1) % every; i < points.size(); i += every) result.push_back(points[i]);
  return result;
}

std::string chart_csv(const Chart& chart) {
  std::string csv = fmt::format("panel,row,{},value,lowest,highest,n\n", csv_cell(across_heading(chart)));
  for (const auto& [panel, row, at, point] : numbers_of(chart, SIZE_MAX))
    csv += fmt::format("{},{},{},{},{},{},{}\n", csv_cell(panel), csv_cell(row), csv_cell(at), point.mean, point.low,
                       point.high, point.n);
  return csv;
}

std::string chart_markdown(const Chart& chart, std::size_t most) {
  return fmt::format("# {}\n\n{}\n\n", chart.title, caption_of(chart)) + markdown_table(table_of(chart, most), 3);
}

std::string chart_pictures(const Chart& chart) {
  if (chart.has_lanes())
    return "<div class=\"wide\">" + chart_picture(chart, chart.panels, chart.name + "-wide", ChartForm::page) +
           "</div>\n<div class=\"narrow\">" +
           chart_picture(chart, chart.panels, chart.name + "-narrow", ChartForm::narrow) + "</div>\n";
  std::string html;
  const std::span<const ChartPanel> panels(chart.panels);
  for (std::size_t i = 0; i < panels.size(); ++i)
    if (panels[i].drawn)
      html += fmt::format("<div class=\"panel\"{}>{}</div>\n",
                          panels[i].row ? fmt::format(" data-row=\"{}\"", *panels[i].row) : "",
                          chart_picture(chart, panels.subspan(i, 1), concat(chart.name, "-", i), ChartForm::page));
  if (html.empty()) return "";
  return fmt::format("<div class=\"panels{}\">\n{}</div>\n", chart.kind == ChartKind::small ? "" : " large", html);
}

std::string chart_html(const Chart& chart, std::size_t most) {
  const std::string pictures = chart_pictures(chart);
  return "<figure>\n" + html_element("figcaption", caption_of(chart)) + "\n" + pictures + "</figure>\n" +
         fmt::format("<details><summary>Numbers{}</summary><div class=\"scroll\" tabindex=\"0\">{}</div></details>\n",
                     pictures.empty() ? "" : " of these pictures",
                     html_table(chart.has_lanes() ? table_of_lanes(chart) : table_of(chart, most), chart.title));
}

}  // namespace normlab
