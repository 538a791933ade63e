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
  double seconds(const TrialCost& cost) const {
    const double share = double(cost.head_macs) / double(cost.model.macs);
    if (cost.features.once()) return evaluation * cost.features.images + share * training * cost.images;
    return training * cost.images + evaluation * cost.evaluated;
  }
};

/// The time of the matrix products alone: 6 flops per multiply-add of a training image, 2 of an evaluated one, at
/// `gflops` per core.
StepTime time_by_products(const ModelCost& model, double gflops);

/// Times for the networks of `configs`, each with its precision, optimiser and augmentation of images in memory. Reuses
/// times that an earlier call of this binary on this kind of CPU stored in ~/.cache/normlab. Otherwise, one process per
/// core measures steps on noise images, for about a second in total. A large network is measured with fewer images and
/// blocks and scaled by its multiply-adds; what does not fit into the second is scaled from the nearest measured
/// network. If nothing can be measured, as without the precision on this CPU, uses default_gflops(). Call it before the
/// process starts threads.
std::vector<StepTime> measured_step_times(const std::vector<const TrialConfig*>& configs, int cores);

}  // namespace normlab
