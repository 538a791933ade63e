// Finds a zero of a function.
#pragma once

#include <cmath>

namespace normlab {

/// A zero of the continuous `f` between `low` and `high`, where its signs differ (or one is 0): regula falsi with the
/// Illinois rule, with a bisection whenever that does not shrink the bracket enough. `tolerance` is relative.
template <class Function>
double solve(Function&& f, double low, double high, double tolerance = 1e-14) {
  double f_low = f(low), f_high = f(high);
  if (f_low == 0) return low;
  if (f_high == 0) return high;
  double last_width = high - low;
  int side = 0;
  for (int i = 0; i < 200; ++i) {
    const double width = high - low;
    if (width <= tolerance * std::fmax(std::fabs(low), std::fabs(high))) break;
    double middle = (low * f_high - high * f_low) / (f_high - f_low);
    const bool slow = i % 3 == 2 && width > 0.5 * last_width;
    if (i % 3 == 2) last_width = width;
    if (slow || !(middle > low && middle < high)) middle = 0.5 * (low + high);
    if (!(middle > low && middle < high)) break;  // adjacent doubles
    const double value = f(middle);
    if (value == 0) return middle;
    if ((value < 0) == (f_low < 0)) {
      low = middle, f_low = value;
      if (side == -1) f_high *= 0.5;
      side = -1;
    } else {
      high = middle, f_high = value;
      if (side == 1) f_low *= 0.5;
      side = 1;
    }
  }
  return 0.5 * (low + high);
}

}  // namespace normlab
