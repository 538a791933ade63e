#include "experiments/lab/pictures/chart.h"

#include <algorithm>
#include <cmath>
#include <map>

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

}  // namespace normlab
