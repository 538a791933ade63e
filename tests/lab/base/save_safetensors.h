#pragma once

#include "experiments/lab/base/files.h"
#include "experiments/lab/base/safetensors.h"

namespace normlab {

/// A file without the hashes of normlab's own.
inline void save_safetensors(const std::filesystem::path& path, std::map<std::string, std::string> metadata,
                             std::vector<TensorView> tensors) {
  write_atomically(path, write_safetensors_bytes(std::move(metadata), std::move(tensors)));
}

}  // namespace normlab
