#include "experiments/results/statistics.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace normlab {
namespace {

/// Continued fraction of the incomplete beta function by Lentz's method, Abramowitz and Stegun 26.5.8.
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto guarded = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / guarded(1 - (a + b) * x / (a + 1)), value = d;
  for (int m = 1; m < 10'000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / guarded(1 + even * d);
    c = guarded(1 + even / c);
    value *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / guarded(1 + odd * d);
    c = guarded(1 + odd / c);
    value *= d * c;
    if (std::abs(d * c - 1) < 1e-16) break;
  }
  return value;
}

/// I_x(a, b), with y = 1 - x given apart: near x = 1 the difference would lose its digits.
double regularised_beta(double a, double b, double x, double y) {
  if (x <= 0) return 0;
  if (y <= 0) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log(y));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, y) / b;
}

/// P(T > t) for t >= 0.
double upper_tail(double t, double freedom) {
  const double t2 = t * t;
  return 0.5 * regularised_beta(freedom / 2, 0.5, freedom / (freedom + t2), t2 / (freedom + t2));
}

double density(double t, double freedom) {
  return std::exp(std::lgamma((freedom + 1) / 2) - std::lgamma(freedom / 2) -
                  (freedom + 1) / 2 * std::log1p(t * t / freedom)) /
         std::sqrt(freedom * std::numbers::pi);
}

double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

}  // namespace

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / double(values.size());
}

double sample_sd(std::span<const double> values) {
  const double center = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - center) * (value - center);
  return std::sqrt(sum / double(values.size() - 1));
}

double student_t_cdf(double t, double freedom) { return t < 0 ? upper_tail(-t, freedom) : 1 - upper_tail(t, freedom); }

double student_t_quantile(double probability, double freedom) {
  if (probability == 0.5) return 0;
  if (probability < 0.5) return -student_t_quantile(1 - probability, freedom);
  const double tail = 1 - probability;
  double low = 0, high = 1;
  while (upper_tail(high, freedom) > tail) low = high, high *= 2;
  double t = 0.5 * (low + high);
  for (int i = 0; i < 200; ++i) {
    const double excess = upper_tail(t, freedom) - tail;
    (excess > 0 ? low : high) = t;
    double next = t + excess / density(t, freedom);
    if (!(next > low && next < high)) next = 0.5 * (low + high);  // Newton left the bracket
    const bool settled = std::abs(next - t) <= 1e-15 * t;
    t = next;
    if (settled) break;
  }
  return t;
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

std::optional<Interval> paired_difference(const std::map<std::uint64_t, double>& base,
                                          const std::map<std::uint64_t, double>& other, double level) {
  std::vector<double> differences;
  for (const auto& [seed, value] : other)
    if (const auto match = base.find(seed); match != base.end()) differences.push_back(value - match->second);
  return mean_interval(differences, level);
}

double paired_t_power(double effect, std::size_t pairs, double alpha) {
  const double freedom = double(pairs) - 1, shift = effect * std::sqrt(double(pairs));
  const double critical = student_t_quantile(1 - alpha / 2, freedom);
  // The sample sd in units of the true one has density 2 (f/2)^(f/2) / Gamma(f/2) s^(f-1) exp(-f s^2 / 2). Simpson's
  // rule.
  constexpr int kIntervals = 2000;
  const double reach = 9 / std::sqrt(freedom), low = std::max(0.0, 1 - reach), high = 1 + reach;
  const double width = (high - low) / kIntervals;
  const double log_front = std::log(2.0) + freedom / 2 * std::log(freedom / 2) - std::lgamma(freedom / 2);
  double sum = 0;
  for (int i = 0; i <= kIntervals; ++i) {
    const double s = low + i * width;
    const double power_of_s = freedom == 1 ? 0 : (freedom - 1) * std::log(s);  // log(0) is -inf: density 0
    const double weight = std::exp(log_front + power_of_s - freedom * s * s / 2);
    const double rejected = normal_cdf(shift - critical * s) + normal_cdf(-shift - critical * s);
    sum += (i == 0 || i == kIntervals ? 1 : i % 2 == 1 ? 4 : 2) * weight * rejected;
  }
  return sum * width / 3;
}

double smallest_gain(double sd, std::size_t pairs, double power, double alpha) {
  double low = 0, high = 1;
  while (paired_t_power(high, pairs, alpha) < power) low = high, high *= 2;
  for (int i = 0; i < 40; ++i) {
    const double middle = 0.5 * (low + high);
    (paired_t_power(middle, pairs, alpha) < power ? low : high) = middle;
  }
  return sd * 0.5 * (low + high);
}

}  // namespace normlab
