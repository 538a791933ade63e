// Changes a value in a file of weights.
#pragma once

#include <cstring>

#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

/// Overwrites a value of an F32 tensor in a safetensors file and updates a checkpoint's hash, as if training had given
/// that value.
inline void poison(const std::filesystem::path& path, const std::string& tensor, std::size_t index, float value) {
  const SafetensorsFile file = SafetensorsFile::read(path);
  std::vector<TensorView> tensors = file.tensors();
  std::string changed;
  for (TensorView& t : tensors) {
    if (t.name != tensor) continue;
    changed.assign(reinterpret_cast<const char*>(t.data.data()), t.data.size());
    if (t.dtype != "F32" || changed.size() < (index + 1) * sizeof(value))
      throw std::runtime_error(tensor + " has no such float");
    std::memcpy(changed.data() + index * sizeof(value), &value, sizeof(value));
    t.data = std::as_bytes(std::span(changed));
  }
  if (changed.empty()) throw std::runtime_error("no tensor " + tensor);
  std::map<std::string, std::string> metadata = file.metadata();
  metadata.erase(kStateHashKey);
  save_sealed_safetensors(path, metadata, tensors);
}

/// One value of each kind that is not finite.
inline constexpr float kNonFinite[] = {__builtin_nanf(""), __builtin_inff(), -__builtin_inff()};

}  // namespace normlab
