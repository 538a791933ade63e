// Measures how long a training takes per image on this machine.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/lab/base/machine_load.h"
#include "experiments/lab/descriptor/config.h"
#include "experiments/lab/train/cost.h"

namespace normlab {

/// Core seconds per image while all cores train.
struct StepTime {
  double training = 0, evaluation = 0;  // with the making of the image
  double making = 0;                    // of a training image, the part of `training` before the network; 0: unknown
  bool decodes = false;                 // making it includes decoding its file
  /// Core seconds for all images of a trial.
  double seconds(const TrialCost& cost) const {
    const double share = double(cost.head_macs) / double(cost.model.macs);
    if (cost.features.once()) return evaluation * cost.features.images + share * (training - making) * cost.images;
    return training * cost.images + evaluation * cost.evaluated;
  }
};

/// The time of the matrix products alone: 6 flops per multiply-add of a training image, 2 of an evaluated one, at
/// `gflops` per core.
StepTime time_by_products(const ModelCost& model, double gflops);

/// Step times, and what else used the machine while they were measured: "other processes used 1.3 cores". "" if nothing
/// did, or if nothing was measured.
struct StepTimes {
  std::vector<StepTime> of;
  std::vector<bool> measured{};  // and not scaled from another network, or estimated
  std::string disturbance{};
};

/// Times for the networks of `configs`, each with its precision, optimiser and augmentation of images in memory. Reuses
/// times that an earlier call of this binary on this kind of CPU stored in ~/.cache/normlab, which it does only if
/// other processes used the machine little meanwhile, as `load_since` tells. Otherwise, one process per core measures
/// steps on noise images, for about a second in total. A large network is measured with fewer images and blocks and
/// scaled by its multiply-adds; what does not fit into the second is scaled from the nearest measured network. Those that
/// come first are measured first. If
/// nothing can be measured, as without the precision on this CPU, uses default_gflops(). Call it before the process
/// starts threads.
StepTimes measured_step_times(
    const std::vector<const TrialConfig*>& configs, int cores,
    const std::function<std::optional<MachineLoad>(const LoadMeter& start)>& load_since = &LoadMeter::settled_load);

/// Core seconds to make an image for training and one for an evaluation.
struct MakingTime {
  double training = 0, evaluation = 0;
  /// `time`, measured on images in memory, with images made this way.
  StepTime in(const StepTime& time) const {
    return {time.training - time.making + training, time.evaluation + evaluation, training, true};
  }
};

/// From decoding up to 32 image files of `files`, for at most about half a second. Zeros if they have one size with
/// which all of the set fit in memory, where load_dataset() decodes them once. nullopt if one cannot be decoded.
std::optional<MakingTime> measured_making(const TrialConfig& config, const ImageSet& files);

}  // namespace normlab
