// What a reader of a slice's metrics needs beside them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace normlab {

struct EvaluatedSlice {
  std::int64_t images = 0;
  /// What the same answer to every image reaches, by metric without prefix (metrics/class_scores.h).
  std::map<std::string, double> guess;
  bool operator==(const EvaluatedSlice&) const = default;
};

/// By the slice that begins a metric's name: "eval", "minival", "train".
using EvaluatedSlices = std::map<std::string, EvaluatedSlice>;

}  // namespace normlab
