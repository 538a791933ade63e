#include "experiments/lab/statistics/student.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "core/error.h"

namespace normlab {
namespace {

/// The rank of each value, less the mean rank.
std::vector<double> centred_ranks(std::span<const double> values) {
  std::vector<double> ranks;
  for (const double value : values) {
    const auto below = std::count_if(values.begin(), values.end(), [&](double other) { return other < value; });
    const auto equal = std::count(values.begin(), values.end(), value);
    ranks.push_back(double(below) + (double(equal) - double(values.size())) / 2);
  }
  return ranks;
}

/// Half width: t(n - 1) s.
std::optional<Interval> interval_of(std::span<const double> values, double level) {
  if (values.empty()) return std::nullopt;
  Interval interval{.mean = mean(values), .half_width = std::nullopt, .n = values.size()};
  if (values.size() > 1)
    interval.half_width = student_t_two_sided_quantile(1 - level, double(values.size()) - 1) * sample_sd(values);
  return interval;
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

std::optional<Interval> mean_interval(std::span<const double> values, double level) {
  std::optional<Interval> interval = interval_of(values, level);
  if (interval && interval->half_width) *interval->half_width /= std::sqrt(double(values.size()));
  return interval;
}

WelchInterval welch_interval(std::span<const double> a, std::span<const double> b, double level) {
  const auto error_of = [](std::span<const double> values) {
    return sample_sd(values) * sample_sd(values) / double(values.size());
  };
  const double of_a = error_of(a), of_b = error_of(b), error = of_a + of_b;
  WelchInterval out{.difference = mean(a) - mean(b), .half_width = 0, .freedom = 0, .p = std::nullopt};
  if (!(error > 0)) return out;
  out.freedom = error * error / (of_a * of_a / double(a.size() - 1) + of_b * of_b / double(b.size() - 1));
  out.half_width = student_t_two_sided_quantile(1 - level, out.freedom) * std::sqrt(error);
  out.p = student_t_two_sided(out.difference / std::sqrt(error), out.freedom);
  return out;
}

std::optional<Interval> prediction_interval(std::span<const double> values, std::size_t further, double level) {
  std::optional<Interval> interval = interval_of(values, level);
  if (interval && interval->half_width)
    *interval->half_width *= std::sqrt(1 / double(further) + 1 / double(values.size()));
  return interval;
}

double equivalence_p(double difference, double standard_error, double freedom, double margin) {
  if (!(margin > 0)) throw InputError(concat("margin of equivalence: ", margin, "; expected more than 0"));
  const double inside = (margin - std::abs(difference)) / standard_error;
  return inside < 0 ? 1 - student_t_tail(-inside, freedom) : student_t_tail(inside, freedom);
}

std::optional<double> paired_effect_size(std::span<const double> differences) {
  if (differences.size() < 3) return std::nullopt;
  const double sd = sample_sd(differences), freedom = double(differences.size() - 1);
  if (!(sd > 0)) return std::nullopt;
  const double unbiased = std::exp(log_gamma(freedom / 2) - log_gamma((freedom - 1) / 2)) / std::sqrt(freedom / 2);
  return unbiased * mean(differences) / sd;
}

double spearman(std::span<const double> x, std::span<const double> y) {
  const std::vector<double> a = centred_ranks(x), b = centred_ranks(y);
  double products = 0, squares_a = 0, squares_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    products += a[i] * b[i];
    squares_a += a[i] * a[i];
    squares_b += b[i] * b[i];
  }
  return products / std::sqrt(squares_a * squares_b);
}

std::optional<Interval> order_agreement(std::span<const SeedValues> a, std::span<const SeedValues> b, double level) {
  if (a.size() < 3 || a.size() != b.size()) return std::nullopt;
  std::vector<std::uint64_t> seeds;
  for (const auto& [seed, value] : a.front()) {
    const auto has = [&, s = seed](const SeedValues& row) { return row.contains(s); };
    if (std::all_of(a.begin(), a.end(), has) && std::all_of(b.begin(), b.end(), has)) seeds.push_back(seed);
  }
  const std::size_t n = seeds.size();
  if (n < 2) return std::nullopt;
  const auto run = [&](std::span<const SeedValues> rows, std::uint64_t seed) {
    std::vector<double> values;
    for (const SeedValues& row : rows) values.push_back(row.at(seed));
    return values;
  };
  double sum = 0;
  std::vector<double> of_seed(n);  // the part of the sum in which a seed takes part
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const double correlation = spearman(run(a, seeds[i]), run(b, seeds[j]));
      sum += correlation;
      of_seed[i] += correlation;
      of_seed[j] += correlation;
    }
  if (!std::isfinite(sum)) return std::nullopt;
  Interval interval{.mean = sum / double(n * (n - 1)), .half_width = std::nullopt, .n = n};
  if (n < 3) return interval;
  std::vector<double> without;
  for (const double part : of_seed) without.push_back((sum - part) / double((n - 1) * (n - 2)));
  const double error = sample_sd(without) * double(n - 1) / std::sqrt(double(n));
  interval.half_width = student_t_two_sided_quantile(1 - level, double(n - 1)) * error;
  return interval;
}

}  // namespace normlab
