// The settings that two trials do not share.
#pragma once

#include <string>
#include <vector>

#include "experiments/lab/descriptor/config.h"

namespace normlab {

/// Values are compact JSON, "" on a side that lacks the setting.
struct SettingDifference {
  std::string path;  // "model.placement.stem.patch_in"
  std::string base, other;
  bool operator==(const SettingDifference&) const = default;
};

/// In the order of the field tables, without seeds.
std::vector<SettingDifference> config_differences(const TrialConfig& base, const TrialConfig& other);

}  // namespace normlab
