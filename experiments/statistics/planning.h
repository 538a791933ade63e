// How small a gain a number of seeds can show, and how many seeds a gain needs. All gains and sds are in the unit of
// the values.
#pragma once

namespace normlab {

/// Chance that |T| exceeds `critical`, T noncentral t with `freedom` > 0 degrees whose numerator has mean `shift` (true
/// gain over standard error).
double t_test_power(double shift, double freedom, double critical);

/// The shift > 0 at which that chance is `power` in (0, 1) (0 where it is more without any gain). The smallest gain
/// that such a test shows with this power is it times the standard error.
double smallest_shift(double freedom, double critical, double power = 0.8);

/// A sd that was estimated on `freedom` > 0 degrees lies, for normal values, with probability `level` between sd * low
/// and sd * high (equal tails of the chi-square distribution). Everything that is proportional to the sd has this range
/// too.
struct SdRange {
  double low = 1, high = 1;
};
SdRange sd_range(double freedom, double level = 0.95);

}  // namespace normlab
