#include "experiments/lab/statistics/many_to_one.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/random.h"
#include "experiments/lab/statistics/distributions.h"

namespace normlab {
namespace {

// Sds below this share of the largest value are rounding errors: the values have no spread.
constexpr double kRounding = 1e-7;

void check(std::size_t rows, const ManyToOneOptions& options) {
  if (!(options.level > 0 && options.level < 1))
    throw InputError(concat("level of intervals: ", options.level, "; expected a number between 0 and 1"));
  if (options.family_rows != 0 && options.family_rows < rows)
    throw InputError(concat("a family of ", options.family_rows, " rows cannot hold the ", rows, " rows of a strip"));
}

/// The largest, but at least `largest`. InputError for a value that is not finite.
double largest_value(const StripRow& row, double largest) {
  for (const auto& [seed, value] : row.values) {
    if (!std::isfinite(value))
      throw InputError(concat("the value of seed ", seed, " is ", value, "; a strip needs finite values"));
    largest = std::max(largest, std::abs(value));
  }
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

/// `row` minus `base`, and the variance of the paired differences; its freedom is 0 below two of them.
std::pair<Comparison, Variance> compared(const StripRow& base, const StripRow& row,
                                         const std::set<std::uint64_t>& stage, double negligible) {
  Comparison out;
  std::vector<double> paired = differences(base.values, row.values, {});
  out.pairs = paired.size();
  if (!paired.empty()) out.gain = mean(paired);
  out.apart = base.apart || row.apart;
  if (!stage.empty()) paired = differences(base.values, row.values, stage);
  if (paired.size() < 2) return {out, {}};
  const double sd = sample_sd(paired);
  return {out, {.value = sd > negligible ? sd * sd : 0, .freedom = double(paired.size() - 1)}};
}

/// Sets standard error and freedom; false if the noise cannot be estimated.
bool set_error(Comparison& row, const Variance& own, const Variance& prior, std::size_t sharing) {
  if (!(own.freedom > 0)) return false;
  const Variance noise = row.apart ? own : moderated(own, prior, sharing);
  if (!(noise.value > 0)) return false;
  row.standard_error = std::sqrt(noise.value / double(row.pairs));
  row.freedom = noise.freedom;
  return true;
}

/// Sets the gains, their standard errors and the strip's typical noise.
void compare_means(ManyToOne& result, const Strip& strip, const std::set<std::uint64_t>& stage, double negligible) {
  std::vector<Variance> own(strip.rows.size()), sharing, alone;
  for (std::size_t i = 0; i < own.size(); ++i) {
    std::tie(result.rows[i], own[i]) = compared(strip.baseline, strip.rows[i], stage, negligible);
    if (own[i].value > 0) (result.rows[i].apart ? alone : sharing).push_back(own[i]);
  }
  const Variance prior = prior_variance(sharing);
  for (std::size_t i = 0; i < own.size(); ++i)
    result.compared += set_error(result.rows[i], own[i], prior, sharing.size()) ? 1 : 0;
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

void set_intervals(const std::vector<Comparison*>& rows, double level, double share) {
  const double alpha = 1 - level;
  std::vector<double> p;
  for (const Comparison* row : rows)
    if (row->standard_error) p.push_back(student_t_two_sided(*row->gain / *row->standard_error, row->freedom));
  const std::vector<double> adjusted = holm_adjusted(p);
  std::size_t next = 0;
  for (Comparison* row : rows) {
    if (!row->standard_error) continue;
    row->half_width = student_t_two_sided_quantile(alpha / double(p.size()), row->freedom) * *row->standard_error;
    row->low = *row->gain - *row->half_width;
    row->high = *row->gain + *row->half_width;
    row->differs = adjusted[next] < alpha;
    row->cut = row->differs && *row->low <= 0 && *row->high >= 0;
    if (row->cut) (*row->gain > 0 ? row->low : row->high) = 0;
    row->p = family_p(adjusted[next++], share);
  }
}

/// 1/x < trigamma(x) < 1/x + 1/x^2 gives the bounds.
double trigamma_inverse(double y) {
  return zero_between([y](double x) { return trigamma(x) - y; }, 1 / y, (1 + std::sqrt(1 + 4 * y)) / (2 * y));
}

double digamma_less_log(double x) { return digamma(x) - std::log(x); }

/// The test of a typical row with a given number of seeds: its critical value, degrees of freedom and standard error.
struct RowTest {
  double freedom = 0, critical = 0, standard_error = 0;
};

std::optional<RowTest> row_test(const ManyToOne& strip, std::size_t seeds) {
  if (!(strip.sd > 0) || seeds < (strip.two_stage ? 1 : 2)) return std::nullopt;
  RowTest test;
  test.freedom = strip.two_stage ? strip.freedom : strip.borrowing * (double(seeds) - 1);
  test.critical = student_t_two_sided_quantile((1 - strip.level) / double(strip.compared), test.freedom);
  test.standard_error = strip.sd / std::sqrt(double(seeds));
  return test;
}

/// P(all gains of a group <= x). A gain is its standard error times sqrt(1/2) (U + Z), where the rows share U.
double below(const std::map<double, std::size_t>& rows, double x) {
  // The trapezoidal rule: its error is negligible for analytic integrands that decay like these.
  constexpr double kStep = 0.25, kReach = 8.5;
  double sum = 0;
  for (double u = -kReach; u <= kReach; u += kStep) {
    double product = kStep * std::exp(-u * u / 2) / std::sqrt(2 * std::numbers::pi);
    for (const auto& [error, count] : rows)
      if (product > 1e-18) product *= std::pow(normal_cdf(std::numbers::sqrt2 * x / error - u), double(count));
    sum += product;
  }
  return sum;
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
  check(strip.rows.size(), options);
  ManyToOne result;
  result.two_stage = !options.first_stage.empty();
  result.rows.resize(strip.rows.size());
  const double share = options.family_rows == 0 ? 1 : double(strip.rows.size()) / double(options.family_rows);
  result.level = std::pow(options.level, share);
  double largest = largest_value(strip.baseline, 0);
  for (const StripRow& row : strip.rows) largest = largest_value(row, largest);
  compare_means(result, strip, options.first_stage, kRounding * largest);
  compare_draws(result, strip, options.first_stage);
  std::vector<Comparison*> rows;
  for (Comparison& row : result.rows) rows.push_back(&row);
  set_intervals(rows, result.level, share);
  return result;
}

AllPairs all_pairs(std::span<const StripRow> rows, const ManyToOneOptions& options) {
  AllPairs result;
  const std::size_t count = rows.size() * (rows.size() - std::min<std::size_t>(rows.size(), 1)) / 2;
  check(count, options);
  double largest = 0;
  for (const StripRow& row : rows) largest = largest_value(row, largest);
  std::vector<Variance> own, sharing;
  std::set<std::size_t> independent;  // rows whose differences share their noise
  for (std::size_t b = 1; b < rows.size(); ++b)
    for (std::size_t a = 0; a < b; ++a) {
      auto [pair, variance] = compared(rows[a], rows[b], options.first_stage, kRounding * largest);
      if (variance.value > 0 && !pair.apart) {
        sharing.push_back(variance);
        independent.insert({a, b});
      }
      own.push_back(variance);
      result.pairs.push_back({a, b, std::move(pair)});
    }
  const Variance prior = prior_variance(sharing);
  std::vector<Comparison*> pairs;
  for (std::size_t i = 0; i < own.size(); ++i) {
    Comparison& pair = result.pairs[i].difference;
    result.compared += set_error(pair, own[i], prior, std::max<std::size_t>(independent.size(), 1) - 1) ? 1 : 0;
    pairs.push_back(&pair);
  }
  const double share = options.family_rows == 0 ? 1 : double(count) / double(options.family_rows);
  set_intervals(pairs, std::pow(options.level, share), share);
  return result;
}

Variance prior_variance(std::span<const Variance> rows) {
  if (rows.size() < 2) return {};
  const double n = double(rows.size());
  double mean = 0, arithmetic = 0, by_chance = 0, spread = 0;
  const auto centred_log = [](const Variance& row) { return std::log(row.value) - digamma_less_log(row.freedom / 2); };
  for (const Variance& row : rows) {
    mean += centred_log(row) / n;
    arithmetic += row.value / n;
    by_chance += trigamma(row.freedom / 2) / n;
  }
  for (const Variance& row : rows) spread += std::pow(centred_log(row) - mean, 2) / (n - 1);
  if (!(spread > by_chance)) return {.value = arithmetic, .freedom = INFINITY};
  const double half = trigamma_inverse(spread - by_chance);
  return {.value = std::exp(mean + digamma_less_log(half)), .freedom = 2 * half};
}

Variance moderated(const Variance& row, const Variance& prior, std::size_t rows) {
  const double most = std::min(4.0, (double(rows) - 1) / 2) * row.freedom;
  double borrowed = std::min(prior.freedom / 2, most);
  if (!(borrowed > 0)) return row;
  borrowed *= std::min(1.0, f_tail(row.value / prior.value, row.freedom, borrowed) / 0.1);
  const double freedom = borrowed + row.freedom;
  return {.value = (borrowed * prior.value + row.freedom * row.value) / freedom, .freedom = freedom};
}

double expected_best(const std::vector<std::vector<double>>& groups) {
  std::vector<std::map<double, std::size_t>> rows;
  double widest = 0, narrowest = INFINITY;
  std::size_t k = 0;
  for (const std::vector<double>& group : groups) {
    rows.emplace_back();
    for (const double error : group) {
      ++rows.back()[error];
      widest = std::max(widest, error);
      narrowest = std::min(narrowest, error);
    }
    k += group.size();
  }
  if (k < 2) return 0;
  // E max = integral of (1 - P(max <= x)) over x > 0 minus that of P(max <= x) over x < 0. Equivalently: the
  // integral of a normal distribution function, whose mean is 0, minus P(max <= x), a smooth function that vanishes
  // at both ends.
  const double step = 0.1 * widest * std::clamp(narrowest / widest, 0.1, 1.0);
  double sum = 0;
  for (double x = -9 * widest; x <= 9 * widest; x += step) {
    double all_below = 1;
    for (const auto& group : rows) all_below *= below(group, x);
    sum += normal_cdf(x / widest) - all_below;
  }
  return sum * step;
}

std::optional<double> best_gain_by_chance(std::span<const ManyToOne> strips) {
  std::vector<std::vector<double>> groups;
  for (const ManyToOne& strip : strips) {
    if (strip.compared == 0) continue;
    groups.emplace_back();
    for (const Comparison& row : strip.rows)
      if (row.standard_error) groups.back().push_back(*row.standard_error);
  }
  if (groups.empty()) return std::nullopt;
  return expected_best(groups);
}

std::optional<DetectableGain> detectable_gain(const ManyToOne& strip, std::size_t seeds, double power) {
  const auto test = row_test(strip, seeds);
  if (!test) return std::nullopt;
  const double gain = test->standard_error * smallest_shift(test->freedom, test->critical, power);
  const SdRange range = sd_range(strip.freedom);
  return DetectableGain{.gain = gain, .low = gain * range.low, .high = gain * range.high};
}

std::optional<SeedsNeeded> seeds_needed(const ManyToOne& strip, double gain, double power, std::size_t most) {
  const std::size_t least = strip.two_stage ? 1 : 2;
  if (!row_test(strip, least) || !(gain > 0)) return std::nullopt;
  const auto needed = [&](double noise) {
    const auto shows = [&](std::size_t seeds) {
      const RowTest test = *row_test(strip, seeds);
      return t_test_power(gain / (noise * test.standard_error), test.freedom, test.critical) >= power;
    };
    std::size_t low = least, high = least;  // low - 1 seeds are too few; high suffice
    while (high <= most && !shows(high)) low = high + 1, high *= 2;
    high = std::min(high, most + 1);
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (middle > most || shows(middle))
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  };
  const SdRange range = sd_range(strip.freedom);
  return SeedsNeeded{.seeds = needed(1), .low = needed(range.low), .high = needed(range.high)};
}

std::optional<double> common_draw_correlation(std::span<const ManyToOne> strips) {
  double within = 0, within_freedom = 0, left = 0, left_freedom = 0;
  for (const ManyToOne& strip : strips) {
    if (!(strip.left_freedom > 0)) continue;
    within += strip.within_square, within_freedom += strip.within_freedom;
    left += strip.left_square, left_freedom += strip.left_freedom;
  }
  if (!(left_freedom > 0) || !(within > 0)) return std::nullopt;
  return 1 - (left / left_freedom) / (within / within_freedom);
}

}  // namespace normlab
