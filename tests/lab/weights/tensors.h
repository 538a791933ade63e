// Tensors of any type, and as files.
#pragma once

#include <memory>

#include "core/dtype.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/weights/npy.h"

namespace normlab {

/// T: float, double, bf16, std::int32_t, std::int64_t or std::uint8_t.
template <class T>
HostTensor host_tensor(std::string name, std::vector<std::uint64_t> shape, std::vector<T> values) {
  if constexpr (std::is_same_v<T, float>) return host_tensor(std::move(name), std::move(shape), std::move(values));
  const char* const dtype = std::is_same_v<T, double>         ? "F64"
                            : std::is_same_v<T, bf16>         ? "BF16"
                            : std::is_same_v<T, std::int32_t> ? "I32"
                            : std::is_same_v<T, std::int64_t> ? "I64"
                                                              : "U8";
  const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
  return {{std::move(name), dtype, std::move(shape), std::as_bytes(std::span(*owner))}, owner};
}

inline void write_npy(const std::filesystem::path& path, const TensorView& tensor) {
  write_file_or_stream(path, write_npy_bytes(tensor));
}

}  // namespace normlab
