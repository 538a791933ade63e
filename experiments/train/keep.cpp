#include "experiments/train/keep.h"

#include <algorithm>
#include <optional>

#include "experiments/results/files.h"
#include "experiments/weights/safetensors.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

bool is_temporary(const fs::path& path) {
  return path.filename().string().front() == '.' && path.extension() == ".tmp";
}

void add(std::vector<Removal>& removals, const fs::path& path) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(path, error);
  if (!error) removals.push_back({path, bytes});
}

void add_temporaries(std::vector<Removal>& removals, const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (is_temporary(entry.path()) && entry.is_regular_file(error)) add(removals, entry.path());
}

/// The attempt whose checkpoint or weights are the last.
std::optional<std::int64_t> last_with_checkpoint(const TrialFolder& trial, std::int64_t last) {
  for (std::int64_t attempt = last; attempt > 0; --attempt)
    if (fs::exists(trial.checkpoint(attempt))) return attempt;
  return std::nullopt;
}

std::vector<Removal> files_of(const TrialFolder& trial, KeepCheckpoint keep) {
  std::vector<Removal> removals;
  const std::int64_t last = last_attempt(trial.path());
  const std::optional<std::int64_t> kept = last_with_checkpoint(trial, last);
  add_temporaries(removals, trial.path());
  for (std::int64_t attempt = 1; attempt <= last; ++attempt) {
    const fs::path folder = attempt_folder(trial.path(), attempt);
    add_temporaries(removals, folder);
    if (keep != KeepCheckpoint::last || attempt != kept) add(removals, trial.checkpoint(attempt));
    if (keep == KeepCheckpoint::none) add(removals, folder / kWeightsFile);
  }
  return removals;
}

/// The tensors of a checkpoint without the optimiser's, beside it.
void write_weights(const fs::path& checkpoint) {
  const SafetensorsFile file = SafetensorsFile::read(checkpoint);
  std::vector<TensorView> tensors;
  for (const TensorView& tensor : file.tensors())
    if (tensor.name.rfind("optimizer.", 0) != 0) tensors.push_back(tensor);
  save_safetensors(checkpoint.parent_path() / kWeightsFile, file.metadata(), std::move(tensors));
}

std::vector<Removal> remove_as(const TrialFolder& trial, KeepCheckpoint keep, const std::vector<Removal>& removals) {
  if (keep == KeepCheckpoint::weights)
    if (const auto attempt = last_with_checkpoint(trial, last_attempt(trial.path())))
      write_weights(trial.checkpoint(*attempt));
  for (const Removal& removal : removals) remove_file(removal.path);
  return removals;
}

}  // namespace

std::vector<Removal> superfluous_files(const TrialFolder& trial, KeepCheckpoint keep) {
  if (!trial.finished()) return {};
  if (const std::optional<Owner> owner = read_claim(trial.path()); owner && !is_dead(*owner)) return {};
  return files_of(trial, keep);
}

std::vector<Removal> apply_keep(const TrialFolder& trial, KeepCheckpoint keep) {
  return remove_as(trial, keep, superfluous_files(trial, keep));
}

void apply_keep_as_owner(const TrialFolder& trial, KeepCheckpoint keep) {
  remove_as(trial, keep, files_of(trial, keep));
}

}  // namespace normlab
