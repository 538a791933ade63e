// Reads and fully checks the header of a safetensors file before allocating memory of its size.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;  // bytes; limit of the reference implementation
inline constexpr std::uint64_t kSafetensorsLengthBytes = 8;          // the header's length, before the header
inline constexpr const char* kSafetensorsMetadata = "__metadata__";

/// Position of a dtype in the order of the reference implementation, narrow to wide; nullopt for an unknown dtype.
std::optional<std::size_t> safetensors_dtype_rank(std::string_view dtype);

/// Bytes of a tensor, or nullopt with `problem`: an unknown dtype, a count beyond 64 bits, a fraction of a byte.
std::optional<std::uint64_t> safetensors_bytes(std::string_view dtype, const std::vector<std::uint64_t>& shape,
                                               std::string& problem);

struct SafetensorsEntry {
  std::string name, dtype;
  std::vector<std::uint64_t> shape, offsets;  // begin and end, from the end of the header
  std::uint64_t at = 0;                       // byte of its name in the file
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  // in the order of their data, which they fill without gaps
  std::map<std::string, std::string> metadata;
  std::uint64_t data_begin = 0;  // byte in the file
};

/// InputError ("FILE: byte N: ...", with the tensor's name) for a broken rule.
SafetensorsHeader read_safetensors_header(std::string_view bytes, const std::string& file);

}  // namespace normlab
