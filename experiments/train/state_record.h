// What `states.jsonl` (experiments/results/state_log.h) records of an engine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/results/state_log.h"
#include "nn/engine.h"

namespace normlab {

/// Steps after the start of an attempt, and after each of its checkpoints, at which its state is recorded once more: so
/// far a training has to be run again from there to be compared.
inline constexpr std::int64_t kRecordAfter = 50;

/// Parameters, moments, buffers and averages as they are now.
StateRecord record_state(Engine& engine);
/// Names of the tensors of a record, as a checkpoint has them.
std::vector<std::string> state_names(Engine& engine);

}  // namespace normlab
