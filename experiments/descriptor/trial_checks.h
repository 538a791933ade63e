// Consistency checks between a trial's settings, its model and its data.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "experiments/descriptor/config.h"

namespace normlab {

/// Reports a problem with the setting at a dotted key.
using Report = std::function<void(std::string_view key, const std::string& what)>;

/// Reports parts that do not divide a batch, unknown or incomplete factors of a compound schedule, multipliers that
/// match no parameter of the (valid) model, and augmentations that are inconsistent with each other or with the data.
void check_training(const TrialConfig& trial, const Report& report);

/// Reports settings that are valid separately but together do not mean what they say: levels beyond timm's last, a crop
/// larger than its image, an early stopping rule that can never apply.
void check_meaning(const TrialConfig& trial, const Report& report);

/// Reports in advance what reading the data would refuse: invalid, empty, overlong or overlapping slices; classes
/// without an image; a batch larger than the training set; a training without a step; means and deviations that are
/// not one per channel.
void check_data(const TrialConfig& trial, const Report& report);

}  // namespace normlab
