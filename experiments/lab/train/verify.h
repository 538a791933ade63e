// Repeats part of a trial and compares it with the trial's records.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "experiments/lab/train/trial.h"

namespace normlab {

struct VerifyOptions {
  std::int64_t steps = 50;           // number of steps to repeat
  std::optional<std::int64_t> from;  // step to start from, 0: initial values; none: the last with a record
  int threads = 1, ranks = 1;
  std::int64_t gpu_shards = 1;  // as in TrialOptions
  Backend* backend = &cpu_backend();
  bool allow_different_bits = false;
  std::function<std::filesystem::path()> start{};  // as in TrialOptions
  std::function<void(const TrialProgress&)> report = nullptr;
};

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

/// The first metric that differs in some bit, or that one side alone has; empty if none does. NaN equals NaN.
std::string first_difference(const std::map<std::string, double>& record, const std::map<std::string, double>& now);

}  // namespace normlab
