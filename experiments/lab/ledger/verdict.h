// Verdicts on a claim, as functions of results.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/lab/descriptor/tested_claim.h"
#include "experiments/lab/statistics/student.h"
#include "experiments/lab/tables/table_model.h"

namespace normlab {

enum class Verdict : std::uint8_t { holds, fails, undecided, not_run, paper_scale };

/// "holds here", "fails here", "undecided", "not run", "needs ImageNet".
std::string_view words_of(Verdict verdict);

/// An estimate whose interval holds together with those of all other estimates of the claim.
struct Estimate {
  std::string label, unit;  // "dpn, patch_size 8"; "points", "%", "x" for a ratio, "" for other numbers
  double value = 0, low = 0, high = 0;
  std::size_t n = 0;  // seeds; for `diverged`, runs
  /// Of an undecided estimate: seeds that would decide it, if the estimate and its noise stayed.
  std::optional<std::size_t> seeds_needed{};
  Verdict verdict = Verdict::not_run;
  std::string why{};                // of a verdict that is not the interval's: "2 of 5 runs of dpn diverged"
  std::size_t test = 0;             // of the claim's tests, the one that it belongs to
  std::vector<std::size_t> rows{};  // of the plan, that it is about; without their baselines
  SeedValues values{};              // of each seed, of estimates that are means over seeds
  /// Because some runs do not count. The first reason is kept.
  void leave_undecided(std::string reason);
};

/// holds: the interval lies within the range; fails: it lies outside; otherwise undecided. Reversed by `outside`.
Verdict judge(const ClaimRange& range, double low, double high);

/// All must hold: fails, then not_run, then undecided take precedence over holds. With `any`, one suffices: holds, then
/// not_run, then undecided take precedence over fails. not_run for none.
Verdict combined(std::span<const Verdict> verdicts, bool any = false);

/// That of a claim: its tests' estimates combined, then its tests.
Verdict verdict_of(const TestedClaim& claim, std::span<const Estimate> estimates);

/// Sets the verdict and, if it is undecided, seeds_needed: the fewest seeds above `seeds` with which it would be
/// decided, if there are any below a million. `judged` is the verdict with a multiple of the seeds.
void judge_multiples(Estimate& e, std::size_t seeds, const std::function<Verdict(double times)>& judged);

/// The same for an interval of e.n seeds, which narrows with the root of their number.
void judge_interval(Estimate& e, const ClaimRange& range);

/// The values of one estimate by seed.
struct Contrast {
  std::string label, unit;
  std::vector<std::size_t> rows{};
  SeedValues values{};
  bool logs = false;  // the values are logarithms, and the estimate is their exponential
};

/// An estimate per contrast, a staged_interval() at the level that Bonferroni's rule gives each. Fewer than two seeds
/// give Verdict::not_run.
std::vector<Estimate> judge_contrasts(const std::vector<Contrast>& contrasts, const ClaimRange& range, double level,
                                      const std::set<std::uint64_t>& first_stage);

/// The interval of the values' mean, by Student's t. With a first stage (Stein), the noise is that of its seeds.
std::optional<Interval> staged_interval(const SeedValues& values, double level,
                                        const std::set<std::uint64_t>& first_stage);

/// Runs of these rows that diverged, and those that ended.
std::pair<std::int64_t, std::int64_t> diverged_runs(std::span<const TableLine* const> rows);
/// Leaves the estimate undecided if runs of these rows diverged.
void note_diverged_runs(Estimate& e, std::span<const TableLine* const> rows);

/// The rows of the plan whose runs a row of the table shows: its own, or those that it is the mean of.
std::vector<std::size_t> planned_rows(const TableInput& input, std::size_t row);

struct RowsJudged {
  std::set<std::size_t> rows;  // the rows that the estimates depend on, by position in the plan
  std::vector<Estimate> estimates;
};
/// For a test of kind gain, interaction, slope, contrast, diverged or best: its estimates at simultaneous `level`.
/// InputError, with the test's place, if a filter is wrong, selects no rows, or not as many as the kind needs.
RowsJudged judge_rows(const ClaimTest& test, const TableInput& input, double level);

/// The rows that `filter` selects. InputError, with `place`, if there are none.
std::vector<const TableLine*> selected_rows(const TableModel& model, const TableInput& input, const std::string& filter,
                                            const std::string& place);

}  // namespace normlab
