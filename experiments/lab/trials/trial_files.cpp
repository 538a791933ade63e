#include "experiments/lab/trials/trial_files.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/sha256.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/trials/correctness_file.h"
#include "experiments/lab/trials/exported.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void contradict(const Witnesses& at, const std::string& ours, const std::string& theirs) {
  throw InputError(concat(at.result, " contradicts ", at.other, ", so one of them is damaged: ", ours, " here, ",
                          theirs, " there", at.advice));
}

Witnesses beside(const TrialFolder& trial, const fs::path& other) {
  return {(trial.path() / "result.json").string(), other.string(),
          "; restore both from a copy, or remove the trial's folder and run the trial again"};
}

std::string digits(double value) { return nlohmann::json(value).dump(); }

void require_seed(const TrialFolder& trial, const TrialResult& result) {
  const fs::path path = trial.path() / "config.json";
  const auto text = read_file_if_there(path);
  if (!text) return;
  const nlohmann::json config = parse_strict_json(*text, path.string());
  ObjectReader object(config, path.string());
  if (const auto seed = object.unsigned_integer("seed"); seed != result.seed)
    contradict(beside(trial, path), concat("seed ", result.seed), concat("seed ", seed));
}

void require_last_line(const TrialFolder& trial, const TrialResult& result, const fs::path& path) {
  if (fs::exists(path)) require_last_line(result, last_metrics_line(path), beside(trial, path));
}

void require_count(const TrialFolder& trial, const TrialResult& result, const Correctness& bits, const fs::path& path) {
  const std::string hash = result.eval_hash();
  if (!hash.empty() && hash != bits.data_hash())
    contradict(beside(trial, path), concat("evaluated on data ", hash), concat("data ", bits.data_hash()));
  const auto accuracy = result.metrics.find("eval/accuracy");
  if (accuracy == result.metrics.end() || result.different_bits) return;
  if (!same_bits(accuracy->second, double(bits.count()) / double(bits.images())))
    contradict(beside(trial, path), concat("eval/accuracy ", digits(accuracy->second)),
               concat(bits.count(), " of ", bits.images(), " images are right"));
}

/// Reads a file of a result's attempt and checks it against the result's list, if listed.
std::string read_listed(const fs::path& path, const TrialResult& result) {
  const auto text = read_file_if_there(path);
  if (!text) throw InputError(concat(path.string(), ": does not exist, although the trial has a result"));
  if (const auto listed = result.files.find(path.filename().string()); listed != result.files.end())
    require_seal(path, seal_of(*text), listed->second);
  return *text;
}

}  // namespace

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

void require_last_line(const TrialResult& result, const std::optional<MetricsLine>& line, const Witnesses& at) {
  const std::int64_t step = line ? line->step : 0;
  if (result.status == TrialEnd::diverged) {
    if (result.diverged_step && step > *result.diverged_step)
      contradict(at, concat("diverged at step ", *result.diverged_step), concat("a line of step ", step));
    return;
  }
  if (result.steps > 0 && step != result.steps)
    contradict(at, concat(result.steps, " steps"), concat("the last line is of step ", step));
  if (result.different_bits) return;  // the last evaluation may be by another program than the line
  for (const auto& [name, value] : result.metrics) {
    if (name == kFirstLoss) continue;
    const auto found = line ? line->values.find(name) : std::map<std::string, double>::const_iterator();
    if (!line || found == line->values.end())
      contradict(at, concat(name, ' ', digits(value)), "no such value in the last line");
    if (!same_bits(found->second, value))
      contradict(at, concat(name, ' ', digits(value)), concat(digits(found->second), " in the last line"));
  }
}

TrialConfig read_trial_config(const TrialFolder& trial) {
  if (const ExportedTrial* const exported = trial.exported()) {
    if (!exported->result) throw InputError(concat(trial.path().string(), ": the archive does not hold this trial"));
    return exported->config;
  }
  const fs::path path = trial.path() / "config.json";
  TrialConfig config = config_from_json(trial.read_config(), path.string());
  if (trial_id(config) != trial.path().filename().string())
    throw InputError(concat(path.string(), ": holds the settings of trial ", trial_id(config),
                            "; either the file was edited or the folder was renamed"));
  // Settings without effect are not part of the id, and have their defaults.
  if (!(config_from_json(canonical_json(config), path.string()) == config))
    throw InputError(concat(
        path.string(),
        ": is damaged: it holds other settings than the trial; delete this file, and the next run writes it again"));
  return config;
}

std::int64_t result_attempt(const TrialFolder& trial, const TrialResult& result) {
  if (result.attempt > 0) return result.attempt;
  const std::vector<std::int64_t> attempts = attempts_in(trial.path());
  // A process that was killed while it held the claim leaves an attempt without metrics.
  const auto last = std::find_if(attempts.rbegin(), attempts.rend(), [&](std::int64_t attempt) {
    return attempt == attempts.front() || fs::exists(trial.metrics(attempt));
  });
  return last == attempts.rend() ? 0 : *last;
}

FileSeals seal_attempt(const TrialFolder& trial, std::int64_t attempt, bool checkpoint) {
  const fs::path folder = attempt_folder(trial.path(), attempt);
  FileSeals seals;
  for (const fs::path& path : list_folder(folder)) {
    const std::string name = path.filename().string();
    const bool final = fs::is_regular_file(path) && name.front() != '.' && name != "log" && name != "lease" &&
                       name != kTimesFile && (checkpoint || name != trial.checkpoint(attempt).filename());
    if (final) seals[name] = seal_of_file(path);
  }
  return seals;
}

void require_agreement(const TrialFolder& trial, const TrialResult& result) {
  if (trial.exported() != nullptr) return;  // checked by read_export()
  const std::int64_t attempt = result_attempt(trial, result);
  const fs::path folder = attempt_folder(trial.path(), attempt);
  if (!fs::exists(folder) && last_attempt(trial.path()) > 0)
    contradict(beside(trial, folder), concat("attempt ", result.attempt), "no files");
  require_seed(trial, result);
  require_last_line(trial, result, trial.metrics(attempt));
  if (const fs::path path = folder / kCorrectnessFile; result.status == TrialEnd::done && fs::exists(path))
    require_count(trial, result, read_correctness(path), path);
}

bool has_curve(const TrialFolder& trial, const TrialResult& result) {
  if (trial.exported() != nullptr) return trial.exported()->metrics.has_value();
  const fs::path path = trial.metrics(result_attempt(trial, result));
  return fs::exists(path) || !removed_files(path.parent_path()).contains(path.filename().string());
}

std::vector<MetricsLine> read_result_metrics(const TrialFolder& trial, const TrialResult& result) {
  if (!has_curve(trial, result))
    throw InputError(concat(trial.exported() ? trial.exported()->where : trial.path().string(),
                            ": has no curve; export the trial again with `normlab export --full`"));
  if (trial.exported() != nullptr) return *trial.exported()->metrics;
  const fs::path path = trial.metrics(result_attempt(trial, result));
  std::vector<MetricsLine> lines = parse_metrics(read_listed(path, result), path);
  require_last_line(trial, result, path);
  return lines;
}

std::optional<Correctness> read_result_correctness(const TrialFolder& trial, const TrialResult& result) {
  if (const ExportedTrial* exported = trial.exported())
    throw InputError(concat("--bootstrap needs to know which test images each run gets right (", kCorrectnessFile,
                            "), which exported files do not hold; ", exported->where,
                            " is one; use the folder of the results (--out)"));
  const fs::path path = attempt_folder(trial.path(), result_attempt(trial, result)) / kCorrectnessFile;
  if (!fs::exists(path) &&
      (!result.files.contains(kCorrectnessFile) || removed_files(path.parent_path()).contains(kCorrectnessFile)))
    return std::nullopt;
  Correctness bits = parse_correctness(read_listed(path, result), path);
  require_count(trial, result, bits, path);
  return bits;
}

void require_listed(const fs::path& file, const std::string& trial_id) {
  const fs::path path = fs::absolute(file).lexically_normal(), folder = path.parent_path();
  const TrialFolder trial(folder.parent_path());
  const std::string id = trial.path().filename().string(), kDigits = "0123456789abcdef";
  if (id.size() != 64 || id.find_first_not_of(kDigits) != id.npos) return;
  if (!trial_id.empty() && trial_id != id)
    throw InputError(
        concat(file.string(), ": is a file of trial ", trial_id, ", but lies in the folder of another trial"));
  const std::optional<TrialResult> result = trial.load_result();
  if (!result || attempt_folder(trial.path(), result_attempt(trial, *result)) != folder) return;
  if (const auto listed = result->files.find(path.filename().string()); listed != result->files.end())
    require_seal(file, seal_of_file(path), listed->second);
}

std::uint64_t require_checkpoint_metrics(const SafetensorsFile& file, const fs::path& checkpoint,
                                         const fs::path& metrics) {
  const auto bytes = file.metadata().find(kMetricsBytesKey);
  if (bytes == file.metadata().end())
    throw InputError(concat(checkpoint.string(), ": its metadata lack \"", kMetricsBytesKey, '"'));
  const std::optional<std::uint64_t> stated = whole_number(bytes->second);
  if (!stated)
    throw InputError(concat(checkpoint.string(), ": metadata \"", kMetricsBytesKey, "\": ", in_quotes(bytes->second),
                            " is not a length"));
  const std::uint64_t length = *stated;
  std::error_code error;
  const std::uint64_t there = fs::file_size(metrics, error);
  if (length > 0 && (error || there < length))
    throw InputError(concat(checkpoint.string(), ": it was saved with ", length, " bytes of metrics, but ",
                            metrics.string(), " has ", error ? 0 : there));
  const auto stored = file.metadata().find(kMetricsHashKey);
  if (stored == file.metadata().end()) return length;
  const std::string text = length > 0 ? read_file(metrics) : std::string();
  if (const std::string found = sha256_hex(std::string_view(text).substr(0, length)); found != stored->second)
    throw InputError(concat(metrics.string(), ": is damaged: the SHA-256 of its first ", length, " bytes is ", found,
                            ", but it was ", stored->second));
  return length;
}

void note_removed(const fs::path& attempt_folder, const std::set<std::string>& names) {
  std::set<std::string> all = removed_files(attempt_folder);
  all.insert(names.begin(), names.end());
  write_atomically(attempt_folder / kRemovedFile, write_note({{"removed", all}}));
}

std::set<std::string> removed_files(const fs::path& attempt_folder) {
  const fs::path path = attempt_folder / kRemovedFile;
  if (!fs::exists(path)) return {};
  const nlohmann::json note = read_note(path);
  ObjectReader object(note, path.string());
  const nlohmann::json* list = object.optional("removed");
  if (list == nullptr) return {};
  std::set<std::string> names;
  for (const nlohmann::json& name : *list) {
    if (!name.is_string()) object.fail("removed", "expected a list of names");
    names.insert(name.get<std::string>());
  }
  return names;
}

}  // namespace normlab
