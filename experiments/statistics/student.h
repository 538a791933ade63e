// Student's t, the interval of a mean and that of paired differences. Values are in any unit; means, sds and half
// widths come back in it.
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

}  // namespace normlab
