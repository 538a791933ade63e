// Which parameters a training leaves as they are.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nn/model/model_config.h"
#include "nn/model/parameters.h"

namespace normlab {

/// Whether `name` matches `pattern`, where each `*` stands for any text, even none.
bool fits(std::string_view pattern, std::string_view name);

/// Whether `pattern` stands for a parameter. Besides patterns of names, in which `*` matches any text, there are
///   "stem"           everything before the first block
///   "blocks.0-3"     blocks 0 to 3, also "stages.1.blocks.0-1"
///   "blocks.0.attn"  a name up to a dot: all parameters below it
bool stands_for(std::string_view pattern, const ParameterInfo& parameter);
/// The same for a name alone, for which "stem" and ranges mean nothing.
bool name_fits(std::string_view pattern, std::string_view name);

/// A pattern that stands for no parameter, or for some of queries, keys and values, which one product computes; or
/// patterns that together leave no parameter to train.
struct FreezeProblem {
  std::size_t pattern = 0;
  bool matches_none = false;
  std::string message;
};

/// One mark per parameter, whether it is fixed or a pattern stands for it; and the first problem.
struct Freezing {
  std::vector<bool> marks;
  std::optional<FreezeProblem> problem;
};
Freezing freezing(std::span<const std::string> patterns, std::span<const ParameterInfo> parameters);

/// The marks. Throws InputError for a problem.
std::vector<bool> frozen_by(std::span<const std::string> patterns, std::span<const ParameterInfo> parameters);

/// Values of the parameters that such a network trains.
std::int64_t trained_values(const ModelConfig& config, std::span<const std::string> patterns);

}  // namespace normlab
