#include "experiments/lab/statistics/many_to_one.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "experiments/lab/statistics/moderated_variance.h"

namespace normlab {
namespace {

// Sds below this share of the largest value are rounding errors: the values have no spread.
constexpr double kRounding = 1e-7;

void check(const Strip& strip, const ManyToOneOptions& options) {
  if (!(options.level > 0 && options.level < 1))
    throw InputError(concat("level of intervals: ", options.level, "; expected a number between 0 and 1"));
  if (options.family_rows != 0 && options.family_rows < strip.rows.size())
    throw InputError(
        concat("a family of ", options.family_rows, " rows cannot hold the ", strip.rows.size(), " rows of a strip"));
}

/// InputError for a value that is not finite.
double largest_value(const Strip& strip) {
  double largest = 0;
  const auto see = [&](const StripRow& row) {
    for (const auto& [seed, value] : row.values) {
      if (!std::isfinite(value))
        throw InputError(concat("the value of seed ", seed, " is ", value, "; a strip needs finite values"));
      largest = std::max(largest, std::abs(value));
    }
  };
  see(strip.baseline);
  for (const StripRow& row : strip.rows) see(row);
  return largest;
}

/// Over the seeds that both have, and that are of `stage` unless it is empty.
std::vector<double> differences(const SeedValues& base, const SeedValues& other, const std::set<std::uint64_t>& stage) {
  std::vector<double> result;
  for (const auto& [seed, value] : other)
    if (const auto match = base.find(seed); match != base.end() && (stage.empty() || stage.contains(seed)))
      result.push_back(value - match->second);
  return result;
}

void compare_means(ManyToOne& result, const Strip& strip) {
  for (std::size_t i = 0; i < strip.rows.size(); ++i) {
    Comparison& row = result.rows[i];
    const std::vector<double> paired = differences(strip.baseline.values, strip.rows[i].values, {});
    row.pairs = paired.size();
    if (!paired.empty()) row.gain = mean(paired);
    row.apart = strip.baseline.apart || strip.rows[i].apart;
  }
}

/// Sets the standard errors and the strip's typical noise.
void estimate_noise(ManyToOne& result, const Strip& strip, const std::set<std::uint64_t>& stage, double negligible) {
  std::vector<Variance> own(strip.rows.size()), sharing, alone;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::vector<double> paired = differences(strip.baseline.values, strip.rows[i].values, stage);
    if (paired.size() < 2) continue;
    const double sd = sample_sd(paired);
    own[i] = {.value = sd > negligible ? sd * sd : 0, .freedom = double(paired.size() - 1)};
    if (own[i].value > 0) (result.rows[i].apart ? alone : sharing).push_back(own[i]);
  }
  const Variance prior = prior_variance(sharing);
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (!(own[i].freedom > 0)) continue;
    Comparison& row = result.rows[i];
    const Variance noise = row.apart ? own[i] : moderated(own[i], prior, sharing.size());
    if (!(noise.value > 0)) continue;
    row.standard_error = std::sqrt(noise.value / double(row.pairs));
    row.freedom = noise.freedom;
    ++result.compared;
  }
  const std::vector<Variance>& typical = sharing.empty() ? alone : sharing;
  if (typical.empty()) return;
  Variance noise = prior;
  if (typical.size() == 1 || sharing.empty()) {  // a median: rows that stand apart may differ by any factor
    std::vector<double> values;
    for (const Variance& row : typical) values.push_back(row.value);
    std::nth_element(values.begin(), values.begin() + std::ptrdiff_t(values.size() / 2), values.end());
    noise.value = values[values.size() / 2];
  }
  const double most = std::max_element(typical.begin(), typical.end(), [](const Variance& a, const Variance& b) {
                        return a.freedom < b.freedom;
                      })->freedom;
  result.sd = std::sqrt(noise.value);
  result.freedom = moderated({.value = noise.value, .freedom = most}, prior, sharing.size()).freedom;
  result.borrowing = result.freedom / most;
}

/// Sums of squares of the rows that have all seeds of the baseline, without stand-ins.
void compare_draws(ManyToOne& result, const Strip& strip, const std::set<std::uint64_t>& stage) {
  std::vector<std::uint64_t> seeds;
  for (const auto& [seed, value] : strip.baseline.values)
    if ((stage.empty() || stage.contains(seed)) && !strip.baseline.stand_ins.contains(seed)) seeds.push_back(seed);
  std::vector<double> of_seed(seeds.size());
  double rows = 0;
  const auto see = [&](const StripRow& row) {
    std::vector<double> values;
    for (const std::uint64_t seed : seeds)
      if (const auto found = row.values.find(seed); found != row.values.end() && !row.stand_ins.contains(seed))
        values.push_back(found->second);
    if (values.size() < seeds.size() || seeds.empty()) return;
    const double centre = mean(values);
    for (std::size_t s = 0; s < seeds.size(); ++s) {
      result.within_square += (values[s] - centre) * (values[s] - centre);
      of_seed[s] += values[s] - centre;
    }
    ++rows;
  };
  see(strip.baseline);
  for (const StripRow& row : strip.rows) see(row);
  if (rows < 2 || seeds.size() < 2) return;
  result.left_square = result.within_square;
  for (const double sum : of_seed) result.left_square -= sum * sum / rows;
  result.within_freedom = rows * double(seeds.size() - 1);
  result.left_freedom = (rows - 1) * double(seeds.size() - 1);
}

/// Converts a p value adjusted in the strip to one adjusted in the family, so that both rejections agree.
double family_p(double p, double share) { return share == 1 ? p : -std::expm1(std::log1p(-std::min(p, 1.0)) / share); }

void set_intervals(ManyToOne& result, double share) {
  const double alpha = 1 - result.level;
  std::vector<double> p;
  for (const Comparison& row : result.rows)
    if (row.standard_error) p.push_back(student_t_two_sided(*row.gain / *row.standard_error, row.freedom));
  const std::vector<double> adjusted = holm_adjusted(p);
  std::size_t next = 0;
  for (Comparison& row : result.rows) {
    if (!row.standard_error) continue;
    row.half_width = student_t_two_sided_quantile(alpha / double(p.size()), row.freedom) * *row.standard_error;
    row.low = *row.gain - *row.half_width;
    row.high = *row.gain + *row.half_width;
    row.differs = adjusted[next] < alpha;
    row.cut = row.differs && *row.low <= 0 && *row.high >= 0;
    if (row.cut) (*row.gain > 0 ? row.low : row.high) = 0;
    row.p = family_p(adjusted[next++], share);
  }
}

}  // namespace

std::vector<double> holm_adjusted(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] < p[b]; });
  std::vector<double> adjusted(p.size());
  double worst = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    worst = std::max(worst, std::min(1.0, double(p.size() - rank) * p[order[rank]]));
    adjusted[order[rank]] = worst;
  }
  return adjusted;
}

ManyToOne many_to_one(const Strip& strip, const ManyToOneOptions& options) {
  check(strip, options);
  ManyToOne result;
  result.two_stage = !options.first_stage.empty();
  result.rows.resize(strip.rows.size());
  const double share = options.family_rows == 0 ? 1 : double(strip.rows.size()) / double(options.family_rows);
  result.level = std::pow(options.level, share);
  const double negligible = kRounding * largest_value(strip);
  compare_means(result, strip);
  compare_draws(result, strip, options.first_stage);
  estimate_noise(result, strip, options.first_stage, negligible);
  set_intervals(result, share);
  return result;
}

}  // namespace normlab
