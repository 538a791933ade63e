#include "experiments/lab/train/keep.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

void add(std::vector<Removal>& removals, const fs::path& path) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(path, error);
  if (!error) removals.push_back({path, bytes});
}

/// The attempt whose checkpoint is kept: the result's, or without one there, the last that has one.
std::optional<std::int64_t> kept_attempt(const TrialFolder& trial, std::int64_t of_result) {
  if (fs::exists(trial.checkpoint(of_result))) return of_result;
  const std::vector<std::int64_t> attempts = attempts_in(trial.path());
  const auto last = std::find_if(attempts.rbegin(), attempts.rend(),
                                 [&](std::int64_t attempt) { return fs::exists(trial.checkpoint(attempt)); });
  return last == attempts.rend() ? std::nullopt : std::optional(*last);
}

std::vector<Removal> files_of(const TrialFolder& trial, KeepCheckpoint keep) {
  std::vector<Removal> removals = temporary_files(trial.path());
  const std::optional<TrialResult> result = trial.load_result();
  const std::optional<std::int64_t> kept = kept_attempt(trial, result ? result_attempt(trial, *result) : 0);
  for (const std::int64_t attempt : attempts_in(trial.path())) {
    const fs::path folder = attempt_folder(trial.path(), attempt);
    for (Removal& file : temporary_files(folder)) removals.push_back(std::move(file));
    if (keep != KeepCheckpoint::last || attempt != kept) add(removals, trial.checkpoint(attempt));
    if (keep == KeepCheckpoint::none) add(removals, folder / kWeightsFile);
  }
  return removals;
}

/// Writes a checkpoint's tensors, without the optimiser's, to a file beside it.
void write_weights(const fs::path& checkpoint) {
  const SafetensorsFile file = SafetensorsFile::read(checkpoint);
  require_sealed_safetensors(file, checkpoint);
  std::map<std::string, std::string> metadata = file.metadata();
  metadata.erase(kStateHashKey);  // covers the optimiser's tensors too
  std::vector<TensorView> tensors;
  for (const TensorView& tensor : file.tensors())
    if (tensor.name.rfind("optimizer.", 0) != 0) tensors.push_back(tensor);
  save_sealed_safetensors(checkpoint.parent_path() / kWeightsFile, std::move(metadata), std::move(tensors));
}

/// Notes for later checks of seals that these files were removed on purpose.
void note_listed(const TrialFolder& trial, const std::vector<Removal>& removals) {
  const std::optional<TrialResult> result = trial.load_result();
  if (!result) return;
  const fs::path folder = attempt_folder(trial.path(), result_attempt(trial, *result));
  std::set<std::string> names;
  for (const Removal& removal : removals)
    if (const std::string name = removal.path.filename().string();
        removal.path.parent_path() == folder && result->files.contains(name))
      names.insert(name);
  if (!names.empty()) note_removed(folder, names);
}

/// Why a trial has no weights, and how it gets some.
std::string without_weights(const TrialFolder& trial, const std::optional<TrialResult>& result) {
  constexpr const char* kAgain = "remove this folder, and the next run trains it again";
  if (!result || result->status == TrialEnd::failed)
    return concat("it has ", result ? "failed" : "no result", " and saved no checkpoint; `normlab run",
                  result ? " --retry failed" : "", "` trains it");
  const fs::path folder = attempt_folder(trial.path(), result_attempt(trial, *result));
  const std::set<std::string> removed = removed_files(folder);
  for (const std::string& name : {trial.checkpoint(1).filename().string(), std::string(kWeightsFile)}) {
    if (removed.contains(name))
      return concat(name, " was deleted by `normlab clean`, or left out of an archive; ", kAgain);
    if (result->files.contains(name))
      return concat(name, " is missing, but its result lists it; restore the file from a copy, or ", kAgain);
  }
  if (result->status == TrialEnd::diverged)
    return concat("it diverged at step ", result->diverged_step.value_or(result->steps),
                  " and kept no checkpoint; set \"checkpoint\": {\"keep_before_divergence\": N} in its descriptor to "
                  "save one every N steps and to keep the last, ",
                  kAgain);
  return concat("its descriptor set \"checkpoint\": {\"keep\": \"none\"}",
                result->sealed ? "" : ", or they were deleted",
                "; set \"checkpoint\": {\"keep\": \"last\"} or \"weights\", ", kAgain);
}

struct Withdrawn {
  Claim& claim;
  ~Withdrawn() { claim.withdraw(); }
};

}  // namespace

std::vector<Removal> temporary_files(const fs::path& folder) {
  std::vector<Removal> removals;
  for (const fs::path& path : list_folder(folder))
    if (is_temporary(path) && fs::is_regular_file(path)) add(removals, path);
  return removals;
}

fs::path kept_weights(const TrialFolder& trial) {
  const std::optional<TrialResult> result = trial.load_result();
  const std::int64_t last = result ? result_attempt(trial, *result) : last_attempt(trial.path());
  for (std::int64_t attempt = last; attempt >= (result ? last : 1); --attempt)
    for (const fs::path& file : {trial.checkpoint(attempt), attempt_folder(trial.path(), attempt) / kWeightsFile})
      if (fs::exists(file)) return file;
  throw InputError(concat(trial.path().string(), ": has no weights: ", without_weights(trial, result)));
}

std::vector<Removal> superfluous_files(const TrialFolder& trial, KeepCheckpoint keep) {
  if (!trial.finished()) return {};
  if (const std::optional<Owner> owner = read_claim(trial.path()); owner && !is_dead(*owner)) return {};
  return files_of(trial, keep);
}

std::vector<Removal> apply_keep(const TrialFolder& trial, KeepCheckpoint keep) {
  if (superfluous_files(trial, keep).empty()) return {};
  std::optional<Claim> claim = Claim::acquire(trial.path());
  if (!claim) return {};
  const Withdrawn withdrawn{*claim};
  const std::optional<TrialResult> result = trial.load_result();
  if (!result || result->status == TrialEnd::failed) return {};
  write_kept_weights(trial, keep, result_attempt(trial, *result));
  std::vector<Removal> removals = files_of(trial, keep);
  note_listed(trial, removals);
  if (claim->lost_now()) return {};  // after a pause; the files may be those of another process by now
  for (const Removal& removal : removals) remove_file(removal.path);
  return removals;
}

void write_kept_weights(const TrialFolder& trial, KeepCheckpoint keep, std::int64_t attempt) {
  if (keep != KeepCheckpoint::weights) return;
  if (const auto kept = kept_attempt(trial, attempt)) write_weights(trial.checkpoint(*kept));
}

void remove_superfluous_as_owner(const TrialFolder& trial, KeepCheckpoint keep) {
  for (const Removal& removal : files_of(trial, keep)) remove_file(removal.path);
}

}  // namespace normlab
