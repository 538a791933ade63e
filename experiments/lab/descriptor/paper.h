// A descriptor's "paper": the publication that it reproduces, and known differences. Not part of a trial or its id.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/lab/descriptor/problems.h"

namespace normlab {

/// `paper` and `here` are JSON texts, as value_text writes them.
struct Deviation {
  std::string key;  // "train.precision"
  std::string paper, here, why;
  std::string where;  // "file:line:column: /paper/deviations/0"
};

struct PaperConfig {
  std::string source;  // publication, section or table; origin of settings from elsewhere
  std::vector<Deviation> deviations;
  bool empty() const { return source.empty(); }
};

/// {"source": "...", "deviations": [{"key", "paper", "here", "why"}]}. Reports and omits invalid entries: an unknown or
/// missing key, a `key` that is not a setting or is repeated, a `here` equal to `paper`.
PaperConfig read_paper(const JsonNode& node, Problems& problems);

/// True for the dotted path of a trial's setting, or of an object of settings: "train.optimizer.lr", "model.placement".
bool is_setting(std::string_view path);

}  // namespace normlab
