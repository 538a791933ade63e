// Measures how long a training takes per image on this machine.
#pragma once

#include <optional>
#include <vector>

#include "experiments/descriptor/config.h"
#include "experiments/train/cost.h"

namespace normlab {

/// Core seconds per image while all cores train.
struct StepTime {
  double training = 0, evaluation = 0;
  /// Core seconds for all images of a trial.
  double seconds(const TrialCost& cost) const { return training * cost.images + evaluation * cost.evaluated; }
};

/// The time of the matrix products alone: 6 flops per multiply-add of a training image, 2 of an evaluated one, at
/// `gflops` per core.
StepTime time_by_products(const ModelCost& model, double gflops);

/// Times for the networks of `configs`, each with its precision, optimiser and augmentation of images in memory. Times
/// that an earlier call of this binary on this kind of CPU stored in ~/.cache/normlab are reused. The others are
/// measured on noise images by one process per core concurrently, for about a second in total. A large network is
/// measured with fewer images and blocks, and scaled by its multiply-adds. What does not fit into that second is scaled
/// from the nearest measured network. If nothing can be measured, for example because the CPU lacks the precision,
/// default_gflops() is used. Call it before the process starts threads.
std::vector<StepTime> measured_step_times(const std::vector<const TrialConfig*>& configs, int cores);

}  // namespace normlab
