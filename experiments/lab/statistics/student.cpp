#include "experiments/lab/statistics/student.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "core/error.h"
#include "experiments/lab/statistics/special.h"

namespace normlab {
namespace {

double density(double t, double freedom) {
  return std::exp(log_gamma((freedom + 1) / 2) - log_gamma(freedom / 2) -
                  (freedom + 1) / 2 * std::log1p(t * t / freedom)) /
         std::sqrt(freedom * std::numbers::pi);
}

}  // namespace

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / double(values.size());
}

double sample_sd(std::span<const double> values) {
  // The mean of equal values may round to another number.
  if (std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end()) return 0;
  const double center = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - center) * (value - center);
  return std::sqrt(sum / double(values.size() - 1));
}

double student_t_two_sided(double t, double freedom) {
  const double t2 = t * t;
  if (!std::isfinite(t2)) return 0;
  return regularised_beta(freedom / 2, 0.5, freedom / (freedom + t2), t2 / (freedom + t2));
}

double student_t_cdf(double t, double freedom) {
  const double tail = 0.5 * student_t_two_sided(t, freedom);
  return t < 0 ? tail : 1 - tail;
}

double student_t_two_sided_quantile(double probability, double freedom) {
  double low = 0, high = 1;
  while (student_t_two_sided(high, freedom) > probability) low = high, high *= 2;
  double t = 0.5 * (low + high);
  for (int i = 0; i < 200; ++i) {
    const double excess = student_t_two_sided(t, freedom) - probability;
    (excess > 0 ? low : high) = t;
    double next = t + 0.5 * excess / density(t, freedom);
    if (!(next > low && next < high)) next = 0.5 * (low + high);  // the Newton step left the bracket
    const bool settled = std::abs(next - t) <= 1e-15 * t;
    t = next;
    if (settled) break;
  }
  return t;
}

double student_t_quantile(double probability, double freedom) {
  if (probability == 0.5) return 0;
  return probability < 0.5 ? -student_t_two_sided_quantile(2 * probability, freedom)
                           : student_t_two_sided_quantile(2 * (1 - probability), freedom);
}

std::optional<Interval> mean_interval(std::span<const double> values, double level) {
  if (values.empty()) return std::nullopt;
  Interval interval{.mean = mean(values), .half_width = std::nullopt, .n = values.size(), .sd = 0};
  if (values.size() == 1) return interval;
  interval.sd = sample_sd(values);
  const double n = double(values.size());
  interval.half_width = student_t_quantile(0.5 + level / 2, n - 1) * interval.sd / std::sqrt(n);
  return interval;
}

Equivalence equivalence(double mean, double standard_error, double freedom, double margin, double alpha) {
  if (!(margin > 0)) throw InputError(concat("margin of equivalence: ", margin, "; expected more than 0"));
  const double reach = student_t_two_sided_quantile(2 * alpha, freedom) * standard_error;
  Equivalence result{.mean = mean, .low = mean - reach, .high = mean + reach};
  result.p_above_lower = student_t_cdf(-(mean + margin) / standard_error, freedom);
  result.p_below_upper = student_t_cdf(-(margin - mean) / standard_error, freedom);
  result.p = std::max(result.p_above_lower, result.p_below_upper);
  result.equivalent = -margin < result.low && result.high < margin;
  return result;
}

}  // namespace normlab
