#include "experiments/lab/sweep/start_weights.h"

#include "core/error.h"
#include "experiments/lab/train/keep.h"

namespace normlab {

bool waits_for_start(const StartConfig& start, const ResultStore& store) {
  if (start.trial.empty()) return false;
  const std::optional<TrialResult> result = store.trial(start.trial).load_result();
  return !result || result->status == TrialEnd::failed;
}

std::filesystem::path start_weights(const StartConfig& start, const ResultStore& store) {
  if (start.trial.empty()) {
    if (!start.file.empty()) return start.file;
    throw InputError(concat("starts from a file of weights with the SHA-256 ", start.sha256,
                            ", whose name only its descriptor knows; give it with --start"));
  }
  const TrialFolder trial = store.trial(start.trial);
  const std::string name = concat("trial ", start.trial.substr(0, 12));
  if (waits_for_start(start, store))
    throw InputError(concat("starts from ", name, ", which has no result in ", store.out().string()));
  if (trial.load_result()->status == TrialEnd::diverged)
    throw InputError(concat("starts from ", name, ", which diverged, so there are no weights to start from"));
  try {
    return kept_weights(trial);
  } catch (const InputError& error) {
    throw InputError(concat("starts from ", name, ", whose weights are needed: ", error.what()));
  }
}

}  // namespace normlab
