#include "experiments/lab/pictures/chart.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <map>
#include "experiments/lab/pictures/page.h"
#include "experiments/lab/tables/markup.h"

namespace normlab {
namespace {

/// An axis for the finite values. `cut` is set if some lie outside.
PlotAxis axis_of(std::vector<double> values, ChartScale scale, std::size_t wanted, bool& cut) {
  constexpr double kDecades = 1e6, kWide = 30;
  constexpr std::size_t kMostTicks = 8;
  std::erase_if(values, [](double v) { return !std::isfinite(v); });
  if (values.empty()) return make_axis(0, 1, wanted);
  std::sort(values.begin(), values.end());
  const double low = values.front(), high = values.back();
  if (scale == ChartScale::central) {
    const auto at = [&](double share) { return values[std::size_t(share * double(values.size() - 1))]; };
    const double room = 2 * (at(0.95) - at(0.05));
    const double from = std::max(low, at(0.05) - room), to = std::min(high, at(0.95) + room);
    if (!(from < to)) return make_axis(low, high, wanted);
    cut = cut || from > low || to < high;
    return make_axis(from, to, wanted);
  }
  const auto least = std::upper_bound(values.begin(), values.end(), 0.0);
  const bool wide = low > 0 && high > kWide * low;
  if (scale == ChartScale::linear || (scale == ChartScale::automatic && !wide) || least == values.end())
    return make_axis(low, high, wanted);
  PlotAxis axis = make_log_axis(std::max(*least, high / kDecades), high);
  while (axis.ticks.size() > kMostTicks) {
    std::vector<double> fewer;
    for (std::size_t i = axis.ticks.size() % 2; i < axis.ticks.size(); i += 2) fewer.push_back(axis.ticks[i]);
    axis.ticks = fewer;
  }
  return axis;
}

struct ChartNumber {
  std::string panel, row, at;
  BandPoint point;
};

/// At most `most` numbers of each series.
std::vector<ChartNumber> numbers_of(const Chart& chart, std::size_t most) {
  std::vector<ChartNumber> numbers;
  for (const ChartPanel& panel : chart.panels) {
    for (const ChartSeries& s : panel.series) {
      if (s.look == ChartLook::base) continue;
      for (const BandPoint& point : thinned(s.points, most)) {
        const auto at = std::size_t(std::max(0.0, point.at));
        const bool category = at < chart.categories.size();
        numbers.push_back(
            {panel.heading, s.label, category ? chart.categories[at] : fmt::format("{}", point.at), point});
      }
    }
    for (const ChartPixels& p : panel.pixels)
      for (std::size_t i = 0; i < std::min(most, p.values.size()); ++i)
        numbers.push_back({panel.heading,
                           p.label,
                           fmt::format("y{} x{}", i / std::size_t(p.width), i % std::size_t(p.width)),
                           {double(i), p.values[i], p.values[i], p.values[i], 1}});
    for (const ChartLane& lane : panel.lanes)
      if (lane.point)
        numbers.push_back({chart.quantity, lane.row, chart.kind == ChartKind::gains ? "gain" : "mean", *lane.point});
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

std::vector<BandPoint> thinned(const std::vector<BandPoint>& points, std::size_t most) {
  if (points.size() <= most) return points;
  const std::size_t every = (points.size() + most - 1) / most;
  std::vector<BandPoint> result;
  for (std::size_t i = (points.size() - 1) % every; i < points.size(); i += every) result.push_back(points[i]);
  return result;
}

void set_chart_axes(Chart& chart, ChartScale across_scale, ChartScale values_scale) {
  const std::size_t wanted = chart.has_lanes() ? 7 : 4;
  bool uncut = false;
  std::vector<double> across(chart.kind == ChartKind::gains ? 1 : 0);  // the line at zero
  std::map<std::string, std::vector<double>> values;
  for (const ChartPanel& panel : chart.panels) {
    for (const ChartSeries& s : panel.series)
      for (const BandPoint& point : s.points) {
        if (panel.drawn) across.push_back(point.at);
        auto& seen = values[s.right ? panel.right_name : panel.values_name];
        seen.push_back(point.mean);
        if (s.look == ChartLook::band) seen.insert(seen.end(), {point.low, point.high});
      }
    for (const ChartLane& lane : panel.lanes) {
      for (const ChartDot& dot : lane.dots) across.push_back(dot.value);
      if (lane.point) across.push_back(lane.point->mean);
      if (lane.bar) across.insert(across.end(), {lane.point->low, lane.point->high});
    }
  }
  for (ChartPanel& panel : chart.panels) {
    panel.values = axis_of(values[panel.values_name], values_scale, wanted, chart.cut);
    panel.right = axis_of(values[panel.right_name], ChartScale::linear, wanted, uncut);
  }
  chart.across = axis_of(std::move(across), across_scale, wanted, uncut);
  chart.across.with_sign = chart.kind == ChartKind::gains;
  if (chart.categories.empty()) return;
  chart.across.low = -0.5;
  chart.across.high = double(chart.categories.size()) - 0.5;
}

PlotAxis make_axis(double low, double high, std::size_t wanted) {
  if (!std::isfinite(low) || !std::isfinite(high)) {
    low = std::isfinite(low) ? low : std::isfinite(high) ? high : 0;
    high = low;
  }
  // Keeps the ends of the axis finite.
  low = std::clamp(low, -1e300, 1e300);
  high = std::clamp(high, -1e300, 1e300);
  if (low > high) std::swap(low, high);
  // The range is too narrow to split in double precision: every tick would be the same number.
  const double least = 1e-9 * std::max(std::abs(low), std::abs(high));
  if (high - low <= least) {
    const double around = low == 0 ? 1 : std::abs(low) / 10;
    low -= around;
    high += around;
  }
  // Computed in halves: the difference of two huge numbers may overflow.
  const double gap = 2 * ((high / 2 - low / 2) / double(std::max<std::size_t>(wanted, 1)));
  const double power = std::pow(10.0, std::floor(std::log10(gap)));
  const double leading = gap / power;
  PlotAxis axis;
  axis.step = power * (leading < 1.5 ? 1 : leading < 3.5 ? 2 : leading < 7.5 ? 5 : 10);
  const double first = std::floor(low / axis.step + 1e-9), last = std::ceil(high / axis.step - 1e-9);
  for (double k = first; k <= last; ++k) axis.ticks.push_back(k * axis.step);
  axis.low = axis.ticks.front();
  axis.high = axis.ticks.back();
  return axis;
}

PlotAxis make_log_axis(double low, double high) {
  constexpr std::size_t kFewest = 3;  // ticks
  PlotAxis axis;
  axis.logarithmic = true;
  const double from = std::log10(low), to = std::log10(high), room = std::max(0.05 * (to - from), 0.02);
  axis.low = from - room;
  axis.high = to + room;
  for (const std::vector<double>& leading : {std::vector<double>{1}, {1, 3}, {1, 2, 5}}) {
    axis.ticks.clear();
    for (double power = std::floor(axis.low); power <= axis.high; ++power)
      for (const double digit : leading)
        if (const double tick = power + std::log10(digit); tick >= axis.low && tick <= axis.high)
          axis.ticks.push_back(tick);
    if (axis.ticks.size() >= kFewest) break;
  }
  return axis;
}

double PlotAxis::place(double value) const { return logarithmic ? std::log10(value) : value; }

double PlotAxis::pixel(double place, double begin, double end) const {
  // Computed in halves: the difference of two huge numbers may overflow.
  return begin + (place / 2 - low / 2) / (high / 2 - low / 2) * (end - begin);
}

std::string PlotAxis::label(double tick) const {
  return logarithmic ? fmt::format("{:.3g}", std::pow(10.0, tick)) : tick_label(tick, step, with_sign);
}

std::string tick_label(double value, double step, bool with_sign) {
  const double size = std::abs(value) < step / 2 ? 0 : std::abs(value);
  double unit = 1;
  std::string suffix;
  for (const auto& [scale, name] : {std::pair{1e9, "G"}, {1e6, "M"}, {1e3, "k"}})
    if (size >= 10 * scale || (size >= scale && step >= scale)) {
      unit = scale;
      suffix = name;
      break;
    }
  std::string digits;
  if (size >= 1e13 || (size > 0 && step < 1e-6)) {
    digits = fmt::format("{:.3g}", size);
    suffix.clear();
  } else {
    // step / unit is 1, 2 or 5 times a power of ten, so these digits are exact.
    const int decimals = std::max(0, -int(std::floor(std::log10(step / unit) + 1e-9)));
    digits = size == 0 ? "0" : fmt::format("{:.{}f}", size / unit, decimals);
  }
  const char* sign = size == 0 ? "" : value < 0 ? "\u2212" : with_sign ? "+" : "";
  return sign + digits + suffix;
}

std::string chart_csv(const Chart& chart) {
  std::string csv = fmt::format("panel,row,{},value,lowest,highest,n\n", csv_cell(across_heading(chart)));
  for (const auto& [panel, row, at, point] : numbers_of(chart, SIZE_MAX))
    csv += fmt::format("{},{},{},{},{},{},{}\n", csv_cell(panel), csv_cell(row), csv_cell(at), point.mean, point.low,
                       point.high, point.n);
  return csv;
}

std::string chart_markdown(const Chart& chart, std::size_t most) {
  return fmt::format("# {}\n\n{}\n\n", chart.title, chart.caption) + markdown_table(table_of(chart, most), 3);
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
  return "<figure>\n" + html_element("figcaption", chart.caption) + "\n" + pictures + "</figure>\n" +
         fmt::format("<details><summary>Numbers{}</summary><div class=\"scroll\" tabindex=\"0\">{}</div></details>\n",
                     pictures.empty() ? "" : " of these pictures",
                     html_table(chart.has_lanes() ? table_of_lanes(chart) : table_of(chart, most), chart.title));
}

}  // namespace normlab
