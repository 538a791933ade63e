// Student's t: the interval of a mean, and the test for a small difference. Means, sds and half widths are in the unit
// of the values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

namespace normlab {

/// One value or more.
double mean(std::span<const double> values);

/// Square root of the sum of squares over n - 1. Two values or more.
double sample_sd(std::span<const double> values);

/// P(T <= t), where T has `freedom` > 0 degrees of freedom.
double student_t_cdf(double t, double freedom);

/// P(|T| >= |t|), accurate also if it is small.
double student_t_two_sided(double t, double freedom);

/// The t with P(T <= t) = probability, in (0, 1).
double student_t_quantile(double probability, double freedom);

/// The t with P(|T| > t) = probability, in (0, 1).
double student_t_two_sided_quantile(double probability, double freedom);

/// mean +- half_width of n values. One value has no interval.
struct Interval {
  double mean = 0;
  std::optional<double> half_width;
  std::size_t n = 0;
  double sd = 0;  // sample sd of the n values; 0 for one
};

/// Student-t interval of the mean. None if there are no values.
std::optional<Interval> mean_interval(std::span<const double> values, double level = 0.95);

/// The values of a row's runs that ended with one, by seed.
using SeedValues = std::map<std::uint64_t, double>;

/// Two one-sided tests, Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987): is a difference within
/// +-margin? Equivalent at level alpha exactly if the 1 - 2 alpha interval lies inside the margins.
struct Equivalence {
  double mean = 0, low = 0, high = 0;           // the 1 - 2 alpha interval, in the unit of the values
  double p_above_lower = 1, p_below_upper = 1;  // p values of "not above -margin" and "not below +margin"
  double p = 1;                                 // the larger of the two
  bool equivalent = false;                      // -margin < low and high < margin
};

/// For an estimate with its standard error > 0 on `freedom` > 0 degrees, such as a Comparison of many_to_one.h; the
/// statement concerns this row only. margin > 0.
Equivalence equivalence(double mean, double standard_error, double freedom, double margin, double alpha = 0.05);

}  // namespace normlab
