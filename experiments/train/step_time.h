// How long a training's images take on this machine, measured.
#pragma once

#include <optional>
#include <vector>

#include "experiments/descriptor/config.h"
#include "experiments/train/cost.h"

namespace normlab {

/// Seconds of one core for one image, while all cores train.
struct StepTime {
  double training = 0, evaluation = 0;
  /// Of all images of a trial.
  double seconds(const TrialCost& cost) const { return training * cost.images + evaluation * cost.evaluated; }
};

/// Where products are all that takes time: 6 flops a multiply-add of a training image, 2 of an evaluated one, at
/// `gflops` of one core.
StepTime time_by_products(const ModelCost& model, double gflops);

/// Times of the networks of `configs` in their precision, with their optimiser and their augmentation of images in
/// memory: those that an earlier call of this binary on this kind of CPU keeps in ~/.cache/normlab, and for the others
/// steps on noise, by one process a core at once, for about a second in all. A large network is measured on fewer
/// images and blocks, and its products do the rest. What a second is too short for follows the others by its products.
/// By default_gflops() where nothing can be measured, as where the CPU lacks the precision. Must be called before the
/// process starts threads.
std::vector<StepTime> measured_step_times(const std::vector<const TrialConfig*>& configs, int cores);

}  // namespace normlab
