// Repeats part of a trial, or a whole one, and compares it with its records.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "experiments/lab/train/trial.h"
#include "experiments/lab/trials/exported.h"
#include "experiments/lab/trials/metrics_log.h"

namespace normlab {

/// The options of the training that repeats, and:
struct VerifyOptions : TrialOptions {
  std::int64_t steps = 50;           // number of steps to repeat
  std::optional<std::int64_t> from;  // step to start from, 0: initial values; none: the last with a record
};

/// Trains the trial in an own folder of results, which must be empty or hold its checkpoint, without checkpoints on the
/// way. Nothing happens if it has finished there. EnvironmentError if another process uses the folder.
void train_in_scratch(const TrialConfig& config, const TrialFolder& folder, const DataPair& data, TrialOptions options);

struct VerifyReport {
  std::int64_t from = 0, to = 0;          // steps; `to` is the last that was trained now, `from` if none was
  std::string start;                      // "the initial values of seed 0", "the checkpoint of attempt 2"
  std::int64_t states = 0;                // equal hashes of whole states
  std::size_t tensors = 0;                // per state
  std::int64_t metrics = 0;               // equal lines of metrics.jsonl
  bool result = false;                    // the end was reached, and the result's metrics are equal
  bool older = false;                     // without the losses that the older version of the record measured otherwise
  std::optional<std::string> difference;  // the first by step: "step 50: tensor head.bias"
};

/// Trains from a checkpoint of the trial in a scratch folder below the system's temporary folder. From the initial
/// values, it also saves and resumes a checkpoint on the way. Compares hashes of parameters, moments, buffers and
/// averages, lines of metrics, and the result if it gets that far. The trial is not changed, and may be running.
/// InputError if there is no checkpoint at `from`; if nothing is recorded within `steps` (the message says what is);
/// for another program's bits, unless allowed; for other data; and for metrics that are missing or damaged, unless they
/// were left out of an archive.
VerifyReport verify_trial(const TrialConfig& config, const TrialFolder& trial, const DataPair& data,
                          const VerifyOptions& options);

/// Lines of training steps, by step; lines of probes depend on the descriptor that requested them.
std::map<std::int64_t, MetricsLine> of_training(const std::vector<MetricsLine>& lines);

/// The first metric that differs in some bit, or that one side alone has; empty if none does. NaN equals NaN.
std::string first_difference(const std::map<std::string, double>& record, const std::map<std::string, double>& now);

// Of a trial of an archive, from its first step to its end:

/// Where a result of the row is expected: m ± t(n - 1) s sqrt(1 + 1/n), the 95% prediction interval of the row's n
/// archived seeds.
struct ExpectedResult {
  double mean = 0;
  std::optional<double> half_width;  // none: fewer than two archived seeds ended with a value
  std::size_t seeds = 0;             // that ended with a value
  std::size_t diverged = 0;
};

struct ArchivedReport {
  std::string metric;                 // the task's result, such as eval/accuracy
  std::optional<double> there, here;  // none: diverged
  std::string end_there, end_here;    // "done", "diverged at step 50"
  /// What differs between the two programs and machines: "blas_core: Cooperlake in the archive, SkylakeX here". Empty
  /// if both must give the same bits.
  std::vector<std::string> differences;
  /// Without differences: what was compared in every bit, and the first difference in it.
  std::size_t lines = 0;       // of the curve; 0 for an archive without curves
  bool images = false;         // which images are answered correctly
  std::string bit_difference;  // "" if there is none
  ExpectedResult expected;     // with differences

  bool same_program() const { return differences.empty(); }
  /// Whether `here` lies within the expected interval; none if that cannot be said.
  std::optional<bool> within() const;
};

/// `archive` holds the trial with this id. Trains in a scratch folder below the system's temporary folder.
/// InputError for a trial that failed, for other data, and for weights to start from that are not given
/// (TrialOptions::start).
ArchivedReport verify_archived(const ExportedResults& archive, const std::string& id, const DataPair& data,
                               const TrialOptions& options);

}  // namespace normlab
