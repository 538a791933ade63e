// What the settings of a trial must be beside each other, beside the model and beside the data.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "experiments/descriptor/config.h"

namespace normlab {

/// Says what is wrong with the setting at a dotted key.
using Report = std::function<void(std::string_view key, const std::string& what)>;

/// Reports parts that do not divide a batch, factors of a compound schedule that are unknown or lack what they need,
/// multipliers that fit no parameter of the (valid) model, and augmentations that make no sense together or beside the
/// data.
void check_training(const TrialConfig& trial, const Report& report);

/// Reports settings that each fit their range and would mean something else beside the others than they say: levels
/// beyond timm's last, a crop larger than its image, a rule of early stopping that can never hold.
void check_meaning(const TrialConfig& trial, const Report& report);

/// Reports what reading the data would refuse, as far as it is known before: slices that are none, are empty or past
/// the end, or share images; classes without an image; a batch of more images than there are; a training without a
/// step; means and deviations that are not one a channel.
void check_data(const TrialConfig& trial, const Report& report);

}  // namespace normlab
