// Training a trial on several ranks: what they must agree on, and forking them.
#pragma once

#include "experiments/lab/train/trial.h"

namespace normlab {

/// InputError, the same in all ranks, unless `here`, the value of `what`, is that of rank 0 everywhere.
void require_equal(Ranks& ranks, const std::string& what, const std::string& here);

/// InputError if a trial cannot be divided among `ranks`; the message begins with `option`. `gpu_shards`: 0 on CPUs.
void require_ranks(int ranks, const std::string& option, const TrialConfig& config, std::int64_t gpu_shards);

/// run_trial() on `ranks` forked processes of this machine. InputError for a trial that cannot be divided among them.
TrialOutcome run_trial_on(int ranks, const TrialConfig& config, const std::string& id, const DataPair& data,
                          const TrialFolder& folder, const Claim& claim, const TrialOptions& options);

}  // namespace normlab
