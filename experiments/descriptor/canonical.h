// The written forms of a trial: the canonical one, whose SHA-256 is its id, and the full one, for people.
#pragma once

#include <string>
#include <string_view>

#include "experiments/descriptor/config.h"

namespace normlab {

/// One line of UTF-8: keys sorted by code point, no spaces, integers as integers, reals in their shortest form that
/// reads back, settings at their default left out, "schema" included. The placement is always written, as sites without
/// a name; image size, channels and classes are written unless the dataset's name implies them.
std::string canonical_json(const TrialConfig& config);

/// The canonical form of a model alone, with image size, channels and classes always written.
std::string canonical_model_json(const ModelConfig& model);

/// The named row that the model's placement is, or "" where it is none.
std::string placement_name(const ModelConfig& model);

/// 64 lower-case hexadecimal digits: SHA-256 of the canonical form.
std::string trial_id(const TrialConfig& config);

/// Everything, each default written out, one setting a line, in the order of the field tables.
std::string full_json(const TrialConfig& config);

/// Reads canonical_json and full_json back. `name` stands for the text in errors. InputError with all problems.
TrialConfig config_from_json(std::string_view text, const std::string& name);

/// Reads canonical_model_json back. InputError with all problems.
ModelConfig model_from_json(std::string_view text, const std::string& name);

}  // namespace normlab
