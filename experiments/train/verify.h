// Runs a part of a trial again and compares it with what the trial has on record.
#pragma once

#include <optional>

#include "experiments/train/trial.h"

namespace normlab {

struct VerifyOptions {
  std::int64_t steps = 50;           // that are run again
  std::optional<std::int64_t> from;  // the checkpoint to start from, 0 for the initial values; none: the last that can
                                     // be compared with anything
  int threads = 1;
  Backend* backend = &cpu_backend();
  bool allow_different_bits = false;
};

struct VerifyReport {
  std::int64_t from = 0, to = 0;          // steps
  std::string start;                      // "the initial values of seed 0", "the checkpoint of attempt 2"
  std::int64_t states = 0;                // hashes of whole states that are equal
  std::size_t tensors = 0;                // in each
  std::int64_t metrics = 0;               // lines of metrics.jsonl that are equal
  bool result = false;                    // the end was reached, and the result's metrics are equal
  std::optional<std::string> difference;  // the first in order of steps: "step 50: tensor head.bias"
};

/// In the order in which it happens: takes a checkpoint of the trial (or its initial values, and then a checkpoint of
/// its own on the way), trains in a scratch folder below the system's temporary one, and compares hashes of parameters,
/// moments, buffers and averages, lines of metrics, and the result where it gets so far. Nothing of the trial is
/// changed, and it may be running. InputError: no checkpoint at `from`, nothing on record within `steps` (and what
/// there is), another program's bits unless allowed, other data.
VerifyReport verify_trial(const TrialConfig& config, const TrialFolder& trial, const DataPair& data,
                          const VerifyOptions& options);

}  // namespace normlab
