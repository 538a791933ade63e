// The gains of a strip: several rows against one baseline, paired by seed. `level` is the probability that all
// intervals hold together.
//
// A gain is the mean of row - baseline over the seeds that both have. Its noise is the variance of these differences,
// moderated by those of the strip's other rows (moderated()), so that a noisy row keeps a wide interval and a
// quiet one a narrow one. A row that stands apart has its own paired t interval, and the others do not borrow from it.
//
// The intervals are Bonferroni's, t(1 - alpha / 2k). Marks follow Holm's procedure: if a later step of it rejects
// although that interval contains 0, the interval ends at 0, as in Strassburger and Bretz, Statistics in Medicine 27
// (2008). So a row differs from the baseline exactly if its interval excludes 0. The probability that any mark is wrong
// is at most alpha, and so is that of any interval before cutting; for marks and cut intervals together the bound is
// twice that. How far this holds where spreads differ: `normlab bench intervals`.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "experiments/lab/statistics/student.h"

namespace normlab {

struct StripRow {
  SeedValues values{};                  // of the runs that ended with a value
  std::set<std::uint64_t> stand_ins{};  // seeds with a stand-in value
  bool apart = false;                   // runs diverged, or it is declared to be noisier; a baseline's holds for all
};

struct Strip {
  StripRow baseline{};
  std::vector<StripRow> rows{};  // without the baseline
};

struct ManyToOneOptions {
  double level = 0.95;
  /// Number of rows over which `level` holds, in this and other strips. Each strip gets level^(rows / family_rows), so
  /// the intervals of all strips hold together with `level` (exactly for independent strips, at least for positively
  /// dependent ones). 0: only this strip.
  std::size_t family_rows = 0;
  /// Two-stage seeds (Stein): noise and degrees of freedom are computed from the runs of these seeds only, the gains
  /// from all. Empty: one stage.
  std::set<std::uint64_t> first_stage{};
};

/// The gain of a row. Only `pairs` is set if row and baseline share no seed.
struct Comparison {
  std::size_t pairs = 0;                 // shared seeds
  std::optional<double> gain;            // mean of row - baseline
  std::optional<double> standard_error;  // of the gain; none if the noise cannot be estimated
  double freedom = 0;                    // degrees of freedom of the standard error
  std::optional<double> low, high;       // simultaneous interval: gain -+ half_width, or ended at 0 if cut
  std::optional<double> half_width;      // of the uncut interval
  bool apart = false;                    // the noise is that of the row alone, by StripRow::apart
  bool cut = false;                      // the interval ends at 0, see above
  bool differs = false;                  // the interval excludes 0
  std::optional<double> p;               // adjusted for the family; below 1 - level exactly if it differs
};

struct ManyToOne {
  bool two_stage = false;
  std::vector<Comparison> rows;  // in the order of Strip::rows
  std::size_t compared = 0;      // rows with an interval: the k of the procedure
  double level = 0;              // of this strip: options.level unless the family is larger
  /// The sd of a paired difference in a typical row, and the degrees of freedom of such a row's interval; 0 if no noise
  /// can be estimated. `borrowing`: how many of them it has for each of its own.
  double sd = 0, freedom = 0, borrowing = 1;
  // For common_draw_correlation(): sums of squares within rows, and after an effect of each seed, over the rows that
  // have all seeds of the baseline.
  double within_square = 0, within_freedom = 0, left_square = 0, left_freedom = 0;
};

/// Rows that share no seed with the baseline, a single seed and values without spread are allowed: they get no
/// interval. InputError for a value that is not finite, for a level outside (0, 1) and for family_rows below the
/// number of rows.
ManyToOne many_to_one(const Strip& strip, const ManyToOneOptions& options = {});

/// Two rows of a strip: `difference` is that of rows[b] minus rows[a], a < b.
struct RowPair {
  std::size_t a = 0, b = 0;
  Comparison difference{};
};

struct AllPairs {
  std::vector<RowPair> pairs;  // all of them, ordered by b, then a
  std::size_t compared = 0;    // pairs with an interval
};

/// Every two rows, each pair as many_to_one() compares a row with its baseline: intervals are Bonferroni's and marks
/// Holm's over all pairs, so they assume no equal spreads, as Tukey's would. The pairs of k rows have k - 1 independent
/// differences, so a pair borrows at most half of the freedom that k - 2 of them have. `family_rows` counts pairs.
/// `normlab bench intervals --pairs` simulates how often all intervals hold.
AllPairs all_pairs(std::span<const StripRow> rows, const ManyToOneOptions& options = {});

/// A variance with the degrees of freedom of its estimate, in the squared unit of the values. Variances borrow from each
/// other: Smyth, "Linear models and empirical Bayes methods for assessing differential expression in microarray
/// experiments", Statistical Applications in Genetics and Molecular Biology 3 (2004).
struct Variance {
  double value = 0, freedom = 0;
};

/// The distribution from which the true variances of several rows are drawn: value * freedom / chi-square(freedom),
/// estimated from the mean and spread of log variances (Smyth's method; limma's fitFDist). Infinite freedom: the
/// variances spread no more than chance makes them, and `value` is their mean. Freedom 0 for fewer than two. All
/// variances and freedoms > 0.
Variance prior_variance(std::span<const Variance> rows);

/// The row's variance, drawn towards the prior's as far as degrees of freedom weigh: (d0 s0^2 + d v) / (d0 + d) on
/// d0 + d degrees. With few rows d0 is uncertain, so a row borrows the smallest of half of the prior's degrees, four
/// times its own, and half of what the `rows` - 1 others have. A row with a variance that so many degrees exceed in
/// fewer than one of ten cases borrows proportionally less, in the spirit of Phipson et al., Annals of Applied
/// Statistics 10 (2016). `normlab bench intervals` simulates what follows from these numbers.
Variance moderated(const Variance& row, const Variance& prior, std::size_t rows);

/// Expected value of the largest gain if all true gains are 0. Each group holds the standard errors > 0 of rows that
/// share a baseline, whose gains correlate by 1/2; the groups are independent of each other. By quadrature, with an
/// error below 1e-8 of the largest standard error. 0 for one row or none.
double expected_best(const std::vector<std::vector<double>>& groups);

/// The expected largest gain among all compared rows of these strips if no row truly differs, from their standard
/// errors and for gains that correlate by 1/2 within a strip. None if no row has a standard error; 0 for one row.
std::optional<double> best_gain_by_chance(std::span<const ManyToOne> strips);

/// The smallest true gain that a typical row with `seeds` seeds detects with this power, by the first step of Holm's
/// procedure at the strip's rows and level. low and high reflect the uncertainty of the noise (sd_range() at 95%). None
/// if the noise cannot be estimated or for fewer than 2 seeds (1 for a strip with two stages).
struct DetectableGain {
  double gain = 0, low = 0, high = 0;
};
std::optional<DetectableGain> detectable_gain(const ManyToOne& strip, std::size_t seeds, double power = 0.8);

/// The number of seeds with which a typical row detects a true gain > 0 with this power, and the numbers for both ends
/// of the noise's range. A number above `most` is returned as most + 1.
struct SeedsNeeded {
  std::size_t seeds = 0, low = 0, high = 0;
};
std::optional<SeedsNeeded> seeds_needed(const ManyToOne& strip, double gain, double power = 0.8,
                                        std::size_t most = 10'000);

/// Correlation between two rows' runs of one seed that the common random draws achieved, pooled over all rows and
/// strips: 1 - (mean square after row and seed) / (mean square within rows). This is the intraclass correlation
/// ICC(3,1) of Shrout and Fleiss, Psychological Bulletin 86 (1979). None if it cannot be estimated.
std::optional<double> common_draw_correlation(std::span<const ManyToOne> strips);

/// Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979).
/// Adjusted p values in the order of `p`: the i-th smallest (from 0) times (m - i), made monotone, at most 1. A
/// hypothesis is rejected with family-wise error alpha if its adjusted value is below alpha.
std::vector<double> holm_adjusted(std::span<const double> p);

}  // namespace normlab
