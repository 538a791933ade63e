// The file times.jsonl: how long the epochs of an attempt took. Times differ from run to run, so no seal, hash or
// comparison of results covers it, and a resumed trial begins another one.
#pragma once

#include <cstdint>
#include <string>

namespace normlab {

inline constexpr const char* kTimesFile = "times.jsonl";

struct EpochTime {
  std::int64_t epoch = 0;         // from 1
  std::int64_t step = 0;          // completed steps of the training
  std::int64_t steps = 0;         // of them in this epoch and attempt, to which the times belong
  double seconds = 0;             // wall time, with evaluations and checkpoints
  double evaluation_seconds = 0;  // of them in evaluations
};

/// {"epoch": 2, "step": 16, "steps": 8, "seconds": 0.53, "evaluation_seconds": 0.11}, without newline.
std::string times_text(const EpochTime& time);

}  // namespace normlab
