// The gains of a strip: several rows against one baseline, all intervals true together with one probability.
//
// One procedure gives interval and mark: a row differs from the baseline just where its interval leaves out 0.
//
// Pooled: Dunnett, JASA 50 (1955). A gain is the mean of row - baseline over the seeds that both have. The noise comes
// from all rows and the baseline together: what is left after an effect of each row and each seed (design `blocks`;
// least squares where runs are missing) or of each row alone (`independent`). The critical value is that of the largest
// of the k gains with their correlations: 1/2 each where no run is missing, else the nearest that one common factor
// gives (joint_t.h; with a quarter of the runs missing the level is off by less than 0.0005). Where runs are missing a
// gain is not the least squares estimate; that makes the interval a little too wide, never too narrow.
//
// Holm: for a strip in which the spread of a row differs or runs diverged. A paired t test of each row by itself on
// n - 1 degrees (Welch's for `independent`) with Holm's adjustment. Its intervals are Bonferroni's, t(1 - alpha / 2k);
// where a later step of Holm's rejects though that interval holds 0, the interval ends at 0, as in Strassburger and
// Bretz, Statistics in Medicine 27 (2008). A mark is wrong somewhere with probability alpha at most, and so is an
// interval before it was cut; for marks and cut intervals together the bound is twice that.
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
  bool diverged = false;                // some run of it diverged (whether or not a value stands in for it)
  std::set<std::uint64_t> stand_ins{};  // seeds whose value stands in for a run's: they tell nothing of the noise
};

struct Strip {
  StripRow baseline{};
  std::vector<StripRow> rows{};  // without the baseline
};

struct ManyToOneOptions {
  double level = 0.95;
  Design design = Design::blocks;
  /// Spreads are taken to differ where a row (or the baseline) is more than this many times as noisy as the others
  /// together AND more than equal spreads would give in one of a hundred strips.
  double spread_ratio = 2;
  /// Rows over which `level` holds, these and those of other strips: each strip gets level^(rows / family_rows), and
  /// the intervals of all strips are true together with `level` (exactly for independent strips, at least for
  /// positively dependent ones). 0: this strip alone.
  std::size_t family_rows = 0;
  /// Two-stage seeds: noise, degrees of freedom, procedure and critical value come from the runs of these seeds alone,
  /// the gains from all (Stein). Empty: one stage.
  std::set<std::uint64_t> first_stage{};
  std::optional<Procedure> procedure{};  // none: as the runs ask for
  bool p_values = true;                  // they cost most of the time
};

/// The gain of a row. Nothing is set but pairs where row and baseline share no seed.
struct Comparison {
  std::size_t pairs = 0;                 // seeds that both have; independent: runs of the row
  std::optional<double> gain;            // mean of row - baseline
  std::optional<double> standard_error;  // of the gain; none where nothing tells the noise
  double freedom = 0;                    // degrees of the standard error
  double sd = 0;                         // of the row's own paired differences (of the first stage where there are two)
  std::optional<double> low, high;       // simultaneous interval: gain -+ half_width, ended at 0 where it is cut
  std::optional<double> half_width;      // of the uncut interval
  bool cut = false;                      // holm: ends at 0, see above
  bool differs = false;                  // the interval leaves out 0
  std::optional<double> p;               // adjusted for the family: below 1 - level just where it differs
};

struct ManyToOne {
  Procedure procedure = Procedure::pooled;
  Design design = Design::blocks;
  bool two_stage = false;
  bool diverged = false;  // runs diverged: why holm
  std::optional<double>
      spread;  // of the row that stands out most, over that of the others; none if that cannot be told
  std::optional<std::size_t> spread_row;  // that row; none with a spread: the baseline
  double spread_limit = 0;                // what the spread was compared with: above it is holm
  std::vector<Comparison> rows;           // in the order of Strip::rows
  std::size_t compared = 0;               // rows with an interval: the k of the procedure
  double level = 0;                       // of this strip: options.level unless the family is wider
  // The noise from all rows together, told under both procedures where it can be. No value that stands in is among it.
  double residual_sd = 0;  // of one run; the sd of a paired difference is sqrt(2) times it
  double freedom = 0;      // its degrees; 0: nothing tells the noise
  double critical = 0;     // pooled: half_width / standard_error. holm: 0
  // For common_draw_correlation(): mean squares within rows, and what is left of them after an effect of each seed.
  double within_square = 0, within_freedom = 0, left_square = 0, left_freedom = 0;
  SharedNoise noise;  // of the compared rows, in their order (count 1 each)
};

/// Rows that share no seed with the baseline, a single seed and values without any spread are fine: they have no
/// interval. InputError for a value that is not finite, for a level outside (0, 1) and for family_rows below the rows.
ManyToOne many_to_one(const Strip& strip, const ManyToOneOptions& options = {});

/// The largest gain expected among all compared rows of these strips if no row truly differed: E max over the gains
/// with their standard errors and correlations (holm: each row's own error, correlation as for pooled). None where no
/// row has a standard error; 0 for one row.
std::optional<double> best_gain_by_chance(std::span<const ManyToOne> strips);

/// The smallest true gain that a row with `seeds` seeds shows with this power under the procedure of the strip, its
/// rows and its level, and the range of it that the uncertainty of the noise leaves (sd_range at 95%). pooled: blocks
/// design, k (seeds - 1) degrees. holm: the first step, t(1 - alpha / 2k) on seeds - 1 degrees, with the pooled sd of
/// differences. None where nothing tells the noise or for fewer than 2 seeds (1 for a strip with two stages).
struct DetectableGain {
  double gain = 0, low = 0, high = 0;
};
std::optional<DetectableGain> detectable_gain(const ManyToOne& strip, std::size_t seeds, double power = 0.8);

/// The seeds a row needs to show a true gain > 0 with this power under the same procedure, and the numbers at both ends
/// of the range of the noise. A number above `most` is given as most + 1.
struct SeedsNeeded {
  std::size_t seeds = 0, low = 0, high = 0;
};
std::optional<SeedsNeeded> seeds_needed(const ManyToOne& strip, double gain, double power = 0.8,
                                        std::size_t most = 10'000);

/// Correlation of two rows' runs of one seed that the common draws reached, pooled over all rows and strips: 1 - (mean
/// square after row and seed) / (mean square within rows), the intraclass correlation of Shrout and Fleiss,
/// Psychological Bulletin 86 (1979), ICC(3,1). Negative values are possible, but none below
/// -1, to which a few runs with gaps between them are cut. None where nothing tells it.
std::optional<double> common_draw_correlation(std::span<const ManyToOne> strips);

/// Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979).
/// Adjusted p values in the order of `p`: the i-th smallest (from 0) times (m - i), made rising, at most 1. A
/// hypothesis is rejected with family-wise error alpha where its adjusted value is below alpha.
std::vector<double> holm_adjusted(std::span<const double> p);

}  // namespace normlab
