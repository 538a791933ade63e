#include "experiments/statistics/many_to_one.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/error.h"
#include "experiments/statistics/strip_noise.h"

namespace normlab {
namespace {

constexpr double kSpreadAlpha = 0.01;  // rate of false rejections of equal spreads: one strip in a hundred
// Sds below this share of the largest value are rounding errors: the values have no spread. Squares are subtracted from
// each other, so an sd has only half the digits of a double.
constexpr double kRounding = 1e-7;

void check(const Strip& strip, const ManyToOneOptions& options) {
  if (!(options.level > 0 && options.level < 1))
    throw InputError(concat("level of intervals: ", options.level, "; expected a number between 0 and 1"));
  if (options.family_rows != 0 && options.family_rows < strip.rows.size())
    throw InputError(
        concat("a family of ", options.family_rows, " rows cannot hold the ", strip.rows.size(), " rows of a strip"));
  const auto check_row = [](const StripRow& row) {
    for (const auto& [seed, value] : row.values)
      if (!std::isfinite(value))
        throw InputError(concat("the value of seed ", seed, " is ", value, "; a strip needs finite values"));
  };
  check_row(strip.baseline);
  for (const StripRow& row : strip.rows) check_row(row);
}

double largest_value(const Strip& strip) {
  double largest = 0;
  const auto see = [&](const StripRow& row) {
    for (const auto& [seed, value] : row.values) largest = std::max(largest, std::abs(value));
  };
  see(strip.baseline);
  for (const StripRow& row : strip.rows) see(row);
  return largest;
}

SeedValues only(const SeedValues& values, const std::set<std::uint64_t>& seeds) {
  if (seeds.empty()) return values;
  SeedValues kept;
  for (const auto& [seed, value] : values)
    if (seeds.count(seed) != 0) kept.emplace(seed, value);
  return kept;
}

/// Removes stand-in values.
SeedValues measured(SeedValues values, const StripRow& row) {
  for (const std::uint64_t seed : row.stand_ins) values.erase(seed);
  return values;
}

/// The values for estimating the noise: those of the first stage if there are two.
struct NoiseValues {
  SeedValues baseline;
  std::vector<SeedValues> rows;
  NoiseValues measured_in(const Strip& strip) const {
    NoiseValues kept{.baseline = measured(baseline, strip.baseline), .rows = {}};
    for (std::size_t i = 0; i < rows.size(); ++i) kept.rows.push_back(measured(rows[i], strip.rows[i]));
    return kept;
  }
  std::vector<const SeedValues*> all() const {
    std::vector<const SeedValues*> result{&baseline};
    for (const SeedValues& row : rows) result.push_back(&row);
    return result;
  }
};

std::vector<double> values_of(const SeedValues& row) {
  std::vector<double> values;
  for (const auto& [seed, value] : row) values.push_back(value);
  return values;
}

/// A sd with its degrees of freedom; none if it is unknown or mere rounding.
struct Spread {
  double sd = 0, freedom = 0;
};
std::optional<Spread> spread_of(std::span<const double> values, double negligible) {
  if (values.size() < 2) return std::nullopt;
  const double sd = sample_sd(values);
  if (!(sd > negligible)) return std::nullopt;
  return Spread{sd, double(values.size() - 1)};
}

std::vector<double> differences(const SeedValues& base, const SeedValues& other) {
  std::vector<double> result;
  for (const auto& [seed, value] : other)
    if (const auto match = base.find(seed); match != base.end()) result.push_back(value - match->second);
  return result;
}

/// Finds the row that exceeds its chance limit most. With one row there is nothing to compare: the paired and the
/// pooled test are the same.
void compare_spreads(ManyToOne& result, const NoiseValues& noise, double negligible, double stated_ratio) {
  result.spread_limit = stated_ratio;
  const std::vector<const SeedValues*> rows = noise.all();
  const auto ratios = spread_ratios(rows, result.design == Design::blocks, negligible);
  double furthest = 0;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    if (!ratios[i]) continue;
    const double by_chance =
        spread_ratio_by_chance(ratios[i]->own_freedom, ratios[i]->other_freedom, kSpreadAlpha / double(ratios.size()));
    const double limit = std::max(stated_ratio, by_chance);
    if (ratios[i]->ratio / limit <= furthest) continue;
    furthest = ratios[i]->ratio / limit;
    result.spread = ratios[i]->ratio;
    result.spread_limit = limit;
    result.spread_row = i == 0 ? std::nullopt : std::optional(i - 1);
  }
}

/// Sets pairs, gain and sd of each row.
void compare_means(ManyToOne& result, const Strip& strip, const NoiseValues& noise) {
  for (std::size_t i = 0; i < strip.rows.size(); ++i) {
    Comparison& row = result.rows[i];
    const SeedValues& values = strip.rows[i].values;
    const std::vector<double> own = differences(noise.baseline, noise.rows[i]);
    row.sd = own.size() > 1 ? sample_sd(own) : 0;
    if (result.design == Design::independent) {
      row.pairs = values.size();
      if (!values.empty() && !strip.baseline.values.empty())
        row.gain = mean(values_of(values)) - mean(values_of(strip.baseline.values));
      continue;
    }
    const std::vector<double> paired = differences(strip.baseline.values, values);
    row.pairs = paired.size();
    if (!paired.empty()) row.gain = mean(paired);
  }
}

void pooled_errors(ManyToOne& result, const Strip& strip) {
  if (!(result.residual_sd > 0)) return;
  for (Comparison& row : result.rows) {
    if (!row.gain) continue;
    const double runs = double(row.pairs);
    const double base_runs = result.design == Design::blocks ? runs : double(strip.baseline.values.size());
    row.standard_error = result.residual_sd * std::sqrt(1 / runs + 1 / base_runs);
    row.freedom = result.freedom;
  }
}

/// Sets each row's own standard error; Welch's for independent runs.
void own_errors(ManyToOne& result, const NoiseValues& noise, const Strip& strip, double negligible) {
  const auto base = spread_of(values_of(noise.baseline), negligible);
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    Comparison& row = result.rows[i];
    if (!row.gain) continue;
    if (result.design == Design::blocks) {
      const auto own = spread_of(differences(noise.baseline, noise.rows[i]), negligible);
      if (!own) continue;
      row.standard_error = own->sd / std::sqrt(double(row.pairs));
      row.freedom = own->freedom;
    } else if (const auto own = spread_of(values_of(noise.rows[i]), negligible); own && base) {
      const double mine = own->sd * own->sd / double(row.pairs);
      const double theirs = base->sd * base->sd / double(strip.baseline.values.size());
      row.standard_error = std::sqrt(mine + theirs);
      row.freedom = (mine + theirs) * (mine + theirs) / (mine * mine / own->freedom + theirs * theirs / base->freedom);
    }
  }
}

/// The correlation of the compared rows' gains. With seeds as blocks, two gains share the baseline's noise for the
/// seeds that both have: their correlation is (common seeds) / (2 sqrt(pairs_i pairs_j)).
SharedNoise shared_noise(const ManyToOne& result, const Strip& strip) {
  SharedNoise noise;
  std::vector<std::size_t> compared;
  for (std::size_t i = 0; i < result.rows.size(); ++i)
    if (result.rows[i].standard_error) compared.push_back(i);
  if (result.design == Design::independent) {
    const double base_runs = double(strip.baseline.values.size());
    for (const std::size_t i : compared) {
      const double runs = double(result.rows[i].pairs);
      noise.rows.push_back({.load = std::sqrt(runs / (runs + base_runs)), .count = 1});
    }
    return noise;
  }
  // Rows with the same seeds share a line.
  std::map<std::vector<bool>, std::size_t> lines;
  std::vector<std::vector<bool>> held;  // which of the baseline's seeds each compared row has
  for (const std::size_t i : compared) {
    std::vector<bool> seeds;
    for (const auto& [seed, value] : strip.baseline.values) seeds.push_back(strip.rows[i].values.count(seed) != 0);
    lines.emplace(seeds, 0);
    held.push_back(std::move(seeds));
  }
  std::vector<const std::vector<bool>*> patterns;
  for (auto& [seeds, line] : lines) line = patterns.size(), patterns.push_back(&seeds);
  std::vector<std::size_t> counts(patterns.size());
  for (const auto& seeds : held) ++counts[lines[seeds]];
  std::vector<std::vector<double>> correlations(patterns.size(), std::vector<double>(patterns.size()));
  for (std::size_t i = 0; i < patterns.size(); ++i)
    for (std::size_t j = 0; j < patterns.size(); ++j) {
      double common = 0, mine = 0, theirs = 0;
      for (std::size_t s = 0; s < patterns[i]->size(); ++s) {
        const bool here = (*patterns[i])[s], there = (*patterns[j])[s];
        common += here && there, mine += here, theirs += there;
      }
      correlations[i][j] = common / (2 * std::sqrt(mine * theirs));
    }
  const SharedNoise nearest = nearest_shared_noise(correlations, counts);
  for (const auto& seeds : held) noise.rows.push_back({.load = nearest.rows[lines[seeds]].load, .count = 1});
  return noise;
}

/// Converts a p value adjusted in the strip to one adjusted in the family, so that both rejections agree.
double family_p(double p, double share) { return share == 1 ? p : -std::expm1(std::log1p(-std::min(p, 1.0)) / share); }

void set_interval(Comparison& row, double half_width) {
  row.half_width = half_width;
  row.low = *row.gain - half_width;
  row.high = *row.gain + half_width;
}

void pooled_intervals(ManyToOne& result, bool p_values, double share) {
  result.critical = joint_t_critical(result.noise, result.freedom, result.level);
  std::vector<double> statistics;
  for (Comparison& row : result.rows) {
    if (!row.standard_error) continue;
    set_interval(row, result.critical * *row.standard_error);
    row.differs = *row.low > 0 || *row.high < 0;
    statistics.push_back(std::abs(*row.gain / *row.standard_error));
  }
  if (!p_values) return;
  const std::vector<double> inside = joint_t_probabilities(result.noise, result.freedom, statistics);
  std::size_t next = 0;
  for (Comparison& row : result.rows)
    if (row.standard_error) row.p = family_p(std::max(1 - inside[next++], 0.0), share);  // inside may exceed 1
}

void holm_intervals(ManyToOne& result, double share) {
  const double alpha = 1 - result.level;
  std::vector<double> p;
  for (const Comparison& row : result.rows)
    if (row.standard_error) p.push_back(student_t_two_sided(*row.gain / *row.standard_error, row.freedom));
  const std::vector<double> adjusted = holm_adjusted(p);
  std::size_t next = 0;
  for (Comparison& row : result.rows) {
    if (!row.standard_error) continue;
    set_interval(row, student_t_two_sided_quantile(alpha / double(p.size()), row.freedom) * *row.standard_error);
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
  result.design = options.design;
  result.two_stage = !options.first_stage.empty();
  result.rows.resize(strip.rows.size());
  const double share = options.family_rows == 0 ? 1 : double(strip.rows.size()) / double(options.family_rows);
  result.level = std::pow(options.level, share);

  NoiseValues noise{.baseline = only(strip.baseline.values, options.first_stage), .rows = {}};
  result.diverged = strip.baseline.diverged;
  for (const StripRow& row : strip.rows) {
    noise.rows.push_back(only(row.values, options.first_stage));
    result.diverged = result.diverged || row.diverged;
  }
  const double negligible = kRounding * largest_value(strip);
  const NoiseValues common = noise.measured_in(strip);
  const Squares within = squares_within(common.all()), left = squares_after_seeds(common.all());
  result.within_square = within.mean(), result.within_freedom = within.freedom;
  result.left_square = left.mean(), result.left_freedom = left.freedom;
  const Squares& residual = options.design == Design::blocks ? left : within;
  if (residual.freedom > 0 && std::sqrt(residual.mean()) > negligible) {
    result.residual_sd = std::sqrt(residual.mean());
    result.freedom = residual.freedom;
  }

  compare_spreads(result, common, negligible, options.spread_ratio);
  const bool unequal = result.spread && *result.spread > result.spread_limit;
  result.procedure = options.procedure.value_or(result.diverged || unequal ? Procedure::holm : Procedure::pooled);
  compare_means(result, strip, noise);
  if (result.procedure == Procedure::pooled)
    pooled_errors(result, strip);
  else
    own_errors(result, noise, strip, negligible);
  result.noise = shared_noise(result, strip);
  result.compared = result.noise.rows.size();
  if (result.compared == 0) return result;
  if (result.procedure == Procedure::pooled)
    pooled_intervals(result, options.p_values, share);
  else
    holm_intervals(result, share);
  return result;
}

}  // namespace normlab
