// states.jsonl: at some steps of an attempt, hashes of all that a checkpoint would hold. From them `normlab verify`
// tells whether a training that is run again has the same bits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace normlab {

inline constexpr const char* kStatesFile = "states.jsonl";

struct StateRecord {
  std::int64_t step = 0;             // steps that are done
  std::string state;                 // tensors_hash() of a checkpoint of it
  std::vector<std::string> tensors;  // first kStateDigits of each tensor's SHA-256, in the order of state_names()
  bool operator==(const StateRecord&) const = default;
};

/// Enough to name the tensor that differs; `state` is what proves equality.
inline constexpr std::size_t kStateDigits = 8;

/// {"step": 50, "state": "...", "tensors": "the digits of all, one after the other"}
std::string write_state_record(const StateRecord& record);
/// All lines of a states.jsonl; none where there is no such file. A torn last line is dropped. InputError names file
/// and line of a damaged one.
std::vector<StateRecord> read_state_records(const std::filesystem::path& path);

}  // namespace normlab
