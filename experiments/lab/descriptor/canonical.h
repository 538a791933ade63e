// The text forms of a trial: canonical, whose SHA-256 is the trial's id, and full, for people.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/lab/descriptor/config.h"

namespace normlab {

/// One line of UTF-8: keys sorted by code point, no spaces, integers as integers, reals in the shortest form that reads
/// back exactly, defaults omitted, "schema" included. The placement is always written, as sites without a name; image
/// size, channels and classes unless the dataset's name implies them.
std::string canonical_json(const TrialConfig& config);

/// Always with image size, channels and classes, never with `running` of batch norms.
std::string canonical_model_json(const ModelConfig& model);

/// The row that equals the model's placement, or "".
std::string placement_name(const ModelConfig& model);

/// 64 lower-case hexadecimal digits: SHA-256 of the canonical form.
std::string trial_id(const TrialConfig& config);

/// All settings, one per line, in the order of the field tables.
std::string full_json(const TrialConfig& config);

/// Reads canonical_json and full_json. `name` names the text in errors. InputError with all problems.
TrialConfig config_from_json(std::string_view text, const std::string& name);

/// Reads canonical_model_json. InputError with all problems.
ModelConfig model_from_json(std::string_view text, const std::string& name);

// --- the settings that two trials do not share

/// Values are compact JSON, "" on a side that lacks the setting.
struct SettingDifference {
  std::string path;  // "model.placement.stem.patch_in"
  std::string base, other;
  bool operator==(const SettingDifference&) const = default;
};

/// In the order of the field tables, without seeds.
std::vector<SettingDifference> config_differences(const TrialConfig& base, const TrialConfig& other);

}  // namespace normlab
