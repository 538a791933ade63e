// states.jsonl: at some steps of an attempt, hashes of all that a checkpoint would hold. From them `normlab verify`
// tells whether a training that is run again has the same bits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/results/files.h"
#include "nn/engine.h"

namespace normlab {

/// Steps after the start of an attempt, and after each of its checkpoints, at which its state is recorded once more: so
/// far a training has to be run again from there to be compared.
inline constexpr std::int64_t kRecordAfter = 50;

struct StateRecord {
  std::int64_t step = 0;             // steps that are done
  std::string state;                 // tensors_hash() of a checkpoint of it
  std::vector<std::string> tensors;  // first eight digits of each tensor's SHA-256, in the order of state_names()
  bool operator==(const StateRecord&) const = default;
};

/// Parameters, moments, buffers and averages as they are now.
StateRecord record_state(Engine& engine);
/// Names of the tensors of a record, as a checkpoint has them.
std::vector<std::string> state_names(Engine& engine);

/// {"step": 50, "state": "...", "tensors": "the digits of all, one after the other"}
std::string write_state_record(const StateRecord& record);
/// All lines of a states.jsonl; none where there is no such file. A torn last line is dropped. InputError names file
/// and line of a damaged one.
std::vector<StateRecord> read_state_records(const std::filesystem::path& path);

inline constexpr const char* kStatesFile = "states.jsonl";

}  // namespace normlab
