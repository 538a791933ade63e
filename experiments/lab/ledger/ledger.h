// The ledger: what the results at hand say about a claim, and verdicts as functions of results.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/descriptor/tested_claim.h"
#include "experiments/lab/statistics/stein.h"
#include "experiments/lab/tables/table_model.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/store.h"

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

/// Error rate of a claim: the probability that any interval of its tests misses its estimate.
inline constexpr double kClaimLevel = 0.95;

/// The change of a gain with the length of training: its value in a training twice as long, minus that in the shorter.
struct Doubling {
  std::string label, from, to;  // of the gain; "20 epochs", "40 epochs"
  double value = 0, low = 0, high = 0, margin = 0;
  bool within = false;  // the interval lies within +-margin
};

/// Runs that a verdict needs, and where those that ended are from.
struct RunOrigins {
  std::size_t runs = 0, done = 0;               // needed, and ended (of a timing: repetitions)
  std::set<std::string> archives;               // files that hold the results
  std::map<std::string, std::size_t> machines;  // and the number of runs that each trained
  std::size_t uncommitted = 0;                  // runs of programs that were built from uncommitted sources
  std::set<std::string> copies;                 // jpeg_copy_of() the results

  /// Counts a run that is needed.
  void add(const TrialFolder& folder);
};

struct LedgerLine : RunOrigins {
  std::string number, name, command;  // "2"; "02-dual-patchnorm", the file's stem; what runs it
  std::string device;                 // of timings on a GPU, its name: "NVIDIA H200"
  TestedClaim claim;
  Verdict verdict = Verdict::not_run;
  std::vector<Estimate> estimates;  // of all tests
  /// The verdict of each length of training, if there are several: "4 epochs".
  std::vector<std::pair<std::string, Verdict>> by_length;
  std::vector<Doubling> doublings;  // of gains at their two longest lengths
  /// The longest trainings alone decide the claim as all do, all estimates are gains, and each has a doubling within
  /// its margin. Otherwise the verdict concerns the lengths of training that were run.
  bool ends = false;
  bool more_to_come = false;       // the results at hand lead to more runs
  std::string raised_seeds;        // a sentence, if seeds were added after results had been read
  std::set<std::string> problems;  // results that cannot be read, or lack what a test reads
};

/// Fills in `by_length`, `doublings` and `ends` from the estimates. The intervals of all doublings of a claim hold
/// together at kClaimLevel.
void judge_lengths(LedgerLine& line, const Experiment& experiment);

/// `experiment` has a claim. `timings` is a file with one line per repetition, a document of `bench --format json` or
/// {"runs": [...]} for several, all of one device, with the number of the "repetition"; it may be missing. InputError
/// with the test's place for wrong filters and metrics, and for timings that are damaged or lack a number.
LedgerLine judge_claim(const Experiment& experiment, const ResultStore& store, const std::filesystem::path& timings);

/// The number in a document of `bench --format json` that `name` selects: "train_ratio", in a list
/// "rows[shape=65x768, norm=dyt].train_ms", or a sum of such numbers: "2*rows[...].ms + 6*rows[...].ms". None if there
/// is none.
std::optional<double> timing_value(const nlohmann::json& document, const std::string& name);

/// Short names of a sweep's rows, "dpn, patch_size 4", by position in the plan. A name has the placement and the values that differ between rows, without those that
/// follow from others (the number of heads from the width). Of an object only its "name", "dialect" or "kind" is
/// shown, if that suffices to tell the rows apart.
std::vector<std::string> row_names(const Experiment& experiment);

/// What a claim's tests read.
struct ClaimResults {
  const Experiment& experiment;
  const ResultStore& store;
  std::vector<std::string> names;   // row_names()
  std::set<std::string>& problems;  // collects results that cannot be read, or lack what a test reads

  /// The table of a metric, with `names` as labels.
  TableInput table(const std::string& metric) const;
  /// The metrics of a finished trial by measured step; empty without any.
  std::vector<MetricsLine> curve(std::size_t trial) const;
};

/// For a test of kind difference, probe or trend: an estimate per selected row, at simultaneous `level`. InputError as
/// judge_rows().
RowsJudged judge_runs(const ClaimTest& test, const ClaimResults& results, double level);

}  // namespace normlab
