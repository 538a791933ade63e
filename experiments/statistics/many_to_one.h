// The gains of a strip: several rows against one baseline. `level` is the probability that all intervals hold together.
//
// Interval and mark come from one procedure: a row differs from the baseline exactly if its interval excludes 0.
//
// Pooled: Dunnett, JASA 50 (1955). A gain is the mean of row - baseline over the seeds that both have. The noise is
// estimated from all rows and the baseline together, as the residual after an effect of each row and each seed
// (design `blocks`; least squares if runs are missing), or of each row only (`independent`). The critical value is
// that of the largest of the k gains, given their correlations. These are 1/2 each if no run is missing, and
// otherwise the closest that one common factor gives (joint_t.h; with a quarter of the runs missing, the level is off
// by less than 0.0005). If runs are missing, a gain is not the least squares estimate; the interval is then slightly
// too wide, never too narrow.
//
// Holm: for a strip in which the spread of a row differs or runs diverged. Each row has its own paired t test with
// n - 1 degrees of freedom (Welch's for `independent`), with Holm's adjustment. The intervals are Bonferroni's,
// t(1 - alpha / 2k). If a later step of Holm's procedure rejects although that interval contains 0, the interval
// ends at 0, as in Strassburger and Bretz, Statistics in Medicine 27 (2008). The probability that any mark is wrong
// is at most alpha, and so is that of any interval before cutting; for marks and cut intervals together the bound
// is twice that.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "experiments/statistics/joint_t.h"
#include "experiments/statistics/student.h"

namespace normlab {

enum class Design : std::uint8_t { blocks, independent };
enum class Procedure : std::uint8_t { pooled, holm };

struct StripRow {
  SeedValues values{};                  // of the runs that ended with a value
  bool diverged = false;                // some run diverged, whether or not it has a stand-in value
  std::set<std::uint64_t> stand_ins{};  // seeds with a stand-in value, which is not used for the noise
};

struct Strip {
  StripRow baseline{};
  std::vector<StripRow> rows{};  // without the baseline
};

struct ManyToOneOptions {
  double level = 0.95;
  Design design = Design::blocks;
  /// Spreads are considered different if a row (or the baseline) is more than this many times as noisy as the others
  /// together AND more than equal spreads would give in one of a hundred strips.
  double spread_ratio = 2;
  /// Number of rows over which `level` holds, in this and other strips. Each strip gets level^(rows / family_rows), so
  /// the intervals of all strips hold together with `level` (exactly for independent strips, at least for positively
  /// dependent ones). 0: only this strip.
  std::size_t family_rows = 0;
  /// Two-stage seeds (Stein): noise, degrees of freedom, procedure and critical value are computed from the runs of
  /// these seeds only, the gains from all. Empty: one stage.
  std::set<std::uint64_t> first_stage{};
  std::optional<Procedure> procedure{};  // none: chosen by the runs
  bool p_values = true;                  // they take most of the time
};

/// The gain of a row. Only `pairs` is set if row and baseline share no seed.
struct Comparison {
  std::size_t pairs = 0;                 // shared seeds; independent: runs of the row
  std::optional<double> gain;            // mean of row - baseline
  std::optional<double> standard_error;  // of the gain; none if the noise cannot be estimated
  double freedom = 0;                    // degrees of freedom of the standard error
  double sd = 0;                         // of the row's own paired differences (of the first stage if there are two)
  std::optional<double> low, high;       // simultaneous interval: gain -+ half_width, or ended at 0 if cut
  std::optional<double> half_width;      // of the uncut interval
  bool cut = false;                      // holm: the interval ends at 0, see above
  bool differs = false;                  // the interval excludes 0
  std::optional<double> p;               // adjusted for the family; below 1 - level exactly if it differs
};

struct ManyToOne {
  Procedure procedure = Procedure::pooled;
  Design design = Design::blocks;
  bool two_stage = false;
  bool diverged = false;                  // runs diverged, hence holm
  std::optional<double> spread;           // of the most deviating row over that of the others; none if unknown
  std::optional<std::size_t> spread_row;  // that row; none, while `spread` is set: the baseline
  double spread_limit = 0;                // threshold for the spread, above which holm is used
  std::vector<Comparison> rows;           // in the order of Strip::rows
  std::size_t compared = 0;               // rows with an interval: the k of the procedure
  double level = 0;                       // of this strip: options.level unless the family is larger
  // The noise of all rows together, given for both procedures if it can be estimated. Stand-in values are excluded.
  double residual_sd = 0;  // of one run; the sd of a paired difference is sqrt(2) times this
  double freedom = 0;      // its degrees of freedom; 0: the noise cannot be estimated
  double critical = 0;     // pooled: half_width / standard_error. holm: 0
  // For common_draw_correlation(): mean squares within rows, and their residual after an effect of each seed.
  double within_square = 0, within_freedom = 0, left_square = 0, left_freedom = 0;
  SharedNoise noise;  // of the compared rows, in order (count 1 each)
};

/// Rows that share no seed with the baseline, a single seed and values without spread are allowed: they get no
/// interval. InputError for a value that is not finite, for a level outside (0, 1) and for family_rows below the
/// number of rows.
ManyToOne many_to_one(const Strip& strip, const ManyToOneOptions& options = {});

/// The expected largest gain among all compared rows of these strips if no row truly differs: E max over the gains with
/// their standard errors and correlations (holm: each row's own error, correlation as for pooled). None if no row has a
/// standard error; 0 for one row.
std::optional<double> best_gain_by_chance(std::span<const ManyToOne> strips);

/// The smallest true gain that a row with `seeds` seeds detects with this power, under the strip's procedure, rows and
/// level. low and high reflect the uncertainty of the noise (sd_range() at 95%). pooled: blocks design, k (seeds - 1)
/// degrees of freedom. holm: the first step, t(1 - alpha / 2k) with seeds - 1 degrees, and the pooled sd of
/// differences. None if the noise cannot be estimated or for fewer than 2 seeds (1 for a strip with two stages).
struct DetectableGain {
  double gain = 0, low = 0, high = 0;
};
std::optional<DetectableGain> detectable_gain(const ManyToOne& strip, std::size_t seeds, double power = 0.8);

/// The number of seeds with which a row detects a true gain > 0 with this power, under the same procedure, and the
/// numbers for both ends of the noise's range. A number above `most` is returned as most + 1.
struct SeedsNeeded {
  std::size_t seeds = 0, low = 0, high = 0;
};
std::optional<SeedsNeeded> seeds_needed(const ManyToOne& strip, double gain, double power = 0.8,
                                        std::size_t most = 10'000);

/// Correlation between two rows' runs of one seed that the common random draws achieved, pooled over all rows and
/// strips: 1 - (mean square after row and seed) / (mean square within rows). This is the intraclass correlation
/// ICC(3,1) of Shrout and Fleiss, Psychological Bulletin 86 (1979). Negative values are possible; values below -1, from
/// a few runs with gaps, are set to -1. None if it cannot be estimated.
std::optional<double> common_draw_correlation(std::span<const ManyToOne> strips);

/// Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979).
/// Adjusted p values in the order of `p`: the i-th smallest (from 0) times (m - i), made monotone, at most 1. A
/// hypothesis is rejected with family-wise error alpha if its adjusted value is below alpha.
std::vector<double> holm_adjusted(std::span<const double> p);

}  // namespace normlab
