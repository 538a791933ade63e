// "paper" of a descriptor: which publication it repeats, and where it knowingly differs. It says something about the
// settings and is none: no part of a trial and of its id.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/descriptor/problems.h"

namespace normlab {

/// One setting that is not as published. `paper` and `here` are JSON texts, as value_text writes them.
struct Deviation {
  std::string key;  // "train.precision"
  std::string paper, here, why;
  std::string where;  // "file:line:column: /paper/deviations/0"
};

struct PaperConfig {
  std::string source;  // publication, section or table; which settings come from elsewhere, and from where
  std::vector<Deviation> deviations;
  bool empty() const { return source.empty(); }
};

/// The value of "paper": {"source": "...", "deviations": [{"key", "paper", "here", "why"}]}. What is wrong is noted and
/// left out: an unknown or missing key, a `key` that is no setting or is listed twice, a `here` that equals `paper`.
PaperConfig read_paper(const JsonNode& node, Problems& problems);

/// True for the dotted path of a setting of a trial, or of an object of them: "train.optimizer.lr", "model.placement".
bool is_setting(std::string_view path);

}  // namespace normlab
