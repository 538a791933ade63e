// How many steps a training has: a function of its settings and of the number of training images alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "experiments/descriptor/config.h"

namespace normlab {

/// An epoch has floor(images / batch_size) steps, with drop_last false ceil; epochs, warm-up and evaluations are
/// counted in those. A length given in images is round(images / batch_size) steps whatever an epoch has (90 times
/// ImageNet's 1,281,167 at batch 1024: 112,603).
struct StepCount {
  std::int64_t per_epoch = 0, total = 0, warmup = 0;
  std::int64_t eval_every = 0;  // steps between two evaluations; 0: only at the end
};
/// InputError where problem_of_steps finds one.
StepCount count_steps(const TrainConfig& train, std::int64_t images);

/// `key` is that of "train" at fault.
struct StepProblem {
  std::string key, what;
};
/// None, or: a batch that may not be cut and is larger than the training set, no step, a cooldown that is longer than
/// the training, an average of weights that no step changes.
std::optional<StepProblem> problem_of_steps(const TrainConfig& train, std::int64_t images);

}  // namespace normlab
