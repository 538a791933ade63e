// Runs a trial from its first step, or its last checkpoint, to its result.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <set>

#include "core/devices.h"
#include "core/group.h"
#include "experiments/lab/data/dataset.h"
#include "experiments/lab/descriptor/probes.h"
#include "experiments/lab/train/batches.h"
#include "experiments/lab/train/work_times.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

/// Progress that a running trial reports at intervals.
struct TrialProgress {
  std::int64_t step = 0, steps = 0;
  double loss = 0.0;
  std::int64_t images = 0;  // trained on since the last report
};

/// Networks that a GPU trains together.
inline constexpr int kMostStacked = 128;

/// What a command says of all its trainings.
struct TrainingOptions {
  int threads = 1;              // of each process
  int data_threads = 0;         // extra threads that prepare the next batches; 0: prepared in the step
  Team team{};                  // processes that train a trial together
  std::int64_t gpu_shards = 1;  // of a batch on GPUs, which affect the bits; see EngineSettings
  int stack = 1;                // networks that a GPU trains together
  bool allow_different_bits = false;
};

struct TrialOptions : TrainingOptions {
  CheckpointConfig checkpoint{};
  ProbeConfig probes{};  // measurements written to metrics.jsonl
  Backend* backend = &cpu_backend();
  const std::atomic<bool>* stop = nullptr;         // set by a signal: ends at the next step, with a checkpoint
  std::int64_t stop_at = 0;                        // the same after this many steps; 0: never
  std::set<std::int64_t> record_at{};              // additional steps after which the state is recorded
  std::function<std::filesystem::path()> start{};  // finds the file of the weights that config.start identifies
  std::filesystem::path tensorboard{};             // folder for an event file of this trial; empty: none
  std::function<void(const TrialProgress&)> report = nullptr;
  WorkClock* clock = nullptr;  // may be null
};

/// lost: another process has taken the trial over, or published its result first.
enum class TrialOutcome { done, diverged, stopped, lost };

inline EngineSettings engine_settings(const TrialConfig& config, std::int64_t gpu_shards = 1) {
  return {config.train, config.train.batch_size, config.seed, 0, gpu_shards};
}

/// Trains and publishes the result, or writes a checkpoint if it is stopped. `claim` is this process's right to the
/// trial. InputError and EnvironmentError leave existing files unchanged. All processes of a team's group call it; the
/// first one alone has the claim, writes files, reports and decides when to stop. The others give null.
TrialOutcome run_trial(const TrialConfig& config, const std::string& id, const DataPair& data,
                       const TrialFolder& folder, const Claim* claim, const TrialOptions& options);

/// InputError if a team cannot divide a trial among its processes. `gpu_shards`: 0 on CPUs.
void require_divisible(const Team& team, const TrialConfig& config, std::int64_t gpu_shards);

/// InputError, the same in all processes, unless `here`, the value of `what`, is that of the first one everywhere.
void require_equal(Group& group, const std::string& what, const std::string& here);

}  // namespace normlab
