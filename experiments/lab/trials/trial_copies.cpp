#include "experiments/lab/trials/trial_copies.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/folders.h"
#include "experiments/lab/base/regular_file.h"
#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/base/system_calls.h"
#include "experiments/lab/trials/correctness_file.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSetAside = ".former";  // in the name of a trial's folder that waits for the one in its place

using Identity = std::pair<dev_t, ino_t>;

[[noreturn]] void refuse(const fs::path& path, std::string_view what) {
  throw InputError(concat(path.string(), ": is ", what,
                          ", which cannot be copied; put a file in its place, or move it out of the trial's folder"));
}

/// `above`: the folders around it.
void add_files(const fs::path& folder, const fs::path& below, std::vector<Identity>& above, CopiedFiles& files) {
  for (const fs::path& path : list_folder(folder)) {
    const fs::path name = below / path.filename();
    if (is_temporary(path) || name == "claim" || path.filename() == "lease") continue;
    struct stat status {};
    if (uninterrupted([&] { return ::stat(path.c_str(), &status); }) != 0) {
      const int error_number = errno;
      if (error_number == ELOOP) refuse(path, "a link to itself");
      if (error_number != ENOENT && error_number != ESTALE) throw_system_error("look at", path, error_number);
      if (fs::is_symlink(fs::symlink_status(path))) refuse(path, "a link that leads nowhere");
      continue;  // removed just now
    }
    if (!S_ISDIR(status.st_mode)) {
      if (const std::string_view other = what_else(status); !other.empty()) refuse(path, other);
      files[name] = {path};
      continue;
    }
    const Identity identity(status.st_dev, status.st_ino);
    if (std::find(above.begin(), above.end(), identity) != above.end()) refuse(path, "a link to a folder around it");
    above.push_back(identity);
    add_files(path, name, above, files);
    above.pop_back();
  }
}

/// The number of the folder that has the result's files.
std::int64_t attempt_of(const TrialCopy& copy) {
  if (copy.result.attempt > 0) return copy.result.attempt;
  std::int64_t last = 1;
  for (std::int64_t attempt = 1; attempt <= kMostAttempts; ++attempt)
    if (copy.files.contains(attempt_folder({}, attempt) / kMetricsFile)) last = attempt;
  return last;
}

bool lists_files(const TrialResult& result) { return result.sealed && result.status != TrialEnd::failed; }

/// Compared as text, in which NaN equals itself.
bool same_in_full(TrialResult a, TrialResult b) {
  if (a.sealed != b.sealed) return false;
  a.sealed = b.sealed = true;
  return write_trial_result(a) == write_trial_result(b);
}

/// Whether both are of one training, not of two that gave the same numbers.
bool same_training(const TrialResult& a, const TrialResult& b) {
  if (!lists_files(a) || !lists_files(b)) return same_in_full(a, b);
  return a.status == b.status && a.attempt == b.attempt && a.files == b.files;
}

std::set<std::string> kinds_of(const TrialCopy& copy) {
  std::set<std::string> kinds;
  const fs::path folder = attempt_folder({}, attempt_of(copy));
  for (const char* name : {kMetricsFile, kStatesFile, kCorrectnessFile, kCheckpointFile, kWeightsFile})
    if (copy.files.contains(folder / name) && (!lists_files(copy.result) || copy.result.files.contains(name)))
      kinds.insert(name);
  if (kinds.contains(kCheckpointFile)) kinds.insert(kWeightsFile);
  return kinds;
}

bool counts_before(const TrialCopy& other, const TrialCopy& first) {
  const bool finished = other.result.status != TrialEnd::failed;
  if (finished != (first.result.status != TrialEnd::failed)) return finished;
  const std::set<std::string> more = kinds_of(other), fewer = kinds_of(first);
  return more.size() > fewer.size() && std::includes(more.begin(), more.end(), fewer.begin(), fewer.end());
}

void add_copy(TrialCopy& joined, const TrialCopy& more) {
  // A result from an archive may be anonymous, so that of a folder counts. A folder that was listed while another
  // process exchanged it may lack the file.
  const auto own = joined.files.find(kResultFile);
  const auto other = more.files.find(kResultFile);
  const bool is_archived = own != joined.files.end() && own->second.archived != nullptr;
  if (is_archived && other != more.files.end() && other->second.archived == nullptr) {
    joined.result = more.result;
    own->second = other->second;
  }
  joined.files.insert(more.files.begin(), more.files.end());
}

/// For place_copy() on a file system that exchanges no names. Killed between the two, it leaves the former set aside.
bool place_by_two_renames(const fs::path& part, const fs::path& to, const Claim& claim) {
  constexpr int kTries = 10;  // while other processes make the folder again
  const fs::path aside = concat(to.string(), kSetAside), former = temporary_name(aside);
  if (const int error_number = rename_file(to, former); error_number != 0)
    throw_system_error("rename", to, error_number);
  int error_number = claim.is_in(former) ? rename_file(part, to) : ENOENT;
  for (int i = 1; i < kTries && (error_number == ENOTEMPTY || error_number == EEXIST); ++i) {
    rename_file(to, temporary_name(aside));
    error_number = rename_file(part, to);
  }
  if (error_number != 0) rename_file(former, to);
  if (error_number == ENOENT) return false;
  if (error_number != 0) throw_system_error("rename", part, error_number);
  sync_folder(to.parent_path());
  const std::string begin = concat('.', aside.filename().string(), '.');
  for (const fs::path& path : list_folder(to.parent_path()))
    if (path.filename().string().starts_with(begin)) remove_folder(path);
  return true;
}

/// The trial's folder, if this is one that was set aside and whose place is empty.
std::optional<fs::path> missing_trial(const fs::path& path) {
  const std::string name = path.filename().string();
  const auto end = name.find(concat(kSetAside, '.'), 1);
  // Two dots: one that remove_folder() was removing.
  if (!is_temporary(path) || end == name.npos || name.starts_with("..")) return std::nullopt;
  const fs::path trial = path.parent_path() / name.substr(1, end - 1);
  std::error_code unknown;
  return fs::exists(trial, unknown) || unknown ? std::nullopt : std::optional(trial);
}

}  // namespace

TrialCopy copy_of(const TrialFolder& trial, const TrialResult& result) {
  TrialCopy copy{trial.path().string(), result, {}, {}};
  if (const ExportedTrial* archived = trial.exported()) {
    copy.where = archived->where;
    for (const fs::path& file : exported_files(*archived)) copy.files[file] = {{}, archived};
    copy.removed.insert(kMetricsFile);
    for (const auto& [name, seal] : result.files) copy.removed.insert(name);
  } else {
    std::vector<Identity> above;
    struct stat status {};
    if (::stat(trial.path().c_str(), &status) == 0) above.emplace_back(status.st_dev, status.st_ino);
    add_files(trial.path(), {}, above, copy.files);
    const fs::path folder = attempt_folder({}, attempt_of(copy));
    copy.files.erase(folder / kRemovedFile);
    copy.removed = removed_files(trial.path() / folder);
  }
  std::erase_if(copy.removed, [&](const std::string& name) {
    return copy.files.contains(attempt_folder({}, attempt_of(copy)) / name);
  });
  return copy;
}

/// False for a file that another process has removed meanwhile.
static bool matches(const fs::path& file, const FileSeal& listed) {
  try {
    return seal_of_file(file) == listed;
  } catch (const EnvironmentError&) {
    std::error_code unknown;
    if (fs::exists(file, unknown) || unknown) throw;
    return false;
  }
}

TrialCopy whole_files_of(const TrialFolder& trial, const TrialResult& result, std::int64_t attempt) {
  TrialCopy copy = copy_of(trial, result);
  const fs::path left_out = attempt_folder({}, attempt), folder = attempt_folder({}, attempt_of(copy));
  std::erase_if(copy.files, [&](const auto& file) { return *file.first.begin() == left_out; });
  for (const auto& [name, listed] : result.files)
    if (const auto file = copy.files.find(folder / name);
        file != copy.files.end() && !matches(file->second.file, listed))
      copy.files.erase(file);
  try {
    read_trial_config(trial);
  } catch (const Error&) {  // missing or damaged
    copy.files.erase(kConfigFile);
  }
  return copy;
}

TrialCopy joined_copies(const std::vector<TrialCopy>& copies) {
  std::vector<TrialCopy> trainings;
  for (const TrialCopy& copy : copies) {
    require_same_result({copies.front().result, false, copies.front().where}, {copy.result, false, copy.where});
    const auto same = std::find_if(trainings.begin(), trainings.end(), [&](const TrialCopy& training) {
      return same_training(training.result, copy.result);
    });
    if (same == trainings.end())
      trainings.push_back(copy);
    else
      add_copy(*same, copy);
  }
  std::size_t best = 0;
  for (std::size_t i = 1; i < trainings.size(); ++i)
    if (counts_before(trainings[i], trainings[best])) best = i;
  TrialCopy joined = std::move(trainings[best]);
  std::erase_if(joined.removed, [&](const std::string& name) {
    return joined.files.contains(attempt_folder({}, attempt_of(joined)) / name);
  });
  return joined;
}

std::vector<std::string> missing_files(const TrialCopy& copy) {
  std::vector<std::string> missing;
  const fs::path folder = attempt_folder({}, attempt_of(copy));
  for (const auto& [name, listed] : copy.result.files)
    if (!copy.files.contains(folder / name) && !copy.removed.contains(name))
      missing.push_back((folder / name).string());
  if (!copy.files.contains(kConfigFile)) missing.push_back(kConfigFile);
  return missing;
}

bool lacks_files(const TrialCopy& there, const TrialCopy& joined) {
  if (!same_training(there.result, joined.result)) return true;
  const fs::path folder = attempt_folder({}, attempt_of(joined));
  return std::any_of(joined.files.begin(), joined.files.end(), [&](const auto& file) {
    const fs::path& path = file.first;
    const std::string name = path.filename().string();
    const bool superfluous = (name == kCheckpointFile || name == kWeightsFile) &&
                             (path.parent_path() != folder || !joined.result.files.contains(name));
    return !superfluous && !there.files.contains(path);
  });
}

void write_copy(const TrialCopy& copy, const fs::path& folder) {
  const fs::path attempt = attempt_folder({}, attempt_of(copy));
  make_folders(folder / attempt);
  const auto changed = [](const fs::path& file) {
    return InputError(concat(file.string(), ": was changed while it was copied; merge again"));
  };
  for (const auto& [path, source] : copy.files) {
    const bool listed = path.parent_path() == attempt && copy.result.files.contains(path.filename());
    make_folders((folder / path).parent_path());
    if (source.archived != nullptr)
      write_atomically(folder / path, exported_text(*source.archived, path));
    else if (!copy_regular_file(source.file, folder / path) && (listed || path == kConfigFile || path == kResultFile))
      throw changed(source.file);
    if (listed && seal_of_file(folder / path) != copy.result.files.at(path.filename())) throw changed(source.file);
  }
  const fs::path result = folder / kResultFile;
  if (!same_in_full(parse_trial_result(read_file(result), result.string()), copy.result))
    throw changed(copy.files.at(kResultFile).file);
  if (!copy.removed.empty()) note_removed(folder / attempt, copy.removed);
  sync_folders_below(folder);
}

bool place_copy(const fs::path& part, const TrialFolder& trial, const Claim* claim) {
  const fs::path& to = trial.path();
  if (claim == nullptr) {
    const int error_number = rename_file(part, to);
    if (error_number == ENOTEMPTY || error_number == EEXIST || error_number == ENOENT) return false;
    if (error_number != 0) throw_system_error("rename", part, error_number);
  } else {
    if (claim->lost_now()) return false;
    const int error_number = exchange_names(part, to);
    if (refuses_exchange(error_number)) return place_by_two_renames(part, to, *claim);
    if (error_number == ENOENT) return false;
    if (error_number != 0) throw_system_error("rename", part, error_number);
    if (!claim->is_in(part)) {  // lost just now: the trial may have another result
      exchange_names(part, to);
      return false;
    }
  }
  sync_folder(to.parent_path());
  return true;
}

void put_back_set_aside(const ResultStore& store) {
  for (const fs::path& path : list_folder(store.out() / "trials"))
    if (const auto trial = missing_trial(path); trial && is_abandoned(path)) rename_file(path, *trial);
}

std::vector<fs::path> abandoned_parts(const ResultStore& store) {
  std::vector<fs::path> parts = list_folder(store.out() / "trials");
  std::erase_if(parts,
                [](const fs::path& path) { return !is_temporary(path) || missing_trial(path) || !is_abandoned(path); });
  return parts;
}

}  // namespace normlab
