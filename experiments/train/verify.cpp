#include "experiments/train/verify.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <limits>

#include "experiments/base/files.h"
#include "experiments/base/safetensors.h"
#include "experiments/base/scratch_folder.h"
#include "experiments/results/trial_files.h"
#include "experiments/train/checkpoint.h"
#include "experiments/train/trial_ranks.h"
#include "nn/engine.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

/// A state from which training can restart.
struct Start {
  std::int64_t step = 0, attempt = 0;  // attempt 0: the initial values
  std::string bits;                    // of the program that wrote the checkpoint
};

/// All states, ordered by step. Skips a checkpoint that is damaged or being replaced.
std::vector<Start> find_starts(const TrialFolder& trial) {
  std::vector<Start> starts{{}};
  for (std::int64_t attempt = 1; attempt <= last_attempt(trial.path()); ++attempt) {
    if (!fs::exists(trial.checkpoint(attempt))) continue;
    try {
      const SafetensorsFile file = SafetensorsFile::read(trial.checkpoint(attempt));
      starts.push_back({std::stoll(file.metadata().at("normlab.step")), attempt, file.metadata().at("normlab.bits")});
    } catch (const InputError&) {
    } catch (const std::logic_error&) {  // thrown by at() and stoll()
    }
  }
  std::stable_sort(starts.begin(), starts.end(), [](const Start& a, const Start& b) { return a.step < b.step; });
  return starts;
}

using Records = std::map<std::int64_t, StateRecord>;
/// The records of all attempts. If two recorded the same step and disagree, `difference` says so.
Records find_records(const TrialFolder& trial, std::optional<std::string>& difference) {
  Records records;
  for (std::int64_t attempt = 1; attempt <= last_attempt(trial.path()); ++attempt)
    for (const StateRecord& record : read_state_records(attempt_folder(trial.path(), attempt) / kStatesFile)) {
      const auto [there, is_new] = records.emplace(record.step, record);
      if (!is_new && there->second != record && !difference)
        difference = fmt::format("step {}: the recorded state of attempt {} differs from that of the attempt before",
                                 record.step, attempt);
    }
  return records;
}

/// Lines of training steps; lines of probes depend on the descriptor that requested them.
std::map<std::int64_t, MetricsLine> find_metrics(const fs::path& path) {
  std::map<std::int64_t, MetricsLine> lines;
  if (fs::exists(path))
    for (const MetricsLine& line : read_metrics(path))
      if (line.values.contains("train/loss")) lines[line.step] = line;
  return lines;
}

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}
/// The first metric that differs; empty if none does.
std::string first_difference(const std::map<std::string, double>& before, const std::map<std::string, double>& now) {
  for (const auto& [name, value] : before) {
    const auto found = now.find(name);
    if (found == now.end()) return fmt::format("{} is {} in the record, but is not measured now", name, value);
    if (!same_bits(value, found->second))
      return fmt::format("{} is {} in the record, but {} now", name, value, found->second);
  }
  for (const auto& [name, value] : now)
    if (!before.contains(name)) return fmt::format("{} is {} now, but is not in the record", name, value);
  return "";
}

class Verification {
 public:
  Verification(const TrialConfig& config, const TrialFolder& trial, const DataPair& data, const VerifyOptions& options)
      : config_(config),
        trial_(trial),
        data_(data),
        options_(options),
        starts_(find_starts(trial)),
        records_(find_records(trial, report_.difference)),
        result_(trial.load_result()) {
    metrics_ = find_metrics(trial.metrics(result_ ? result_attempt(trial, *result_) : last_attempt(trial.path())));
  }

  VerifyReport run() {
    const Start start = choose();
    report_.from = start.step;
    report_.to = start.step + options_.steps;
    report_.start = start.attempt == 0 ? fmt::format("the initial values of seed {}", config_.seed)
                                       : fmt::format("the checkpoint of attempt {}", start.attempt);
    if (report_.difference) return report_;
    require_same_program(start);
    const ScratchFolder scratch("normlab-verify");
    train_again(start, TrialFolder(scratch.path() / "trials" / trial_.path().filename()));
    return report_;
  }

 private:
  bool comparable(const Start& start) const {
    const auto next = records_.upper_bound(start.step);
    return next != records_.end() && next->first <= start.step + options_.steps;
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
    const auto next = records_.upper_bound(candidates.back().step);
    if (next == records_.end() && candidates.size() == 1)
      throw InputError(fmt::format("{}: no state is recorded after step {}; {}", trial_.path().string(),
                                   candidates.back().step, can));
    std::int64_t needed = std::numeric_limits<std::int64_t>::max();
    for (const Start& start : candidates)
      if (const auto after = records_.upper_bound(start.step); after != records_.end())
        needed = std::min(needed, after->first - start.step);
    if (needed == std::numeric_limits<std::int64_t>::max())
      throw InputError(fmt::format("{}: no state is recorded; a trial records its first after {} steps",
                                   trial_.path().string(), kRecordAfter));
    throw InputError(
        fmt::format("{}: no state is recorded within {} steps of where the check can begin; use --steps {}",
                    trial_.path().string(), options_.steps, needed));
  }

  void require_same_program(const Start& start) const {
    std::string bits = start.bits;
    if (start.attempt == 0 && starts_.size() > 1) bits = starts_[1].bits;
    if (const std::string* const stated = result_ ? result_->stated("bits") : nullptr; stated && bits.empty())
      bits = *stated;
    if (start.attempt == 0 && result_)  // a checkpoint records its data and is refused with others
      if (const std::string* const hash = result_->stated("data_hash"); hash != nullptr && *hash != data_hash(data_))
        throw InputError(fmt::format("{}: was trained on data with hash {}, but the data here has hash {}",
                                     trial_.path().string(), *hash, data_hash(data_)));
    const std::string here = bits_identity(*options_.backend, config_.train.precision, options_.gpu_shards);
    if (options_.allow_different_bits || bits.empty() || bits == here) return;
    throw InputError(
        fmt::format("{}: was trained by another program, and only the same program gives equal bits:\n"
                    "  it:   {}\n  this: {}\nUse that program, or compare anyway with --allow-different-bits",
                    trial_.path().string(), bits, here));
  }

  void train_again(const Start& start, const TrialFolder& scratch) {
    make_folders(attempt_folder(scratch.path(), 1));
    TrialOptions options;
    options.backend = options_.backend;
    options.threads = options_.threads;
    options.gpu_shards = options_.gpu_shards;
    options.start = options_.start;
    options.allow_different_bits = true;  // checked in require_same_program()
    options.checkpoint.seconds = std::numeric_limits<double>::infinity();
    for (const auto& [step, record] : records_)
      if (step > start.step && step <= report_.to) options.record_at.insert(step);
    if (start.attempt > 0) {
      std::error_code error;
      fs::copy_file(trial_.checkpoint(start.attempt), scratch.checkpoint(1), error);
      if (error) throw_system_error("copy the checkpoint to", scratch.checkpoint(1), error.value());
      fs::copy_file(trial_.metrics(start.attempt), scratch.metrics(1), error);
      if (error) throw_system_error("copy the metrics to", scratch.metrics(1), error.value());
    } else if (options_.steps > 1) {  // so that it resumes from a checkpoint as well
      options.stop_at = options_.steps / 2;
      train(scratch, options);
    }
    options.stop_at = report_.to;
    train(scratch, options);
    compare(start, scratch);
  }

  void train(const TrialFolder& scratch, const TrialOptions& options) {
    if (scratch.finished()) return;  // it finished in the first half
    const std::optional<Claim> claim = Claim::acquire(scratch.path());
    if (!claim) throw EnvironmentError(scratch.path().string() + ": another process is using this scratch folder");
    run_trial_on(options_.ranks, config_, trial_.path().filename().string(), data_, scratch, *claim, options);
  }

  void compare(const Start& start, const TrialFolder& scratch) {
    std::optional<std::string> between;
    const Records now = find_records(scratch, between);
    const auto metrics_now = find_metrics(scratch.metrics(last_attempt(scratch.path())));
    std::set<std::int64_t> steps;
    for (const auto& [step, record] : records_) steps.insert(step);
    for (const auto& [step, line] : metrics_) steps.insert(step);
    for (const std::int64_t step : steps) {
      if (step <= start.step || step > report_.to) continue;
      if (!compare_metrics(step, metrics_now) || !compare_states(step, now)) return;
    }
    compare_results(scratch.load_result());
  }

  bool differs(std::int64_t step, const std::string& what) {
    report_.difference = fmt::format("step {}: {}", step, what);
    return false;
  }

  bool compare_metrics(std::int64_t step, const std::map<std::int64_t, MetricsLine>& now) {
    const auto before = metrics_.find(step);
    const auto again = now.find(step);
    if (before == metrics_.end()) return true;
    if (again == now.end()) return differs(step, "no metrics were written");
    const std::string difference = first_difference(before->second.values, again->second.values);
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
      Engine engine(cpu_backend(), pool, config_.model, engine_settings(config_));
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
    const std::string difference = first_difference(result_->metrics, measured);
    if (!difference.empty())
      differs(now->steps, difference);
    else
      report_.result = true;
  }

  const TrialConfig& config_;
  const TrialFolder& trial_;
  const DataPair& data_;
  const VerifyOptions& options_;
  VerifyReport report_;
  const std::vector<Start> starts_;
  const Records records_;
  const std::optional<TrialResult> result_;
  std::map<std::int64_t, MetricsLine> metrics_;
};

}  // namespace

VerifyReport verify_trial(const TrialConfig& config, const TrialFolder& trial, const DataPair& data,
                          const VerifyOptions& options) {
  return Verification(config, trial, data, options).run();
}

}  // namespace normlab
