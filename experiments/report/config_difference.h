// Where two configs differ, setting by setting.
#pragma once

#include <string>
#include <vector>

#include "experiments/descriptor/config.h"

namespace normlab {

/// Values as compact JSON; "" where that side has no such setting.
struct SettingDifference {
  std::string path;  // "model.placement.stem.patch_in"
  std::string base, other;
};

/// In the order of the field tables, seeds aside.
std::vector<SettingDifference> config_differences(const TrialConfig& base, const TrialConfig& other);

}  // namespace normlab
