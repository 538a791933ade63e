// What stays of a trial's checkpoints once it has a result, and what may be deleted.
#pragma once

#include <filesystem>
#include <vector>

#include "experiments/descriptor/config.h"
#include "experiments/results/store.h"

namespace normlab {

struct Removal {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
};

/// Files that a trial with a result (done or diverged) no longer needs under `keep`: checkpoints of former attempts;
/// the last one too unless it is kept (its weights, under `weights`, are a new, smaller file); temporary files of
/// killed writers. Never a result, metrics, a log, a configuration. Nothing for a trial without such a result, which
/// resumes from its checkpoint, and for one that a process works on.
std::vector<Removal> superfluous_files(const TrialFolder& trial, KeepCheckpoint keep);

/// What killed writers have left in a folder.
std::vector<Removal> temporary_files(const std::filesystem::path& folder);

/// Deletes them, after the weights were written where they are kept, and a note of those that the result lists. Gives
/// what was deleted. EnvironmentError names the file that cannot be written or deleted; InputError a checkpoint that is
/// damaged, which then stays.
std::vector<Removal> apply_keep(const TrialFolder& trial, KeepCheckpoint keep);

/// Under `weights`, writes kWeightsFile beside the last checkpoint. By the process that holds the claim, before it
/// lists the attempt's files in the result.
void write_kept_weights(const TrialFolder& trial, KeepCheckpoint keep);
/// Deletes as apply_keep(), by the process that has just published the result and still holds the claim.
void remove_superfluous_as_owner(const TrialFolder& trial, KeepCheckpoint keep);

}  // namespace normlab
