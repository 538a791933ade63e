// Axes of a picture: where the ticks stand, what they are called, and where a value lies.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace normlab {

/// A line from [low, high] of the data to [begin, end] in pixels; `begin` may be the larger.
struct LinearScale {
  double low = 0, high = 1, begin = 0, end = 1;
  /// Halves: the difference of two huge numbers may overflow.
  double operator()(double value) const { return begin + (value / 2 - low / 2) / (high / 2 - low / 2) * (end - begin); }
};

struct PlotAxis {
  double low = 0, high = 1;  // the first and the last tick
  double step = 1;           // 1, 2 or 5 times a power of ten
  std::vector<double> ticks;
};

/// An axis that holds [low, high] and has `wanted` gaps or a few more or less (never more than twice as many). One
/// value, an empty range or a non-finite bound gives an axis around what there is.
PlotAxis make_axis(double low, double high, std::size_t wanted);

/// The tick with the digits that tell it from its neighbours: "0.25", "12", "20k", "1.5M"; "+2" where `with_sign`.
std::string tick_label(double value, double step, bool with_sign = false);

}  // namespace normlab
