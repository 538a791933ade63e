#include "experiments/lab/sweep/verify_files.h"

#include <algorithm>
#include <functional>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/sweep/plan_file.h"
#include "experiments/lab/trials/correctness_file.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

class FilesCheck {
 public:
  FilesCheck(const ResultStore& store, bool unfinished) : store_(store), unfinished_(unfinished) {}

  FilesReport run() {
    for (const std::string& id : store_.trial_ids())
      if (const TrialFolder trial = store_.trial(id); unfinished_ || trial.result_text()) check_trial(trial);
    for (const fs::path& folder : list_folder(store_.out() / "experiments")) check_experiment(folder);
    return std::move(report_);
  }

 private:
  /// Reports what `read` throws as a problem.
  void check(const std::function<void()>& read) {
    try {
      read();
    } catch (const InputError& error) {
      problem(error.what());
    } catch (const std::exception& error) {  // of a library, for example for a file that vanishes while being read
      if (!unfinished_) throw;               // of the machine, not of a file
      problem(error.what());
    }
  }
  void problem(std::string text) {
    for (std::size_t at = 0; (at = text.find('\n', at)) != text.npos;) text.replace(at, 1, " ");
    // Two ways to the same file give the same message.
    if (std::find(report_.problems.begin(), report_.problems.end(), text) == report_.problems.end())
      report_.problems.push_back(std::move(text));
  }
  bool take(const fs::path& file) {
    const bool there = fs::exists(file);
    report_.files += there ? 1 : 0;
    return there;
  }

  void check_trial(const TrialFolder& trial) {
    ++report_.trials;
    std::optional<TrialResult> result;
    const bool has_result = take(trial.path() / "result.json");
    if (has_result) check([&] { result = trial.load_result(); });
    const std::vector<std::int64_t> attempts = attempts_in(trial.path());
    // A process that was killed right after creating the folder leaves it empty.
    if (take(trial.path() / "config.json") || has_result || !attempts.empty()) check([&] { read_trial_config(trial); });
    std::optional<Owner> owner;
    check([&] { owner = read_claim(trial.path()); });
    const bool runs = owner && !is_dead(*owner);
    const bool finished = result && result->status != TrialEnd::failed;
    if (finished)
      check_result(trial, *result);
    else if (!has_result || result)
      ++report_.unfinished, report_.running += runs ? 1 : 0;
    for (const std::int64_t attempt : attempts)
      if (!runs || attempt != owner->attempt) check_attempt(trial, attempt);
  }

  void check_result(const TrialFolder& trial, const TrialResult& result) {
    ++(result.sealed ? report_.sealed : report_.unsealed);
    check([&] { require_agreement(trial, result); });
    const fs::path folder = attempt_folder(trial.path(), result_attempt(trial, result));
    std::set<std::string> removed;
    check([&] { removed = removed_files(folder); });
    for (const auto& [name, listed] : result.files) {
      const fs::path path = folder / name;
      if (fs::exists(path))
        check([&, &listed = listed] { require_seal(path, seal_of_file(path), listed); });
      else if (removed.contains(name))
        ++report_.removed;
      else
        problem(concat(path.string(), ": is missing, but its result lists ", listed.bytes, " bytes of it"));
    }
    if (result.files.empty() && has_curve(trial, result)) check([&] { read_result_metrics(trial, result); });
    check([&] { read_result_correctness(trial, result); });
  }

  void check_attempt(const TrialFolder& trial, std::int64_t attempt) {
    const fs::path folder = attempt_folder(trial.path(), attempt);
    if (const fs::path path = trial.metrics(attempt); take(path)) check([&] { read_metrics(path); });
    if (const fs::path path = folder / kCorrectnessFile; take(path)) check([&] { read_correctness(path); });
    std::vector<StateRecord> records;
    if (const fs::path path = folder / kStatesFile; take(path)) check([&] { records = read_state_records(path); });
    for (const fs::path& path : {trial.checkpoint(attempt), folder / kWeightsFile})
      if (take(path)) check([&] { check_checkpoint(trial, attempt, path, records); });
  }

  void check_checkpoint(const TrialFolder& trial, std::int64_t attempt, const fs::path& path,
                        const std::vector<StateRecord>& records) {
    const SafetensorsFile file = SafetensorsFile::read(path);
    require_sealed_safetensors(file, path);
    const auto value = [&](const char* key) { return found_or(file.metadata(), key); };
    const std::string id = trial.path().filename().string();
    if (value(kTrialKey) != id) throw InputError(concat(path.string(), ": is a file of trial ", value(kTrialKey)));
    if (path != trial.checkpoint(attempt)) return;
    require_checkpoint_metrics(file, path, trial.metrics(attempt));
    for (const StateRecord& record : records)
      if (std::to_string(record.step) == value("normlab.step") && record.state != value(kStateHashKey))
        throw InputError(concat(path.string(), ": holds the state ", value(kStateHashKey), " of step ", record.step,
                                ", but ", kStatesFile, " next to it has ", record.state));
  }

  void check_experiment(const fs::path& folder) {
    const std::string stem = folder.filename().string();
    if (take(folder / "plan.json")) check([&] { read_plan_file(store_, stem); });
    for (const char* part : {"fixed", "tabled"})
      for (const fs::path& path : list_folder(folder / part))
        if (path.extension() == ".json" && take(path)) check([&] { read_note(path); });
  }

  const ResultStore& store_;
  const bool unfinished_;
  FilesReport report_;
};

}  // namespace

FilesReport verify_files(const ResultStore& store, bool unfinished) { return FilesCheck(store, unfinished).run(); }

}  // namespace normlab
