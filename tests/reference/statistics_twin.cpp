// The statistics as C functions for statistics_twin.py, which builds this file into its own library.
#include <cmath>
#include <vector>

#include "experiments/statistics/bootstrap.h"
#include "experiments/statistics/many_to_one.h"
#include "experiments/statistics/planning.h"
#include "experiments/statistics/proportions.h"
#include "experiments/statistics/special.h"
#include "experiments/statistics/stein.h"
#include "experiments/statistics/strip_noise.h"
#include "tests/experiments/statistics/known_tests.h"

using namespace normlab;

namespace {

/// values: [rows + 1][seeds], the baseline first, NaN where a run is missing.
Strip strip_of(int rows, int seeds, const double* values) {
  Strip strip;
  strip.rows.resize(std::size_t(rows));
  for (int r = 0; r <= rows; ++r)
    for (int s = 0; s < seeds; ++s) {
      SeedValues& row = r == 0 ? strip.baseline.values : strip.rows[std::size_t(r) - 1].values;
      if (const double value = values[r * seeds + s]; !std::isnan(value)) row[std::uint64_t(s)] = value;
    }
  return strip;
}

SharedNoise noise_of(int rows, const double* loads) {
  SharedNoise noise;
  for (int r = 0; r < rows; ++r) noise.rows.push_back({.load = loads[r], .count = 1});
  return noise;
}

std::vector<Correctness> runs_of(int seeds, int images, const std::uint8_t* right) {
  std::vector<Correctness> runs;
  for (int s = 0; s < seeds; ++s) {
    runs.emplace_back(images, "twin");
    for (int i = 0; i < images; ++i) runs.back().set(i, right[s * images + i] != 0);
  }
  return runs;
}

}  // namespace

extern "C" {

double twin_beta(double a, double b, double x) { return regularised_beta(a, b, x, 1 - x); }
double twin_beta_quantile(double p, double a, double b) { return inverse_regularised_beta(p, a, b); }
double twin_gamma(double a, double x) { return regularised_gamma(a, x); }
double twin_gamma_upper(double a, double x) { return regularised_gamma_upper(a, x); }
double twin_chi_square(double x, double freedom) { return chi_square_cdf(x, freedom); }
double twin_chi_square_quantile(double p, double freedom) { return chi_square_quantile(p, freedom); }
double twin_student(double t, double freedom) { return student_t_cdf(t, freedom); }
double twin_student_two_sided(double t, double freedom) { return student_t_two_sided(t, freedom); }
double twin_student_quantile(double p, double freedom) { return student_t_quantile(p, freedom); }
double twin_noncentral(double t, double freedom, double shift) { return noncentral_t_cdf(t, freedom, shift); }
double twin_power(double effect, int pairs, double alpha) { return paired_t_power(effect, std::size_t(pairs), alpha); }
double twin_smallest_gain(double sd, int pairs, double power) { return smallest_gain(sd, std::size_t(pairs), power); }
double twin_spread_limit(double own, double other, double p) { return spread_ratio_by_chance(own, other, p); }
double twin_clopper_pearson(int hits, int n, double level, int high) {
  const Bounds bounds = clopper_pearson(hits, n, level);
  return high != 0 ? bounds.high : bounds.low;
}
double twin_mcnemar(int a, int b) { return mcnemar_p(a, b); }

double twin_joint(int rows, const double* loads, double freedom, double critical) {
  return joint_t_probability(noise_of(rows, loads), freedom, critical);
}
double twin_joint_critical(int rows, const double* loads, double freedom, double level) {
  return joint_t_critical(noise_of(rows, loads), freedom, level);
}
double twin_best(int rows, const double* loads, const double* errors) {
  return expected_best({{noise_of(rows, loads), {errors, errors + rows}}});
}

void twin_holm(int n, const double* p, double* adjusted) {
  const std::vector<double> result = holm_adjusted({p, std::size_t(n)});
  std::copy(result.begin(), result.end(), adjusted);
}

/// out: mean, low, high, p_above_lower, p_below_upper.
void twin_equivalence(int n, const double* differences, double margin, double* out) {
  const auto result = equivalence({differences, std::size_t(n)}, margin);
  const double numbers[] = {result->mean, result->low, result->high, result->p_above_lower, result->p_below_upper};
  std::copy(std::begin(numbers), std::end(numbers), out);
}

/// summary: residual sd, freedom, critical, correlation, best gain by chance, spread, spread_row (-1 the baseline, -2
/// none). rows: gain, standard error, low, high, p of each; NaN where there is none.
void twin_strip(int count, int seeds, const double* values, int blocks, int holm, double* summary, double* rows) {
  ManyToOneOptions options;
  options.design = blocks != 0 ? Design::blocks : Design::independent;
  options.procedure = holm != 0 ? Procedure::holm : Procedure::pooled;
  const ManyToOne strip = many_to_one(strip_of(count, seeds, values), options);
  const double numbers[] = {strip.residual_sd,
                            strip.freedom,
                            strip.critical,
                            common_draw_correlation({&strip, 1}).value_or(NAN),
                            best_gain_by_chance({&strip, 1}).value_or(NAN),
                            strip.spread.value_or(NAN),
                            !strip.spread      ? -2
                            : strip.spread_row ? double(*strip.spread_row)
                                               : -1};
  std::copy(std::begin(numbers), std::end(numbers), summary);
  for (const Comparison& row : strip.rows) {
    for (const auto& number : {row.gain, row.standard_error, row.low, row.high, row.p}) *rows++ = number.value_or(NAN);
  }
}

/// The seeds that show `gain` under the pooled procedure, of a strip without missing runs.
int twin_seeds_needed(int count, int seeds, const double* values, double gain) {
  ManyToOneOptions options;
  options.procedure = Procedure::pooled;
  const auto needed = seeds_needed(many_to_one(strip_of(count, seeds, values), options), gain);
  return needed ? int(needed->seeds) : -1;
}

/// right: [seeds][images] of the row, then of the baseline. out: estimate, standard error, seeds' and images' parts.
void twin_bootstrap(int seeds, int images, const std::uint8_t* right, const std::uint8_t* baseline, int resamples,
                    double* out) {
  BootstrapOptions options;
  options.resamples = resamples;
  const auto result = baseline == nullptr
                          ? bootstrap_mean(runs_of(seeds, images, right), options)
                          : bootstrap_gain(runs_of(seeds, images, baseline), runs_of(seeds, images, right), options);
  const double numbers[] = {result->estimate, result->standard_error, result->seeds_error, result->images_error};
  std::copy(std::begin(numbers), std::end(numbers), out);
}
}
