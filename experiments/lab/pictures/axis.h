// The axes of a picture: their ticks, tick labels and scale.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace normlab {

struct PlotAxis {
  double low = 0, high = 1;  // the first and the last tick
  double step = 1;           // 1, 2 or 5 times a power of ten
  std::vector<double> ticks;
  bool logarithmic = false;  // low, high and ticks are decimal logarithms, and `step` has no meaning
  bool with_sign = false;    // labels of gains: "+2"
  /// Where a value lies between low and high.
  double place(double value) const;
  /// Maps [low, high] linearly to [begin, end] in pixels; `begin` may be the larger.
  double pixel(double place, double begin, double end) const;
  /// The label of one of the ticks.
  std::string label(double tick) const;
};

/// An axis that covers [low, high] in about `wanted` gaps, never more than twice as many. A single value, an empty
/// range or a non-finite bound gives an axis around what is there.
PlotAxis make_axis(double low, double high, std::size_t wanted);

/// A logarithmic axis from `low` to `high`, both above 0, with a little room around them. Its ticks are powers of ten,
/// in a narrow range also 1, 3 or 1, 2, 5 times these.
PlotAxis make_log_axis(double low, double high);

/// The tick's label, with as many digits as distinguish it from its neighbours: "0.25", "12", "20k",
/// "1.5M"; "+2" with `with_sign`.
std::string tick_label(double value, double step, bool with_sign = false);

}  // namespace normlab
