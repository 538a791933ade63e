// Files of weights with a value in them that no training wrote.
#pragma once

#include <cstring>

#include "experiments/base/safetensors.h"
#include "experiments/results/store.h"

namespace normlab {

/// Writes `value` over one value of a F32 tensor of a safetensors file, and a checkpoint's hash anew: as a program
/// would have written it whose arithmetic gave that value.
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

/// Values that are not finite, each of another kind.
inline constexpr float kNonFinite[] = {__builtin_nanf(""), __builtin_inff(), -__builtin_inff()};

}  // namespace normlab
