// Which of a trial's checkpoints are kept once it has a result, and which files may be deleted.
#pragma once

#include <filesystem>
#include <vector>

#include "experiments/lab/descriptor/config.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

struct Removal {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
};

/// Files that a done or diverged trial no longer needs under `keep`: checkpoints of attempts other than its result's;
/// its own checkpoint, unless kept (`weights` keeps its weights in a new, smaller file); temporary files of killed
/// processes. Never results, metrics, logs or configs. Empty for a trial without such a result, which resumes from its
/// checkpoint, and for one that a process works on.
std::vector<Removal> superfluous_files(const TrialFolder& trial, KeepCheckpoint keep);

/// The weights of the trial's result; without a result, the latest that are kept. InputError if there are none.
std::filesystem::path kept_weights(const TrialFolder& trial);

/// Files left in a folder by killed processes.
std::vector<Removal> temporary_files(const std::filesystem::path& folder);

/// Claims the trial and deletes the superfluous files, after writing the weights if they are kept and a note of the
/// deleted files that the result lists. Returns what was deleted, nothing if another process has the trial.
/// EnvironmentError names a file that cannot be written or deleted; InputError
/// a damaged checkpoint, which is then kept.
std::vector<Removal> apply_keep(const TrialFolder& trial, KeepCheckpoint keep);

/// Under `weights`, writes kWeightsFile beside the checkpoint of this attempt, or if it has none, of the last that has
/// one. Called by the process that holds the claim, before
/// it lists the attempt's files in the result.
void write_kept_weights(const TrialFolder& trial, KeepCheckpoint keep, std::int64_t attempt);
/// Deletes files as apply_keep(), called by the process that just published the result and still holds the claim.
void remove_superfluous_as_owner(const TrialFolder& trial, KeepCheckpoint keep);

}  // namespace normlab
