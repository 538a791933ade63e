// Student's t: the interval of a mean, and the test whether a difference is small. Values are in any unit; means, sds
// and half widths come back in it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

namespace normlab {

/// Of one value or more.
double mean(std::span<const double> values);

/// Square root of the sum of squares over n - 1. Two values or more.
double sample_sd(std::span<const double> values);

/// P(T <= t), T with `freedom` > 0 degrees of freedom.
double student_t_cdf(double t, double freedom);

/// P(|T| >= |t|): keeps its digits where it is small.
double student_t_two_sided(double t, double freedom);

/// The t with P(T <= t) = probability, which lies inside (0, 1).
double student_t_quantile(double probability, double freedom);

/// The t with P(|T| > t) = probability, which lies inside (0, 1).
double student_t_two_sided_quantile(double probability, double freedom);

/// mean +- half_width, of n values. One value has no interval.
struct Interval {
  double mean = 0;
  std::optional<double> half_width;
  std::size_t n = 0;
  double sd = 0;  // sample sd of the n values; 0 for one
};

/// Student-t interval of the mean. None for no values.
std::optional<Interval> mean_interval(std::span<const double> values, double level = 0.95);

/// Values by seed: those of the runs of a row that ended with one.
using SeedValues = std::map<std::uint64_t, double>;

/// Two one-sided tests, Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987): is a difference within
/// +-margin? Equivalent at level alpha just where the 1 - 2 alpha interval lies inside the margins.
struct Equivalence {
  double mean = 0, low = 0, high = 0;           // the 1 - 2 alpha interval, in the unit of the values
  double p_above_lower = 1, p_below_upper = 1;  // p value of "not above -margin", of "not below +margin"
  double p = 1;                                 // the larger of the two
  bool equivalent = false;                      // -margin < low and high < margin
};

/// For an estimate with its standard error > 0 on `freedom` > 0 degrees (that of a Comparison of many_to_one.h, say; it
/// is a statement about this row by itself). margin > 0.
Equivalence equivalence(double mean, double standard_error, double freedom, double margin, double alpha = 0.05);

}  // namespace normlab
