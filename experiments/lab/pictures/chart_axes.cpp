#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"
#include "experiments/lab/pictures/chart.h"

namespace normlab {
namespace {

constexpr std::size_t kLaneTicks = 7, kTicks = 4;  // wanted gaps
// The middle part of curves is wide, since a loss begins far above where it stays; that of lanes holds half of them.
constexpr double kCurveShare = 0.05, kCurveRoom = 2, kLaneShare = 0.25, kLaneRoom = 3;

/// An axis for the finite values. `cut` is set if some lie outside.
PlotAxis axis_of(std::vector<double> values, ChartScale scale, std::size_t wanted, bool& cut) {
  constexpr double kDecades = 10, kWide = 30;
  constexpr std::size_t kMostTicks = 8;
  std::erase_if(values, [](double v) { return !std::isfinite(v); });
  if (values.empty()) return make_axis(0, 1, wanted);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const bool wide = *low > 0 && *high > kWide * *low;
  if (scale == ChartScale::automatic) scale = wide ? ChartScale::logarithmic : ChartScale::central;
  if (scale == ChartScale::linear || *high <= 0) return make_axis(*low, *high, wanted);
  if (scale == ChartScale::central) {
    const auto [from, to] = central_range(values, kCurveShare, kCurveRoom);
    cut = cut || from > *low || to < *high;
    return make_axis(from, to, wanted);
  }
  const bool zero = *low <= 0;
  std::erase_if(values, [](double v) { return v <= 0; });
  for (double& v : values) v = std::log10(v);
  const auto [from, to] = central_range(values, kCurveShare, kCurveRoom);
  std::sort(values.begin(), values.end());
  const double end = *std::lower_bound(values.begin(), values.end(), std::max(from, to - kDecades));
  cut = cut || zero || end > values.front() || to < values.back();
  PlotAxis axis = make_log_axis(std::pow(10, end), std::pow(10, to));
  while (axis.ticks.size() > kMostTicks) {
    std::vector<double> fewer;
    for (std::size_t i = axis.ticks.size() % 2; i < axis.ticks.size(); i += 2) fewer.push_back(axis.ticks[i]);
    axis.ticks = fewer;
  }
  return axis;
}

/// "1234567.5" as "1,234,567.5".
std::string with_commas(std::string digits) {
  const auto whole = std::min(digits.find('.'), digits.size());
  for (auto at = std::ptrdiff_t(whole) - 3; at > 0; at -= 3) digits.insert(std::size_t(at), ",");
  return digits;
}

/// Whether something ends in an arrow.
bool has_arrows(const Chart& chart) {
  const PlotAxis& across = chart.across;
  for (const ChartPanel& panel : chart.panels) {
    for (const ChartLane& lane : panel.lanes) {
      if (std::any_of(lane.dots.begin(), lane.dots.end(), [&](const ChartDot& d) { return across.beyond(d.value); }))
        return true;
      if (lane.point && (across.beyond(lane.point->mean) ||
                         (lane.bar && (across.beyond(lane.point->low) || across.beyond(lane.point->high)))))
        return true;
    }
    for (const ChartSeries& s : panel.series)
      for (const BandPoint& p : s.points)
        if (s.look != ChartLook::shape && s.look != ChartLook::base && std::isfinite(p.mean) &&
            (across.beyond(p.at) != 0 ? s.look == ChartLook::dots : panel.values.beyond(p.mean) != 0))
          return true;
  }
  return false;
}

/// Whether anything lies within the axis across.
bool has_anything(const Chart& chart) {
  const PlotAxis& across = chart.across;
  for (const ChartPanel& panel : chart.panels) {
    for (const ChartLane& lane : panel.lanes)
      if ((lane.point && across.beyond(lane.point->mean) == 0) ||
          std::any_of(lane.dots.begin(), lane.dots.end(),
                      [&](const ChartDot& d) { return across.beyond(d.value) == 0; }))
        return true;
    for (const ChartSeries& s : panel.series) {
      const auto at = [&](int side) {
        return std::any_of(s.points.begin(), s.points.end(),
                           [&](const BandPoint& p) { return across.beyond(p.at) == side; });
      };
      if (at(0) || (s.look != ChartLook::dots && at(-1) && at(1))) return true;  // a line crosses the whole axis
    }
  }
  return false;
}

const char* sign_of(double value, bool with_sign) { return value < 0 ? "−" : with_sign ? "+" : ""; }

}  // namespace

std::pair<double, double> central_range(std::vector<double> values, double share, double room) {
  std::sort(values.begin(), values.end());
  const double low = values.front(), high = values.back();
  const auto end = std::size_t(share * double(values.size()));
  const double from = values[end], to = values[values.size() - 1 - end], wide = room * (to - from);
  const double least = *std::lower_bound(values.begin(), values.end(), from - wide);
  const double most = *std::prev(std::upper_bound(values.begin(), values.end(), to + wide));
  const bool halved = least < most && high / 2 - low / 2 > most - least;
  return halved ? std::pair(least, most) : std::pair(low, high);
}

void set_chart_axes(Chart& chart, ChartScale across_scale, ChartScale values_scale) {
  bool uncut = false;
  std::vector<double> across(chart.kind == ChartKind::gains ? 1 : 0);  // the line at zero
  std::map<std::string, std::vector<double>> values;
  for (const ChartPanel& panel : chart.panels) {
    for (const ChartSeries& s : panel.series)
      for (const BandPoint& point : s.points) {
        if (panel.drawn) across.push_back(point.at);
        auto& seen = values[panel.values_name];
        seen.push_back(point.mean);
        if (s.look == ChartLook::band) seen.insert(seen.end(), {point.low, point.high});
      }
    for (const ChartLane& lane : panel.lanes) {
      for (const ChartDot& dot : lane.dots) across.push_back(dot.value);
      if (lane.point) across.push_back(lane.point->mean);
      if (lane.bar) across.insert(across.end(), {lane.point->low, lane.point->high});
    }
  }
  for (ChartPanel& panel : chart.panels)
    panel.values = axis_of(values[panel.values_name], values_scale, kTicks, chart.cut);
  std::erase_if(across, [](double v) { return !std::isfinite(v); });
  if (chart.has_lanes() && !across.empty()) {
    auto [from, to] = central_range(across, kLaneShare, kLaneRoom);
    if (chart.kind == ChartKind::gains) from = std::min(from, 0.0), to = std::max(to, 0.0);
    chart.across = make_axis(from, to, kLaneTicks);
    chart.cut = has_arrows(chart);
  } else {
    chart.across = axis_of(std::move(across), across_scale, kTicks, uncut);
  }
  chart.across.with_sign = chart.kind == ChartKind::gains;
  if (chart.categories.empty()) return;
  chart.across.low = -0.5;
  chart.across.high = double(chart.categories.size()) - 0.5;
}

void cut_across(Chart& chart, double low, double high) {
  PlotAxis& axis = chart.across;
  axis.low = axis.place(low);
  axis.high = axis.place(high);
  if (axis.logarithmic) {
    axis.ticks = make_log_axis(low, high).ticks;
    std::erase_if(axis.ticks, [&](double tick) { return tick < axis.low - 1e-9 || tick > axis.high + 1e-9; });
  } else {
    axis = with_ticks(axis, chart.has_lanes() ? kLaneTicks : kTicks);
  }
  for (ChartPanel& panel : chart.panels) panel.across.reset();
  chart.cut = has_arrows(chart);
}

bool set_limits(Chart& chart, double low, double high) {
  if (!chart.categories.empty() ||
      std::any_of(chart.panels.begin(), chart.panels.end(), [](const ChartPanel& p) { return !p.pixels.empty(); }))
    return false;
  if (chart.across.logarithmic && low <= 0)
    throw InputError("--xlim: " + chart.name + " has a logarithmic axis across, whose limits are above 0");
  cut_across(chart, low, high);
  if (!has_anything(chart))
    throw InputError(
        fmt::format("--xlim: nothing of {} lies between {} and {}; give other limits, or other figures with --only",
                    chart.name, low, high));
  return true;
}

PlotAxis with_ticks(PlotAxis axis, std::size_t wanted) {
  const PlotAxis round = make_axis(axis.low, axis.high, wanted);
  const double room = 1e-6 * round.step;
  axis.step = round.step;
  axis.ticks = round.ticks;
  std::erase_if(axis.ticks, [&](double tick) { return tick < axis.low - room || tick > axis.high + room; });
  return axis;
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

int PlotAxis::beyond(double value) const {
  const double at = logarithmic && value <= 0 ? -INFINITY : place(value);
  return at < low ? -1 : at > high ? 1 : 0;
}

double PlotAxis::pixel(double place, double begin, double end) const {
  // Computed in halves: the difference of two huge numbers may overflow.
  return begin + (place / 2 - low / 2) / (high / 2 - low / 2) * (end - begin);
}

std::string PlotAxis::label(double tick) const {
  return logarithmic ? number_label(std::pow(10.0, tick)) : tick_label(tick, step, with_sign);
}

std::string tick_label(double value, double step, bool with_sign) {
  const double size = std::abs(value) < step / 2 ? 0 : std::abs(value);
  if (size == 0) return "0";
  if (size >= 1e13 || (step < 1e-4 && size < 100 * step)) return number_label(value, with_sign);
  double unit = 1;
  const char* suffix = "";
  for (const auto& [scale, name] : {std::pair{1e9, "G"}, {1e6, "M"}})
    if (size >= scale) {
      unit = scale;
      suffix = name;
      break;
    }
  // step / unit is 1, 2 or 5 times a power of ten, so these digits are exact.
  const int decimals = std::max(0, -int(std::floor(std::log10(step / unit) + 1e-9)));
  return fmt::format("{}{}{}", sign_of(value, with_sign), with_commas(fmt::format("{:.{}f}", size / unit, decimals)),
                     suffix);
}

std::string number_label(double value, bool with_sign) {
  constexpr const char* kRaised[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  const double size = std::abs(value);
  if (size == 0) return "0";
  std::string text = std::isinf(size) ? "∞"
                     : size >= 999.5  ? with_commas(fmt::format("{:.0f}", size))
                                      : fmt::format("{:.3g}", size);
  // Between these, people write all digits; a rounded tick of 0.001 counts as 0.001.
  if (std::isfinite(size) && (size < 0.9995e-3 || size >= 999'999.5)) {
    const std::string digits = fmt::format("{:.2e}", size);
    const auto e = digits.find('e');
    const int power = std::stoi(digits.substr(e + 1));
    std::string leading = fmt::format("{:.3g}", std::stod(digits.substr(0, e)));
    text = (leading == "1" ? "10" : leading + "×10") + std::string(power < 0 ? "⁻" : "");
    for (const char digit : std::to_string(std::abs(power))) text += kRaised[digit - '0'];
  }
  return sign_of(value, with_sign) + text;
}

}  // namespace normlab
