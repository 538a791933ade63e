// The ledger: what the results at hand say about a claim.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/ledger/verdict.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

/// Error rate of a claim: the probability that any interval of its tests misses its estimate.
inline constexpr double kClaimLevel = 0.95;

/// The change of a gain with the length of training: its value in a training twice as long, minus that in the shorter.
struct Doubling {
  std::string label, from, to;  // of the gain; "20 epochs", "40 epochs"
  double value = 0, low = 0, high = 0, margin = 0;
  bool within = false;  // the interval lies within +-margin
};

struct LedgerLine {
  std::string number, name, command;  // "2"; "02-dual-patchnorm", the file's stem; what runs it
  std::string device;                 // of timings on a GPU, its name: "NVIDIA H200"
  TestedClaim claim;
  Verdict verdict = Verdict::not_run;
  std::vector<Estimate> estimates;  // of all tests
  std::size_t runs = 0, done = 0;   // that the tests need, and that ended (of a timing: repetitions)
  /// The verdict of each length of training, if there are several: "4 epochs".
  std::vector<std::pair<std::string, Verdict>> by_length;
  std::vector<Doubling> doublings;  // of gains at their two longest lengths
  /// The longest trainings alone decide the claim as all do, all estimates are gains, and each has a doubling within
  /// its margin. Otherwise the verdict concerns the lengths of training that were run.
  bool ends = false;
  std::set<std::string> archives;               // files that hold the results
  std::map<std::string, std::size_t> machines;  // and the number of runs that each trained
  std::size_t uncommitted = 0;                  // runs of programs that were built from uncommitted sources
  std::set<std::string> copies;                 // jpeg_copy_of() the results
  bool more_to_come = false;                    // the results at hand lead to more runs
  std::string raised_seeds;                     // a sentence, if seeds were added after results had been read
  std::set<std::string> problems;               // results that cannot be read, or lack what a test reads
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

}  // namespace normlab
