#include "experiments/lab/train/verify.h"
#include "experiments/lab/train/provenance.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <limits>
#include <map>

#include "experiments/lab/base/files.h"
#include "experiments/lab/base/folders.h"
#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/descriptor/metric_names.h"
#include "experiments/lab/train/checkpoint.h"
#include "experiments/lab/trials/loss_meaning.h"
#include "experiments/lab/trials/trial_files.h"
#include "nn/training/engine.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

/// A state from which training can restart.
struct Start {
  std::int64_t step = 0, attempt = 0;  // attempt 0: the initial values
  std::string bits;                    // of the program that wrote the checkpoint
};

/// All states, ordered by step. Skips a checkpoint that is damaged or being replaced. InputError if the metrics that a
/// checkpoint was saved with are missing or damaged.
std::vector<Start> find_starts(const TrialFolder& trial) {
  std::vector<Start> starts{{}};
  for (const std::int64_t attempt : attempts_in(trial.path())) {
    const fs::path checkpoint = trial.checkpoint(attempt);
    if (!fs::exists(checkpoint)) continue;
    std::optional<SafetensorsFile> file;
    try {
      file = SafetensorsFile::read(checkpoint);
      starts.push_back({std::stoll(file->metadata().at("normlab.step")), attempt, file->metadata().at("normlab.bits")});
    } catch (const InputError&) {
      continue;
    } catch (const std::logic_error&) {  // thrown by at() and stoll()
      continue;
    }
    require_checkpoint_metrics(*file, checkpoint, trial.metrics(attempt));
  }
  std::stable_sort(starts.begin(), starts.end(), [](const Start& a, const Start& b) { return a.step < b.step; });
  return starts;
}

using Records = std::map<std::int64_t, StateRecord>;
/// The records of all attempts. If two recorded the same step and disagree, `difference` says so. InputError for a file
/// that does not match its seal.
Records find_records(const TrialFolder& trial, std::optional<std::string>& difference) {
  Records records;
  for (const std::int64_t attempt : attempts_in(trial.path())) {
    const fs::path path = attempt_folder(trial.path(), attempt) / kStatesFile;
    if (fs::exists(path)) require_listed(path, "");
    for (const StateRecord& record : read_state_records(path)) {
      const auto [there, is_new] = records.emplace(record.step, record);
      if (!is_new && there->second != record && !difference)
        difference = fmt::format("step {}: the recorded state of attempt {} differs from that of the attempt before",
                                 record.step, attempt);
    }
  }
  return records;
}

using Metrics = std::map<std::int64_t, MetricsLine>;
/// The trial's record. InputError if a result's metrics are missing or damaged, unless they were left out on purpose.
Metrics find_metrics(const TrialFolder& trial, const std::optional<TrialResult>& result) {
  if (result && result->status != TrialEnd::failed)
    return has_curve(trial, *result) ? of_training(read_result_metrics(trial, *result)) : Metrics();
  const fs::path path = trial.metrics(result ? result_attempt(trial, *result) : last_attempt(trial.path()));
  return fs::exists(path) ? of_training(read_metrics(path)) : Metrics();
}

struct Verification {
  Verification(const TrialConfig& config, const TrialFolder& trial, const DataPair& data, const VerifyOptions& options)
      : config_(config), trial_(trial), data_(data), options_(options) {}

  TrialConfig config_;
  const TrialFolder& trial_;
  const DataPair& data_;
  const VerifyOptions& options_;
  VerifyReport report_{};
  const std::vector<Start> starts_ = find_starts(trial_);
  const Records records_ = find_records(trial_, report_.difference);
  const std::optional<TrialResult> result_ = trial_.load_result();
  const Metrics metrics_ = find_metrics(trial_, result_);

  VerifyReport run() {
    for (const auto& [step, line] : metrics_) request(line.values);
    if (result_) request(result_->metrics);
    const Start start = choose();
    report_.from = report_.to = start.step;
    report_.start = start.attempt == 0 ? fmt::format("the initial values of seed {}", config_.seed)
                                       : fmt::format("the checkpoint of attempt {}", start.attempt);
    if (report_.difference) return report_;
    require_same_program(start);
    const TemporaryFolderBeside scratch(std::filesystem::temp_directory_path() / "normlab-verify");
    train_again(start, TrialFolder(scratch.path() / "trials" / trial_.path().filename()));
    return report_;
  }

 private:
  /// No part of a trial's settings, but its record has them.
  void request(const std::map<std::string, double>& recorded) {
    for (const EvalMetric metric : requests_in(recorded))
      if (!measures(config_, metric)) config_.eval.metrics.push_back(metric);
  }

  std::int64_t last_step(const Start& start) const { return start.step + options_.steps; }
  bool comparable(const Start& start) const {
    const auto next = records_.upper_bound(start.step);
    return next != records_.end() && next->first <= last_step(start);
  }

  Start choose() const {
    std::vector<std::int64_t> steps;
    for (const Start& start : starts_) steps.push_back(start.step);
    const std::string can = fmt::format("the check can begin at step {}", fmt::join(steps, ", "));
    std::vector<Start> candidates;
    for (const Start& start : starts_)
      if (!options_.from || start.step == *options_.from) candidates.push_back(start);
    if (candidates.empty())
      throw InputError(fmt::format("{}: no checkpoint at step {}; {}", trial_.path().string(), *options_.from, can));
    for (std::size_t i = candidates.size(); i-- > 0;)
      if (comparable(candidates[i])) return candidates[i];
    std::optional<std::int64_t> needed;
    for (const Start& start : candidates)
      if (const auto after = records_.upper_bound(start.step); after != records_.end())
        needed = std::min(needed.value_or(after->first), after->first - start.step);
    if (!needed) throw InputError(fmt::format("{}: {}", trial_.path().string(), nothing_later(candidates.back())));
    throw InputError(
        fmt::format("{}: no state is recorded within {} steps of where the check can begin; use --steps {}",
                    trial_.path().string(), options_.steps, *needed));
  }

  /// Why no state is recorded after `start`, and what to do.
  std::string nothing_later(const Start& start) const {
    if (!records_.empty())
      return fmt::format("no state is recorded after step {}, so there is nothing to compare with; use --from-step 0",
                         start.step);
    return fmt::format("no state is recorded, so there is nothing to compare with: {}", without_records());
  }
  std::string without_records() const {
    std::string first = fmt::format("a trial records its first after {} steps", kRecordAfter);
    if (!result_ || result_->status == TrialEnd::failed) return first;
    if (removed_files(attempt_folder(trial_.path(), result_attempt(trial_, *result_))).contains(kStatesFile))
      return fmt::format(
          "{} was left out of an archive; give that archive with --from, to compare the result of a whole training",
          kStatesFile);
    if (const auto step = result_->diverged_step; step && *step <= kRecordAfter)
      return fmt::format("{}, and this one diverged at step {}", first, *step);
    return fmt::format("{} is missing or empty; `normlab verify --files` names what is damaged", kStatesFile);
  }

  void require_same_program(const Start& start) const {
    std::string bits = start.bits;
    if (start.attempt == 0 && starts_.size() > 1) bits = starts_[1].bits;
    if (const std::string* const stated = result_ ? result_->stated("bits") : nullptr; stated && bits.empty())
      bits = *stated;
    if (start.attempt == 0 && result_)  // a checkpoint records its data and is refused with others
      if (const std::string* const hash = result_->stated("data_hash"); hash != nullptr && *hash != data_hash(data_))
        throw InputError(fmt::format("{}: was trained on data with hash {}, but the data here has hash {}{}",
                                     trial_.path().string(), *hash, data_hash(data_),
                                     note_of_data(config_.dataset, data_)));
    const std::string here = bits_identity(*options_.backend, config_.train.precision, options_.gpu_shards,
                                           formula_compiler_of(*options_.backend, config_.model));
    if (options_.allow_different_bits || bits.empty() || bits == here) return;
    throw InputError(
        fmt::format("{}: was trained by another program, and only the same program gives equal bits:\n"
                    "  it:   {}\n  this: {}\nUse that program, or compare anyway with --allow-different-bits",
                    trial_.path().string(), bits, here));
  }

  void train_again(const Start& start, const TrialFolder& scratch) {
    make_folders(attempt_folder(scratch.path(), 1));
    TrialOptions options = options_;
    options.allow_different_bits = true;  // checked in require_same_program()
    for (const auto& [step, record] : records_)
      if (step > start.step && step <= last_step(start)) options.record_at.insert(step);
    if (start.attempt > 0) {
      std::error_code error;
      fs::copy_file(trial_.checkpoint(start.attempt), scratch.checkpoint(1), error);
      if (error) throw_system_error("copy the checkpoint to", scratch.checkpoint(1), error.value());
      fs::copy_file(trial_.metrics(start.attempt), scratch.metrics(1), error);
      if (error) throw_system_error("copy the metrics to", scratch.metrics(1), error.value());
    } else if (options_.steps > 1) {  // so that it resumes from a checkpoint as well
      options.stop_at = options_.steps / 2;
      train_in_scratch(config_, scratch, data_, options);
    }
    options.stop_at = last_step(start);
    train_in_scratch(config_, scratch, data_, options);
    const std::optional<TrialResult> now = scratch.load_result();
    report_.to = now ? now->steps : last_step(start);
    compare(start, scratch, now);
  }

  void compare(const Start& start, const TrialFolder& scratch, const std::optional<TrialResult>& result_now) {
    std::optional<std::string> between;
    const Records now = find_records(scratch, between);
    const Metrics metrics_now = find_metrics(scratch, result_now);
    std::set<std::int64_t> steps;
    for (const auto& [step, record] : records_) steps.insert(step);
    for (const auto& [step, line] : metrics_) steps.insert(step);
    for (const std::int64_t step : steps) {
      if (step <= start.step || step > last_step(start)) continue;
      if (!compare_metrics(step, metrics_now) || !compare_states(step, now)) return;
    }
    compare_results(result_now);
  }

  bool differs(std::int64_t step, const std::string& what) {
    report_.difference = fmt::format("step {}: {}", step, what);
    return false;
  }

  /// first_difference() of what the version that wrote the record, perhaps an older one, measures as this one does.
  std::string difference_of(std::map<std::string, double> before, std::map<std::string, double> now, bool older) {
    report_.older = report_.older || older;
    if (older)
      for (auto* metrics : {&before, &now}) remove_unlike_older(*metrics, config_);
    return first_difference(before, now);
  }

  bool compare_metrics(std::int64_t step, const Metrics& now) {
    const auto before = metrics_.find(step);
    const auto again = now.find(step);
    if (before == metrics_.end()) return true;
    if (again == now.end()) return differs(step, "no metrics were written");
    const std::string difference =
        difference_of(before->second.values, again->second.values, !before->second.values.contains(kTrainRate));
    if (!difference.empty()) return differs(step, difference);
    ++report_.metrics;
    return true;
  }

  bool compare_states(std::int64_t step, const Records& now) {
    const auto before = records_.find(step);
    const auto again = now.find(step);
    if (before == records_.end()) return true;
    if (again == now.end()) return differs(step, "the training ended before it");
    if (before->second != again->second) {
      ShardPool pool(1);
      EngineSettings settings = engine_settings(config_);
      settings.precision = Precision::fp32;  // names do not depend on it, and any CPU has it
      Engine engine(cpu_backend(), pool, config_.model, settings);
      const std::vector<std::string> names = state_names(engine);
      for (std::size_t i = 0; i < names.size(); ++i)
        if (i >= before->second.tensors.size() || before->second.tensors[i] != again->second.tensors[i])
          return differs(step, fmt::format("tensor {} differs", names[i]));
      return differs(step, "the hash of all tensors differs");
    }
    ++report_.states;
    report_.tensors = again->second.tensors.size();
    return true;
  }

  void compare_results(const std::optional<TrialResult>& now) {
    if (!now || !result_ || result_->status == TrialEnd::failed) return;
    if (now->status != result_->status || now->diverged_step != result_->diverged_step) {
      differs(now->steps,
              fmt::format("it is {} now, but {} in the record", word_of(now->status), word_of(result_->status)));
      return;
    }
    std::map<std::string, double> measured = now->metrics;
    if (!result_->metrics.contains(kFirstLoss)) measured.erase(kFirstLoss);  // of a version that did not record it
    const std::string difference = difference_of(result_->metrics, measured, !averages_last_steps(*result_));
    if (!difference.empty())
      differs(now->steps, difference);
    else
      report_.result = true;
  }
};

}  // namespace

void train_in_scratch(const TrialConfig& config, const TrialFolder& folder, const DataPair& data,
                      TrialOptions options) {
  if (folder.finished()) return;
  options.checkpoint.seconds = std::numeric_limits<double>::infinity();
  const std::optional<Claim> claim = Claim::acquire(folder.path());
  if (!claim) throw EnvironmentError(folder.path().string() + ": another process is using this scratch folder");
  run_trial(config, folder.path().filename().string(), data, folder, &*claim, options);
}

std::map<std::int64_t, MetricsLine> of_training(const std::vector<MetricsLine>& lines) {
  Metrics metrics;
  for (const MetricsLine& line : lines)
    if (line.values.contains(kTrainLoss)) metrics[line.step] = line;
  return metrics;
}

std::string first_difference(const std::map<std::string, double>& record, const std::map<std::string, double>& now) {
  for (const auto& [name, value] : record) {
    const auto found = now.find(name);
    if (found == now.end()) return fmt::format("{} is {} in the record, but is not measured now", name, value);
    if (!same_bits(value, found->second))
      return fmt::format("{} is {} in the record, but {} now", name, value, found->second);
  }
  for (const auto& [name, value] : now)
    // A descriptor may have asked for more since.
    if (!record.contains(name) && !requested_by(name))
      return fmt::format("{} is {} now, but is not in the record", name, value);
  return "";
}

VerifyReport verify_trial(const TrialConfig& config, const TrialFolder& trial, const DataPair& data,
                          const VerifyOptions& options) {
  return Verification(config, trial, data, options).run();
}

}  // namespace normlab
