#include "experiments/lab/trials/store.h"

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/trials/exported.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

/// Results that were retried, in the folder of the attempt that retries them.
constexpr const char* kFailedFile = "failed.json";
constexpr const char* kDivergedFile = "diverged.json";

/// Removes what killed processes left in a trial's folder and its attempts. A process that has lost its claim may still
/// be writing: publish() then tries again, or the process notices the loss.
void remove_all_temporaries(const std::filesystem::path& trial) {
  remove_temporaries(trial);
  for (const std::int64_t attempt : attempts_in(trial)) remove_temporaries(attempt_folder(trial, attempt));
}

/// Adds the contents of the archive `path` to those of the archives before it.
void add(ExportedResults& all, ExportedResults&& more, const std::filesystem::path& path) {
  for (auto& [id, trial] : more.trials) {
    const auto [known, added] = all.trials.try_emplace(id, std::move(trial));
    if (added) continue;
    const auto placed = [](const ExportedTrial& t) { return PlacedResult{*t.result, t.metrics.has_value(), t.where}; };
    if (counts_instead(placed(trial), placed(known->second))) known->second = std::move(trial);
  }
  for (auto& [folder, notes] : more.notes)
    for (auto& [name, note] : notes) {
      const auto [known, added] = all.notes[folder].try_emplace(name, note);
      if (added || known->second == note || name == kPlanNote) continue;
      const auto joined = joined_notes(folder, known->second, note);
      if (!joined)
        throw InputError(concat(path.string(), ": its note ", folder, "/", name,
                                " is not that of another archive in this folder; leave one of the two out"));
      known->second = nlohmann::json::parse(*joined);
    }
}

}  // namespace

std::optional<std::string> joined_notes(const std::filesystem::path& folder, const nlohmann::json& a,
                                        const nlohmann::json& b) {
  const auto rows_of = [](const nlohmann::json& note) { return note.value("rows", nlohmann::json()); };
  const auto by_rule = [](const nlohmann::json& note) { return note.value("by_rule", false); };
  if (folder.filename() != "tabled" || !rows_of(a).is_array() || !rows_of(b).is_array() ||
      a.value("seeds", nlohmann::json()) != b.value("seeds", nlohmann::json()))
    return std::nullopt;
  std::set<nlohmann::json> rows;
  for (const nlohmann::json* note : {&a, &b})
    for (const nlohmann::json& row : (*note)["rows"]) rows.insert(row);
  return write_note({{"seeds", a["seeds"]}, {"by_rule", by_rule(a) && by_rule(b)}, {"rows", rows}});
}

void TrialFolder::write_config(std::string_view json) const {
  make_folders(path_);
  if (const auto path = path_ / kConfigFile; !std::filesystem::exists(path)) publish(path, json, first_wins_);
}

std::string TrialFolder::read_config() const {
  const auto path = path_ / kConfigFile;
  auto text = read_file_if_there(path);
  if (!text)
    throw InputError(concat(path.string(), ": is missing; `normlab run` of the trial's descriptor writes it again"));
  return *std::move(text);
}

std::optional<TrialResult> TrialFolder::load_result() const {
  if (exported_ != nullptr) return exported_->result;
  const auto path = path_ / kResultFile;
  const auto text = read_file_if_there(path);
  if (!text) return std::nullopt;
  TrialResult result = parse_trial_result(*text, path.string());
  if (result.id != path_.filename().string())
    throw InputError(concat(path.string(), ": this is the result of trial ", result.id, "; delete this file"));
  if (!result.sealed && result.status != TrialEnd::failed) require_agreement(*this, result);
  return result;
}

std::optional<std::string> TrialFolder::result_text() const { return read_file_if_there(path_ / kResultFile); }

bool TrialFolder::finished() const {
  const auto result = load_result();
  return result && result->status != TrialEnd::failed;
}

bool TrialFolder::publish_result(const TrialResult& result) const {
  make_folders(path_);
  const auto path = path_ / kResultFile;
  const std::string text = write_trial_result(result);
  while (!publish(path, text, first_wins_)) {
    const auto former = load_result();
    if (former && (former->status != TrialEnd::failed || result.status == TrialEnd::failed)) return false;
    // Renamed instead of overwritten: another process may have published since the check.
    const auto taken = take_away(path);
    if (!taken) continue;
    if (parse_trial_result(read_file(*taken), taken->string()).status == TrialEnd::failed)
      remove_file(*taken);
    else
      put_back(*taken, path, first_wins_);
  }
  if (result.status != TrialEnd::failed) remove_all_temporaries(path_);
  return true;
}

void TrialFolder::tidy() const {
  const auto owner = read_claim(path_);
  if (owner && !is_dead(*owner)) return;
  if (owner) break_claim(*owner);
  remove_all_temporaries(path_);  // including those of a process that was killed before it claimed anything
}

std::vector<std::int64_t> TrialFolder::resumable_attempts() const {
  std::vector<std::int64_t> found, attempts = attempts_in(path_);
  for (auto attempt = attempts.rbegin(); attempt != attempts.rend(); ++attempt) {
    if (std::filesystem::exists(checkpoint(*attempt))) found.push_back(*attempt);
    if (std::filesystem::exists(attempt_folder(path_, *attempt) / kDivergedFile)) break;
  }
  return found;
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
  // The case of every trial in a new sweep: avoids listing folders and looking for a claim.
  if (!status.result && (exported_ != nullptr || !std::filesystem::exists(path_))) return status;
  if (status.result) {
    status.state = TrialState::failed;
    status.message = status.result->message.value_or("");
    if (exported_ != nullptr) return status;
  }
  const std::int64_t attempt = last_attempt(path_);
  if (const auto line = last_metrics_line(metrics(attempt))) status.progress = std::clamp(line->progress, 0.0, 1.0);
  if (const auto owner = read_claim(path_); owner && !is_dead(*owner)) {
    status.state = TrialState::running;
    status.owner = owner;
    status.message = concat("process ", owner->pid, " on ", owner->host);
  } else if (!status.result && (status.progress > 0 || has_checkpoint())) {
    status.state = TrialState::stopped;
  }
  return status;
}

std::optional<Claim> TrialFolder::claim(double lease_seconds, const std::optional<std::string>& retried) const {
  if (const auto text = result_text(); text && text != retried) return std::nullopt;
  auto claim = Claim::acquire(path_, lease_seconds, first_wins_);
  if (!claim) return claim;
  const auto text = result_text();
  if (!text) return claim;
  if (text == retried) {
    const auto path = path_ / kResultFile;
    const bool diverged = parse_trial_result(*text, path.string()).status == TrialEnd::diverged;
    const auto kept = claim->attempt_folder() / (diverged ? kDivergedFile : kFailedFile);
    if (const auto taken = take_away(path)) {
      if (const int error_number = rename_file(*taken, kept); error_number != 0)
        throw_system_error("rename", *taken, error_number);
      sync_folder(claim->attempt_folder());
      sync_folder(path_);
    }
    return claim;
  }
  claim->withdraw();  // the former owner finished between the two checks
  return std::nullopt;
}

std::optional<ResumePoint> TrialFolder::latest_checkpoint(std::vector<std::string>& problems) const {
  for (const std::int64_t attempt : resumable_attempts()) try {
      const auto path = checkpoint(attempt);
      const SafetensorsFile file = SafetensorsFile::read(path);
      require_sealed_safetensors(file, path);
      const std::uint64_t length = require_checkpoint_metrics(file, path, metrics(attempt));
      return ResumePoint{attempt, path, length, file.metadata()};
    } catch (const InputError& error) {
      problems.push_back(concat(error.what(), "; using an earlier checkpoint"));
    }
  return std::nullopt;
}

void TrialFolder::copy_metrics(const ResumePoint& from, std::int64_t attempt) const {
  std::string text = from.metrics_bytes > 0 ? read_file(metrics(from.attempt)) : std::string();
  if (text.size() < from.metrics_bytes)
    throw InputError(concat(metrics(from.attempt).string(), ": has ", text.size(),
                            " bytes, but its checkpoint expects ", from.metrics_bytes));
  text.resize(from.metrics_bytes);
  write_atomically(metrics(attempt), text);
}

ResultStore::ResultStore(std::filesystem::path out, FirstWins first_wins)
    : out_(std::move(out)), first_wins_(std::move(first_wins)) {
  if (out_.empty()) throw InputError("--out is empty; give a folder, or . for the current one");
}

ResultStore ResultStore::exported(const std::filesystem::path& file) {
  ResultStore store(file);
  ExportedResults all;
  if (std::filesystem::is_directory(file)) {
    if (std::filesystem::is_directory(file / "trials"))
      throw InputError(concat(file.string(), ": is a folder of results, not of archives; give it with --out"));
    for (const auto& path : files_below(file)) {
      if (path.extension() != ".jsonl" || path.stem().extension() == kTimingsSuffix) continue;
      add(all, read_export(path, true), path);
    }
    if (all.trials.empty())
      throw InputError(concat(file.string(), ": holds no *.jsonl with trials, as `normlab export` writes them"));
  } else {
    all = read_export(file);
  }
  store.exported_ = std::make_shared<const ExportedResults>(std::move(all));
  return store;
}

TrialFolder ResultStore::trial(const std::string& id) const {
  require_plain_name("trial id", id);
  static const ExportedTrial kMissing;
  if (exported_) {
    const auto found = exported_->trials.find(id);
    return TrialFolder(out_ / id, found == exported_->trials.end() ? &kMissing : &found->second);
  }
  return TrialFolder(out_ / "trials" / id, nullptr, first_wins_);
}

std::vector<std::string> ResultStore::trial_ids() const {
  std::vector<std::string> ids;
  if (exported_) {
    for (const auto& [id, trial] : exported_->trials) ids.push_back(id);
    return ids;
  }
  for (const auto& path : list_folder(out_ / "trials"))
    if (std::filesystem::is_directory(path) && path.filename().string().front() != '.')
      ids.push_back(path.filename().string());
  return ids;
}

std::vector<std::string> ResultStore::experiments() const {
  std::set<std::string> names;
  if (exported_)
    for (const auto& [folder, notes] : exported_->notes) names.insert(folder.substr(0, folder.find('/')));
  else
    for (const auto& path : list_folder(out_ / "experiments")) names.insert(path.filename().string());
  return {names.begin(), names.end()};
}

std::vector<std::string> ResultStore::note_names(const std::string& folder) const {
  std::vector<std::string> names;
  if (!exported_) {
    for (const auto& path : list_folder(out_ / "experiments" / folder))
      if (path.extension() == ".json") names.push_back(path.filename().string());
  } else if (const auto notes = exported_->notes.find(folder); notes != exported_->notes.end()) {
    for (const auto& [name, note] : notes->second) names.push_back(name);
  }
  return names;
}

nlohmann::json ResultStore::note(const std::string& folder, const std::string& name) const {
  if (!exported_) {
    const auto path = out_ / "experiments" / folder / name;
    return std::filesystem::exists(path) ? read_note(path) : nlohmann::json();
  }
  const auto notes = exported_->notes.find(folder);
  if (notes == exported_->notes.end() || !notes->second.contains(name)) return {};
  return notes->second.at(name);
}

void ResultStore::write_plan(const std::string& stem, std::string_view json) const {
  require_plain_name("experiment", stem);
  const auto folder = out_ / "experiments" / stem;
  make_folders(folder);
  remove_abandoned_temporaries(folder);
  for (const auto& path : list_folder(folder))
    if (std::filesystem::is_directory(path)) remove_abandoned_temporaries(path);
  write_atomically(folder / kPlanNote, json);
}

}  // namespace normlab
