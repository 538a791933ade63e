#include "experiments/sweep/share.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "core/error.h"
#include "experiments/base/files.h"
#include "experiments/results/store.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

std::optional<std::size_t> whole_number(std::string_view text) {
  std::size_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

/// What two results of one trial do not agree on; "" if they are equal but for times and machines.
std::string difference(const TrialResult& a, const TrialResult& b) {
  if (a.status != b.status) return fmt::format("{} and {}", word_of(a.status), word_of(b.status));
  if (a.steps != b.steps) return fmt::format("{} and {} steps", a.steps, b.steps);
  for (const auto& [name, value] : a.metrics) {
    const auto other = b.metrics.find(name);
    if (other == b.metrics.end()) return fmt::format("{} is missing in one", name);
    if (std::bit_cast<std::uint64_t>(value) != std::bit_cast<std::uint64_t>(other->second))
      return fmt::format("{} is {} and {}", name, value, other->second);
  }
  return a.metrics.size() == b.metrics.size() ? "" : "one has other metrics";
}

/// Copies a folder so that it appears whole or not at all.
void copy_whole(const fs::path& from, const fs::path& to) {
  const fs::path part = to.parent_path() / fmt::format(".{}.tmp", to.filename().string());
  try {
    fs::create_directories(to.parent_path());
    fs::remove_all(part);
    fs::create_directory(part);
    for (const fs::path& entry : list_folder(from))
      if (entry.filename() != "claim")
        fs::copy(entry, part / entry.filename(), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    fs::remove_all(to);  // an unfinished trial
    fs::rename(part, to);
  } catch (const fs::filesystem_error& error) {
    throw EnvironmentError(
        fmt::format("{}: cannot be copied to {}: {}", from.string(), to.string(), error.code().message()));
  }
}

/// Files of an experiment below `folder`, by relative path; plans are written anew by each run.
std::vector<fs::path> notes_in(const fs::path& folder) {
  std::vector<fs::path> notes;
  if (!fs::exists(folder)) return notes;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().filename().string().front() != '.')
      notes.push_back(entry.path().lexically_relative(folder));
  std::sort(notes.begin(), notes.end());
  return notes;
}

}  // namespace

std::string Share::text() const { return fmt::format("{}/{}", number, count); }

Share read_share(const std::string& text, const std::function<const char*(const char*)>& variable) {
  const auto refuse = [&](const std::string& why) {
    throw InputError(fmt::format("--share {}: {}; expected K/N with K from 1 to N, as 3/16, or auto", text, why));
  };
  const auto read = [&](const char* name) -> std::optional<std::size_t> {
    const char* const value = variable(name);
    if (value == nullptr) return std::nullopt;
    const auto number = whole_number(value);
    if (!number) refuse(fmt::format("{}={} is not a number", name, value));
    return number;
  };
  const auto slash = text.find('/');
  const std::string first = text.substr(0, slash);
  std::optional<std::size_t> count;
  if (slash != text.npos) {
    count = whole_number(std::string_view(text).substr(slash + 1));
    if (!count || *count == 0) refuse("N is not a number above 0");
  }
  std::optional<std::size_t> number = whole_number(first);
  if (first == "auto") {
    if (const auto task = read("SLURM_ARRAY_TASK_ID")) {
      const std::size_t least = read("SLURM_ARRAY_TASK_MIN").value_or(0);
      const std::size_t step = std::max<std::size_t>(1, read("SLURM_ARRAY_TASK_STEP").value_or(1));
      if (*task < least) refuse(fmt::format("task {} is below SLURM_ARRAY_TASK_MIN={}", *task, least));
      number = (*task - least) / step + 1;
      if (!count) count = read("SLURM_ARRAY_TASK_COUNT");
    } else if (const auto index = read("JOB_COMPLETION_INDEX")) {
      number = *index + 1;
    } else {
      refuse("neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set");
    }
    if (!count) refuse("the number of tasks is not known; give it as auto/N");
  }
  if (!number || !count) refuse("is not a share");
  if (*number < 1 || *number > *count) refuse(fmt::format("share {} of {} does not exist", *number, *count));
  return {*number, *count};
}

std::vector<std::string> ids_of_share(const Experiment& experiment, const Share& share) {
  std::set<std::string> ids;
  for (const Trial& trial : experiment.trials) ids.insert(trial.id);
  std::vector<std::string> chosen;
  std::size_t place = 0;
  for (const std::string& id : ids)
    if (place++ % share.count == share.number - 1) chosen.push_back(id);
  return chosen;
}

Merged merge_results(const std::vector<fs::path>& folders, const fs::path& out) {
  Merged merged;
  std::map<std::string, std::pair<fs::path, TrialResult>> results;  // by id: the trial's folder
  std::map<fs::path, fs::path> notes;                               // by relative path: the file
  std::vector<fs::path> sources{out};
  sources.insert(sources.end(), folders.begin(), folders.end());
  for (const fs::path& source : sources) {
    const ResultStore store(source);
    if (!fs::exists(source / "trials")) {
      if (source == out) continue;
      throw InputError(fmt::format("{}: is not a folder of results; it has no \"trials\"", source.string()));
    }
    for (const std::string& id : store.trial_ids()) {
      const TrialFolder trial = store.trial(id);
      const std::optional<TrialResult> result = trial.load_result();
      if (!result) {
        merged.unfinished += source != out;
        continue;
      }
      const auto [known, added] = results.try_emplace(id, trial.path(), *result);
      if (added) continue;
      if (const std::string what = difference(known->second.second, *result); !what.empty())
        throw InputError(fmt::format(
            "{} and {}: are the same trial with different results: {}. Nothing was copied; compare the two with "
            "`normlab verify`, and leave one of them out",
            known->second.first.string(), trial.path().string(), what));
      merged.there += source != out;
    }
    for (const fs::path& note : notes_in(source / "experiments")) {
      const fs::path file = source / "experiments" / note;
      const auto [known, added] = notes.try_emplace(note, file);
      if (!added && note.filename() != "plan.json" && read_file(known->second) != read_file(file))
        throw InputError(fmt::format(
            "{} and {}: record different decisions about one experiment, so their trials do not belong together. "
            "Nothing was copied",
            known->second.string(), file.string()));
    }
  }
  for (const auto& [id, found] : results) {
    const fs::path to = out / "trials" / id;
    if (found.first == to) continue;
    if (const auto owner = read_claim(to); owner && !is_dead(*owner))
      throw InputError(fmt::format("{}: a process works on this trial; merge again when it has ended", to.string()));
    copy_whole(found.first, to);
    ++merged.copied;
  }
  for (const auto& [note, file] : notes) {
    const fs::path to = out / "experiments" / note;
    if (file == to) continue;
    std::error_code failed;
    fs::create_directories(to.parent_path(), failed);  // write_atomically() reports a failure
    write_atomically(to, read_file(file));
  }
  return merged;
}

}  // namespace normlab
