// The elements of a stored tensor as a test wants them.
#pragma once

#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "experiments/lab/base/safetensors.h"

namespace normlab {

/// True if a tensor of this dtype may be read as T: uint16_t takes the formats of two bytes that C++ has no type
/// for.
template <class T>
bool stored_as(std::string_view dtype) {
  if constexpr (std::is_same_v<T, float>) return dtype == "F32";
  if constexpr (std::is_same_v<T, double>) return dtype == "F64";
  if constexpr (std::is_same_v<T, std::int32_t>) return dtype == "I32";
  if constexpr (std::is_same_v<T, std::int64_t>) return dtype == "I64";
  if constexpr (std::is_same_v<T, std::uint8_t>) return dtype == "U8" || dtype == "BOOL";
  if constexpr (std::is_same_v<T, std::uint16_t>) return dtype == "BF16" || dtype == "F16";
}

/// Row-major.
template <class T>
std::vector<T> values_of(const TensorView& tensor) {
  if (!stored_as<T>(tensor.dtype)) throw std::runtime_error(tensor.name + " has another dtype: " + tensor.dtype);
  std::vector<T> values(tensor.data.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

}  // namespace normlab
