// The number of training steps, from the settings and the number of training images.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "experiments/lab/descriptor/config.h"

namespace normlab {

/// An epoch has floor(images / batch_size) steps, or ceil if drop_last is false; epochs, warm-up and evaluations
/// are counted in these. A length in images is round(images / batch_size) steps (90 times ImageNet's 1,281,167
/// at batch 1024: 112,603).
struct StepCount {
  std::int64_t per_epoch = 0, total = 0, warmup = 0;
  std::int64_t eval_every = 0;  // steps between evaluations; 0: only at the end
};
/// InputError if problem_of_steps() finds a problem.
StepCount count_steps(const TrainConfig& train, std::int64_t images);

/// `key` names the setting in "train".
struct StepProblem {
  std::string key, what;
};
/// nullopt, or: an indivisible batch larger than the training set, no step, a cooldown longer than the training, an
/// average of weights that no step updates.
std::optional<StepProblem> problem_of_steps(const TrainConfig& train, std::int64_t images);
/// nullopt, or a warm-up longer than the training; nullopt also after another problem. Not an error of count_steps(),
/// since trials of earlier versions have one.
std::optional<StepProblem> problem_of_warmup(const TrainConfig& train, std::int64_t images);

// --- what the batches of a training give its batch norms

/// Sets `running` to `moot` at every batch norm where it changes nothing: without several groups in a step, or frozen.
/// Sets first_group where first_group_of_step means the same, since a step has one part. The trial must be valid.
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
