#include <fmt/core.h>

#include <functional>

#include "experiments/lab/pictures/chart.h"
#include "experiments/lab/pictures/curve_plot.h"
#include "experiments/lab/pictures/svg.h"
#include "experiments/lab/tables/markup.h"

namespace normlab {
namespace {

/// Calls see(panel, row, at, point) for every number of the chart, at most `most` of each series.
void each_number(
    const Chart& chart, std::size_t most,
    const std::function<void(const ChartPanel&, const std::string&, const std::string&, const BandPoint&)>& see) {
  for (const ChartPanel& panel : chart.panels) {
    for (const ChartSeries& s : panel.series)
      for (const BandPoint& point : thinned(s.points, most)) {
        const auto at = std::size_t(std::max(0.0, point.at));
        const bool category = !chart.categories.empty() && at < chart.categories.size();
        see(panel, s.label, category ? chart.categories[at] : fmt::format("{}", point.at), point);
      }
    for (const ChartPixels& p : panel.pixels)
      for (std::size_t i = 0; i < std::min(most, p.values.size()); ++i)
        see(panel, p.label, fmt::format("y{} x{}", i / std::size_t(p.width), i % std::size_t(p.width)),
            {double(i), p.values[i], p.values[i], p.values[i], 1});
  }
}

}  // namespace

std::string chart_csv(const Chart& chart) {
  std::string csv = fmt::format("panel,row,{},value,lowest,highest,n\n", csv_cell(chart.across_name));
  each_number(chart, SIZE_MAX,
              [&](const ChartPanel& panel, const std::string& row, const std::string& at, const BandPoint& point) {
                csv += fmt::format("{},{},{},{},{},{},{}\n", csv_cell(panel.heading), csv_cell(row), csv_cell(at),
                                   point.mean, point.low, point.high, point.n);
              });
  return csv;
}

std::string chart_markdown(const Chart& chart, std::size_t most) {
  std::string text = fmt::format("# {}\n\n{}\n\n| panel | row | {} | value | lowest | highest | n |\n", chart.title,
                                 chart.caption, markdown_cell(chart.across_name));
  text += "|---|---|---|---:|---:|---:|---:|\n";
  each_number(chart, most,
              [&](const ChartPanel& panel, const std::string& row, const std::string& at, const BandPoint& point) {
                text += fmt::format("| {} | {} | {} | {:.4g} | {:.4g} | {:.4g} | {} |\n", markdown_cell(panel.heading),
                                    markdown_cell(row), markdown_cell(at), point.mean, point.low, point.high, point.n);
              });
  return text;
}

std::string chart_html(const Chart& chart, std::size_t most) {
  std::string html = fmt::format("<h3>{}</h3>\n<figure>\n<figcaption>{}</figcaption>\n<div class=\"panels large\">\n",
                                 escaped(chart.title), escaped(chart.caption));
  for (std::size_t i = 0; i < chart.panels.size(); ++i)
    if (chart.panels[i].drawn)
      html +=
          fmt::format("<div class=\"panel\">{}</div>\n", chart_panel(chart, i, fmt::format("{}-{}", chart.name, i)));
  html +=
      "</div>\n</figure>\n<details><summary>Numbers of these pictures</summary><div class=\"scroll\" "
      "tabindex=\"0\"><table>";
  html += fmt::format("<caption>{}</caption><thead><tr>", escaped(chart.title));
  for (const std::string& head : {std::string("panel"), std::string("row"), chart.across_name, std::string("value"),
                                  std::string("lowest"), std::string("highest"), std::string("seeds")})
    html += fmt::format("<th scope=\"col\">{}</th>", escaped(head));
  html += "</tr></thead>\n";
  each_number(chart, most,
              [&](const ChartPanel& panel, const std::string& row, const std::string& at, const BandPoint& point) {
                html += fmt::format(
                    "<tr><td>{}</td><th scope=\"row\">{}</th><td>{}</td><td>{:.4g}</td><td>{:.4g}</td><td>{:.4g}</td>"
                    "<td>{}</td></tr>\n",
                    escaped(panel.heading), escaped(row), escaped(at), point.mean, point.low, point.high, point.n);
              });
  return html + "</table></div></details>\n";
}

}  // namespace normlab
