// How small a gain a number of seeds can detect, and how many seeds a gain needs. Gains and sds are in the unit
// of the values.
#pragma once

namespace normlab {

/// Probability that |T| exceeds `critical`, where T is noncentral t with `freedom` > 0 degrees and noncentrality
/// `shift` (true gain over standard error).
double t_test_power(double shift, double freedom, double critical);

/// The shift > 0 at which that probability is `power` in (0, 1); 0 if it is larger even without a gain. The smallest
/// gain that such a test detects with this power is the shift times the standard error.
double smallest_shift(double freedom, double critical, double power = 0.8);

/// A sd estimated with `freedom` > 0 degrees lies, for normal values, with probability `level` between sd * low and
/// sd * high (equal tails of the chi-square distribution). Everything proportional to the sd has the same range.
struct SdRange {
  double low = 1, high = 1;
};
SdRange sd_range(double freedom, double level = 0.95);

}  // namespace normlab
