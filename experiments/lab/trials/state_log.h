// The file states.jsonl: hashes of everything that a checkpoint would hold, at some steps of an attempt. `normlab
// verify` uses them to tell whether a repeated training gives the same bits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace normlab {

inline constexpr const char* kStatesFile = "states.jsonl";

struct StateRecord {
  std::int64_t step = 0;             // completed steps
  std::string state;                 // tensors_hash() of a checkpoint of this state
  std::vector<std::string> tensors;  // the first kStateDigits of each tensor's SHA-256, in the order of state_names()
  bool operator==(const StateRecord&) const = default;
};

/// Enough to name the tensor that differs; equality is proved by `state`.
inline constexpr std::size_t kStateDigits = 8;

/// {"step": 50, "state": "...", "tensors": "the digits of all tensors, concatenated"}
std::string write_state_record(const StateRecord& record);
/// All lines of a states.jsonl; empty if there is no such file. An incomplete last line is dropped. InputError names
/// the file and line of a damaged one.
std::vector<StateRecord> read_state_records(const std::filesystem::path& path);

}  // namespace normlab
