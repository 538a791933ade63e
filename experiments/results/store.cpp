#include "experiments/results/store.h"

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "core/error.h"
#include "experiments/results/build_info.h"
#include "experiments/results/files.h"
#include "experiments/results/metrics_log.h"
#include "experiments/weights/safetensors.h"

namespace normlab {
namespace {

/// A name that stays inside its folder.
void require_plain_name(std::string_view what, const std::string& name) {
  const bool plain =
      !name.empty() && name.front() != '.' && name.find('/') == name.npos && name.find('\0') == name.npos;
  if (!plain) throw InputError(concat(what, " \"", name, "\" is no plain name"));
}

std::uint64_t parse_bytes(const std::string& text, const std::filesystem::path& checkpoint) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != end)
    throw InputError(concat(checkpoint.string(), ": metadata \"", kMetricsBytesKey, "\": \"", text, "\" is no length"));
  return value;
}

}  // namespace

std::string_view to_string(TrialState state) {
  switch (state) {
    case TrialState::missing:
      return "missing";
    case TrialState::running:
      return "running";
    case TrialState::failed:
      return "failed";
    case TrialState::diverged:
      return "diverged";
    case TrialState::done:
      return "done";
  }
  return "?";
}

void TrialFolder::write_config(std::string_view json) const {
  make_folders(path_);
  publish(path_ / "config.json", json);
}

std::string TrialFolder::read_config() const { return read_file(path_ / "config.json"); }

std::optional<TrialResult> TrialFolder::load_result() const {
  const auto path = path_ / "result.json";
  if (!std::filesystem::exists(path)) return std::nullopt;
  TrialResult result = parse_trial_result(read_file(path), path.string());
  if (result.id != path_.filename().string())
    throw InputError(concat(path.string(), ": it is the result of trial ", result.id, "; delete this file"));
  return result;
}

bool TrialFolder::finished() const {
  const auto result = load_result();
  return result && result->status != TrialEnd::failed;
}

bool TrialFolder::publish_result(const TrialResult& result) const {
  make_folders(path_);
  const auto path = path_ / "result.json";
  const std::string text = write_trial_result(result);
  if (publish(path, text)) return true;
  const auto former = load_result();
  if (former && former->status != TrialEnd::failed) return false;
  write_atomically(path, text);
  return true;
}

TrialStatus TrialFolder::status() const {
  TrialStatus status;
  status.result = load_result();
  if (status.result && status.result->status != TrialEnd::failed) {
    status.state = status.result->status == TrialEnd::done ? TrialState::done : TrialState::diverged;
    status.progress = 1;
    status.message = status.result->message.value_or("");
    return status;
  }
  // In a sweep that has not begun this is every trial: no listing of folders, no look for a claim.
  if (!status.result && !std::filesystem::exists(path_)) return status;
  const std::int64_t attempt = last_attempt(path_);
  if (const auto line = last_metrics_line(metrics(attempt))) status.progress = std::clamp(line->progress, 0.0, 1.0);
  if (const auto owner = read_claim(path_); owner && !is_dead(*owner)) {
    status.state = TrialState::running;
    status.owner = owner;
    status.message = concat("process ", owner->pid, " on ", owner->host);
    if (owner->host != host_name())
      status.message += concat("; from ", host_name(), " nobody can tell whether it lives: if it does not, delete ",
                               (path_ / "claim").string());
  } else if (status.result) {
    status.state = TrialState::failed;
    status.message = status.result->message.value_or("");
  }
  return status;
}

std::optional<Claim> TrialFolder::claim() const {
  if (finished()) return std::nullopt;
  auto claim = Claim::acquire(path_);
  // The former owner may have finished between the two lines above.
  if (claim && finished()) {
    std::error_code ignored;
    std::filesystem::remove(claim->attempt_folder(), ignored);  // empty, and never needed
    return std::nullopt;
  }
  return claim;
}

std::optional<ResumePoint> TrialFolder::latest_checkpoint(std::vector<std::string>& problems) const {
  for (std::int64_t attempt = last_attempt(path_); attempt > 0; --attempt) {
    const auto path = checkpoint(attempt);
    if (!std::filesystem::exists(path)) continue;
    try {
      const SafetensorsFile file = SafetensorsFile::read(path);
      const auto found = file.metadata().find(kMetricsBytesKey);
      if (found == file.metadata().end())
        throw InputError(concat(path.string(), ": no metadata \"", kMetricsBytesKey, '"'));
      const std::uint64_t length = parse_bytes(found->second, path);
      std::error_code error;
      const std::uint64_t there = std::filesystem::file_size(metrics(attempt), error);
      if (length > 0 && (error || there < length))
        throw InputError(concat(path.string(), ": it was saved with ", length, " bytes of metrics, but ",
                                metrics(attempt).string(), " has ", error ? 0 : there));
      return ResumePoint{attempt, path, length, file.metadata()};
    } catch (const InputError& error) {
      problems.push_back(concat(error.what(), "; going back to an earlier checkpoint"));
    }
  }
  return std::nullopt;
}

void TrialFolder::copy_metrics(const ResumePoint& from, std::int64_t attempt) const {
  std::string text = from.metrics_bytes > 0 ? read_file(metrics(from.attempt)) : std::string();
  if (text.size() < from.metrics_bytes)
    throw InputError(concat(metrics(from.attempt).string(), ": has ", text.size(), " bytes, its checkpoint knows of ",
                            from.metrics_bytes));
  text.resize(from.metrics_bytes);
  write_atomically(metrics(attempt), text);
}

TrialFolder ResultStore::trial(const std::string& id) const {
  require_plain_name("trial id", id);
  return TrialFolder(out_ / "trials" / id);
}

std::vector<std::string> ResultStore::trial_ids() const {
  std::vector<std::string> ids;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(out_ / "trials", error))
    if (entry.is_directory()) ids.push_back(entry.path().filename().string());
  if (error && error.value() != ENOENT) throw_system_error("list", out_ / "trials", error.value());
  std::sort(ids.begin(), ids.end());
  return ids;
}

void ResultStore::write_plan(const std::string& stem, std::string_view json) const {
  require_plain_name("experiment", stem);
  const auto folder = out_ / "experiments" / stem;
  make_folders(folder);
  write_atomically(folder / "plan.json", json);
}

std::string ResultStore::read_plan(const std::string& stem) const {
  require_plain_name("experiment", stem);
  return read_file(out_ / "experiments" / stem / "plan.json");
}

}  // namespace normlab
