// Memory of the networks of a stack: what they ask for in turn lies side by side, at equal distances, so that one call
// of a library can multiply the matrices of all.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "core/function_ref.h"
#include "cuda/device.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

class Slabs {
 public:
  explicit Slabs(int places) : places_(static_cast<std::size_t>(places)) {}
  std::size_t places() const { return places_; }
  /// `bytes` in the first block whose parts have this size and that `place` has no part of. If there is none,
  /// `allocate` is called for a block of all places.
  void* take(std::size_t place, std::size_t bytes, FunctionRef<void*(std::size_t bytes)> allocate);
  /// The block and its bytes, once no place has a part of it; until then null.
  std::pair<void*, std::size_t> give(const void* part);

 private:
  struct Block {
    char* begin;
    std::size_t part;  // bytes
    std::vector<bool> taken;
  };
  const std::size_t places_;
  std::vector<Block> blocks_;
};

/// Where a network's memory comes from. Without slabs it is alone.
struct SlabPlace {
  Slabs* slabs = nullptr;
  std::size_t number = 0;
};

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
