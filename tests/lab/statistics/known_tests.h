// Tests and plans of textbooks and other programs, composed of the program's functions. They are compared with
// published numbers and with SciPy's.
#pragma once

#include <algorithm>
#include <cmath>

#include "experiments/lab/statistics/student.h"

namespace normlab {

/// Interval of the mean of other - base over the seeds that both have.
inline std::optional<Interval> paired_difference(const SeedValues& base, const SeedValues& other) {
  std::vector<double> differences;
  for (const auto& [seed, value] : other)
    if (const auto match = base.find(seed); match != base.end()) differences.push_back(value - match->second);
  return mean_interval(differences);
}

/// The paired two-sided t test; `effect` is the true gain in sds of the differences.
inline double paired_t_power(double effect, std::size_t pairs, double alpha = 0.05) {
  const double freedom = double(pairs) - 1;
  return t_test_power(effect * std::sqrt(double(pairs)), freedom, student_t_two_sided_quantile(alpha, freedom));
}
/// The smallest true gain that this test finds with this power.
inline double smallest_gain(double sd, std::size_t pairs, double power = 0.8, double alpha = 0.05) {
  const double freedom = double(pairs) - 1;
  return sd / std::sqrt(double(pairs)) * smallest_shift(freedom, student_t_two_sided_quantile(alpha, freedom), power);
}

/// equivalence_p() of paired differences; none if their noise cannot be estimated.
inline std::optional<double> paired_equivalence(std::span<const double> differences, double margin) {
  if (differences.size() < 2) return std::nullopt;
  const double sd = sample_sd(differences), n = double(differences.size());
  if (!(sd > 0)) return std::nullopt;
  return equivalence_p(mean(differences), sd / std::sqrt(n), n - 1, margin);
}

/// Stein's number of values for one sample.
struct SteinPlan {
  double first_sd = 0, quantile = 0;
  std::size_t n = 0;
};
inline SteinPlan stein_plan(std::span<const double> first, double half_width) {
  SteinPlan plan{sample_sd(first), student_t_two_sided_quantile(0.05, double(first.size() - 1))};
  plan.n = std::max(first.size(), std::size_t(std::ceil(std::pow(plan.quantile * plan.first_sd / half_width, 2))));
  return plan;
}

}  // namespace normlab
