// Consistency of a trial's settings, model and data.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "experiments/lab/descriptor/config.h"

namespace normlab {

/// `key` is a setting's dotted path.
using Report = std::function<void(std::string_view key, const std::string& what)>;

/// Reports parts that do not divide a batch, unknown or incomplete factors of a compound schedule, multipliers that
/// match no parameter of the (valid) model, and augmentations that are inconsistent with each other or with the data.
void check_training(const TrialConfig& trial, const Report& report);

struct FewShotProblem {
  std::string list;                  // "shots" or "seeds"
  std::optional<std::size_t> place;  // of the number in the list, if one is wrong
  std::string what;
};
/// nullopt, or: a number that is given twice, no seed.
std::optional<FewShotProblem> problem_of_few_shot(const FewShotConfig& config);

/// Reports settings that are valid separately but not together: levels beyond timm's last, a crop larger than its
/// image, an early stopping rule that can never apply.
void check_meaning(const TrialConfig& trial, const Report& report);

/// Reports in advance what reading the data would refuse: invalid, empty, overlong or overlapping slices; classes
/// without an image; few-shot evaluation of more images per class than there are; a batch larger than the training
/// set; a training without a step; batch norms that see one value per channel; means and deviations that are not one
/// per channel.
void check_data(const TrialConfig& trial, const Report& report);

}  // namespace normlab
