// The header of an IDX file (MNIST and similar datasets).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace normlab {

struct IdxHeader {
  std::vector<std::int64_t> dimensions;  // outermost first
  std::int64_t data_offset = 0;          // bytes from the beginning
  std::int64_t values = 0;               // product of the dimensions; the file holds one byte per value
};

/// The header at the start of `bytes`. InputError begins with `where` and names the byte: a wrong magic number, values
/// that are not bytes, no dimension or more than four, a dimension of 0.
IdxHeader parse_idx_header(std::span<const std::uint8_t> bytes, const std::string& where);

}  // namespace normlab
