// What the batches of a training give its batch norms.
#pragma once

#include <cstdint>
#include <optional>

#include "experiments/lab/descriptor/step_count.h"

namespace normlab {

/// Sets `running` to `moot` at every batch norm where it changes nothing: without several groups in a step, or frozen.
/// The trial must be valid.
void settle_running(TrialConfig& trial, RunningFrom moot);
/// Sets it everywhere.
void set_running(ModelConfig& model, RunningFrom to);

/// nullopt, or a batch norm that some step gives a single value per channel, which has no variance. `images` to train
/// on; nullopt: unknown, so an epoch's last batch is not considered. The key is the whole path.
std::optional<StepProblem> problem_of_statistics(const TrialConfig& trial, std::optional<std::int64_t> images);
/// Whether that depends on the number of images.
bool statistics_need_images(const TrialConfig& trial);

/// InputError for the first of problem_of_steps, problem_of_warmup and problem_of_statistics.
void require_trainable(const TrialConfig& trial, std::int64_t images);

}  // namespace normlab
