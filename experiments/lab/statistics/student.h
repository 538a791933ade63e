// Student's t: the interval of a mean, and the test for a small difference; and the correlation of ranks. Means, sds and half widths are in the unit
// of the values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "experiments/lab/statistics/distributions.h"

namespace normlab {

/// One value or more.
double mean(std::span<const double> values);

/// Square root of the sum of squares over n - 1. Two values or more.
double sample_sd(std::span<const double> values);

/// mean +- half_width of n values. One value has no interval.
struct Interval {
  double mean = 0;
  std::optional<double> half_width;
  std::size_t n = 0;
};

/// Student-t interval of the mean. None if there are no values.
std::optional<Interval> mean_interval(std::span<const double> values, double level = 0.95);

/// Where the mean of `further` more values is expected: m +- t(n - 1) s sqrt(1 / further + 1 / n). None if there are no
/// values.
std::optional<Interval> prediction_interval(std::span<const double> values, std::size_t further = 1,
                                            double level = 0.95);

/// Mean of `a` minus mean of `b`, two values or more each, as two independent samples: Welch, Biometrika 34 (1947). Both
/// sides without spread have no p.
struct WelchInterval {
  double difference = 0, half_width = 0, freedom = 0;
  std::optional<double> p;
};
WelchInterval welch_interval(std::span<const double> a, std::span<const double> b, double level = 0.95);

/// The values of a row's runs that ended with one, by seed.
using SeedValues = std::map<std::uint64_t, double>;

/// Two one-sided tests, Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987): the larger p value of "not
/// above -margin" and "not below +margin" for an estimate with its standard error > 0 on `freedom` > 0 degrees, such as a
/// Comparison of many_to_one.h. Below alpha exactly if the 1 - 2 alpha interval lies inside the margins > 0. The
/// statement concerns this row only.
double equivalence_p(double difference, double standard_error, double freedom, double margin);

/// The mean of paired differences over their sd (Cohen's d_z), times the factor that removes its bias in small samples,
/// in its exact form: gamma(m / 2) / (sqrt(m / 2) gamma((m - 1) / 2)) on m = n - 1 degrees, Hedges, Journal of Educational
/// Statistics 6 (1981). None for fewer than three differences, for which no factor does, and without spread.
std::optional<double> paired_effect_size(std::span<const double> differences);

/// Spearman's rank correlation, from -1 to 1; equal values share the mean of their ranks. NaN if fewer than two pairs
/// are given or if all values of a side are equal. Both sides have the same size.
double spearman(std::span<const double> x, std::span<const double> y);

/// How far two sets of runs of the same rows order these rows alike: Spearman's correlation of a run's values over the
/// rows in `a` with those of a run of another seed in `b`, on average over all pairs of seeds. With b = a it is how far
/// the noise of seeds leaves the order of `a` alone, and bounds the agreement with others. The interval is for new seeds
/// of these rows: the jackknife over seeds, Tukey 1958, with Student's t. Uses the seeds that all rows of both have; none
/// without two seeds or three rows, or if a run has equal values in all rows.
std::optional<Interval> order_agreement(std::span<const SeedValues> a, std::span<const SeedValues> b,
                                        double level = 0.95);

}  // namespace normlab
