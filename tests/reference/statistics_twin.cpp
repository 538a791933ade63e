// The statistics as C functions for statistics_twin.py, which builds this file into its own library.
#include <cmath>
#include <vector>

#include "experiments/lab/statistics/bootstrap.h"
#include "experiments/lab/statistics/distributions.h"
#include "experiments/lab/statistics/many_to_one.h"
#include "experiments/lab/statistics/proportions.h"
#include "experiments/lab/statistics/stein.h"
#include "tests/lab/statistics/known_tests.h"

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

double twin_beta_quantile(double p, double a, double b) { return inverse_regularised_beta(p, a, b); }
double twin_sd_range(double level, double freedom) { return sd_range(freedom, level).high; }
double twin_student(double t, double freedom) { return student_t_tail(t, freedom); }
double twin_student_two_sided(double t, double freedom) { return student_t_two_sided(t, freedom); }
double twin_student_quantile(double p, double freedom) { return student_t_two_sided_quantile(p, freedom); }
double twin_power(double effect, int pairs, double alpha) { return paired_t_power(effect, std::size_t(pairs), alpha); }
double twin_smallest_gain(double sd, int pairs, double power) { return smallest_gain(sd, std::size_t(pairs), power); }
double twin_clopper_pearson(int hits, int n, double level, int high) {
  const Bounds bounds = clopper_pearson(hits, n, level);
  return high != 0 ? bounds.high : bounds.low;
}
double twin_mcnemar(int a, int b) { return mcnemar_p(a, b); }

double twin_best(int rows, const double* errors) { return expected_best({{errors, errors + rows}}); }

/// out: value and freedom of the prior, then of each row moderated.
void twin_moderated(int rows, const double* variances, const double* freedoms, double* out) {
  std::vector<Variance> own;
  for (int r = 0; r < rows; ++r) own.push_back({variances[r], freedoms[r]});
  const Variance prior = prior_variance(own);
  *out++ = prior.value, *out++ = prior.freedom;
  for (const Variance& row : own) {
    const Variance noise = moderated(row, prior, own.size());
    *out++ = noise.value, *out++ = noise.freedom;
  }
}

void twin_holm(int n, const double* p, double* adjusted) {
  const std::vector<double> result = holm_adjusted({p, std::size_t(n)});
  std::copy(result.begin(), result.end(), adjusted);
}

double twin_equivalence(int n, const double* differences, double margin) {
  return paired_equivalence({differences, std::size_t(n)}, margin).value_or(NAN);
}

/// summary: sd and degrees of a typical row, borrowing, correlation. rows: gain, standard error, low, high, p of each;
/// NaN where there is none.
void twin_strip(int count, int seeds, const double* values, int apart, double* summary, double* rows) {
  Strip given = strip_of(count, seeds, values);
  given.baseline.apart = apart != 0;
  const ManyToOne strip = many_to_one(given);
  const double numbers[] = {strip.sd, strip.freedom, strip.borrowing,
                            common_draw_correlation({&strip, 1}).value_or(NAN)};
  std::copy(std::begin(numbers), std::end(numbers), summary);
  for (const Comparison& row : strip.rows) {
    for (const auto& number : {row.gain, row.standard_error, row.low, row.high, row.p}) *rows++ = number.value_or(NAN);
  }
}

double twin_effect_size(int n, const double* differences) {
  return paired_effect_size({differences, std::size_t(n)}).value_or(NAN);
}

/// out: difference, half width and p of each pair.
void twin_pairs(int count, int seeds, const double* values, double* out) {
  const Strip given = strip_of(count, seeds, values);
  std::vector<StripRow> rows{given.baseline};
  rows.insert(rows.end(), given.rows.begin(), given.rows.end());
  for (const RowPair& pair : all_pairs(rows).pairs)
    for (const auto& number : {pair.difference.gain, pair.difference.half_width, pair.difference.p})
      *out++ = number.value_or(NAN);
}

int twin_seeds_needed(int count, int seeds, const double* values, double gain) {
  const auto needed = seeds_needed(many_to_one(strip_of(count, seeds, values)), gain);
  return needed ? int(needed->seeds) : -1;
}

/// out: difference, half width, freedom and p.
void twin_welch(int n, const double* a, int m, const double* b, double level, double* out) {
  const WelchInterval welch = welch_interval({a, std::size_t(n)}, {b, std::size_t(m)}, level);
  const double numbers[] = {welch.difference, welch.half_width, welch.freedom, welch.p.value_or(NAN)};
  std::copy(std::begin(numbers), std::end(numbers), out);
}

/// right: [seeds][images] of the row, then of the baseline. out: estimate, standard error, seeds' and images' parts.
void twin_bootstrap(int seeds, int images, const std::uint8_t* right, const std::uint8_t* baseline, int resamples,
                    double* out) {
  const std::vector<Correctness> other =
      baseline == nullptr ? std::vector<Correctness>() : runs_of(seeds, images, baseline);
  const auto result = crossed_bootstrap(runs_of(seeds, images, right), other, resamples);
  const double numbers[] = {result->estimate, result->standard_error, result->seeds_error, result->images_error};
  std::copy(std::begin(numbers), std::end(numbers), out);
}
}
