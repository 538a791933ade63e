// What a handful of seeds can say: Student's t, intervals of a mean and of paired differences, and how small a gain is
// still seen. Checked against SciPy's values.
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

/// The t with P(T <= t) = probability, which lies inside (0, 1).
double student_t_quantile(double probability, double freedom);

/// mean +- half_width, of n values. One value has no interval.
struct Interval {
  double mean = 0;
  std::optional<double> half_width;
  std::size_t n = 0;
  double sd = 0;  // sample sd of the n values; 0 for one
};

/// Student-t interval of the mean. None for no values.
std::optional<Interval> mean_interval(std::span<const double> values, double level = 0.95);

/// Interval of the mean of other - base over the seeds that both have. None where they share no seed.
std::optional<Interval> paired_difference(const std::map<std::uint64_t, double>& base,
                                          const std::map<std::uint64_t, double>& other, double level = 0.95);

/// Power of the two-sided paired t test for a true gain of `effect` standard deviations of the differences, n >= 2
/// pairs: P(|T| > t(1 - alpha/2, n - 1)), T noncentral with effect * sqrt(n), as an integral over the sample sd.
double paired_t_power(double effect, std::size_t pairs, double alpha = 0.05);

/// The smallest true gain that such a test finds with this power; sd is that of the differences.
double smallest_gain(double sd, std::size_t pairs, double power = 0.8, double alpha = 0.05);

}  // namespace normlab
