#include "experiments/lab/pictures/axis.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace normlab {

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

}  // namespace normlab
