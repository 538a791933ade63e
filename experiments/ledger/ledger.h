// The ledger: what the results at hand say about a claim.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "experiments/descriptor/experiment.h"
#include "experiments/ledger/verdict.h"
#include "experiments/results/metrics_log.h"
#include "experiments/results/store.h"

namespace normlab {

/// Error rate of a claim: the probability that any interval of its tests misses its estimate.
inline constexpr double kClaimLevel = 0.95;

struct LedgerLine {
  std::string number, name, command;  // "2"; "02-dual-patchnorm", the file's stem; what runs it
  std::string device;                 // of timings on a GPU, its name: "NVIDIA H200"
  TestedClaim claim;
  Verdict verdict = Verdict::not_run;
  std::vector<Estimate> estimates;  // of all tests
  std::size_t runs = 0, done = 0;   // that the tests need, and that ended (of a timing: repetitions)
  /// Rows that had not finished learning: the verdict concerns this length of training, not where training ends.
  std::vector<std::string> learning;
  bool curves = true;              // whether losses by step are there, to judge `learning`
  std::set<std::string> copies;    // jpeg_copy_of() the results
  bool more_to_come = false;       // the results at hand lead to more runs
  std::string raised_seeds;        // a sentence, if seeds were added after results had been read
  std::set<std::string> problems;  // results that cannot be read, or lack what a test reads
};

/// Whether the mean training loss over the last tenth of the steps is less than 5% below that over the tenth before.
/// None if a tenth has no loss.
std::optional<bool> finished_learning(const std::vector<MetricsLine>& curve);

/// `experiment` has a claim. `timings` is a file with one line per repetition, a document of `bench --format json` or
/// {"runs": [...]} for several, all of one device, with the number of the "repetition"; it may be missing. InputError
/// with the test's place for wrong filters and metrics, and for timings that are damaged or lack a number.
LedgerLine judge_claim(const Experiment& experiment, const ResultStore& store, const std::filesystem::path& timings);

/// The number in a document of `bench --format json` that `name` selects: "train_ratio", or in a list
/// "rows[shape=65x768, norm=dyt].train_ms". None if there is none.
std::optional<double> timing_value(const nlohmann::json& document, const std::string& name);

}  // namespace normlab
