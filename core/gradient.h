// Where a kernel writes a gradient.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace normlab {

enum class Write : std::uint8_t { assign, add };

struct Gradient {
  Tensor to;
  Write write = Write::assign;
  bool later = false;  // need not be there before Kernels::finish_sums()
  explicit operator bool() const { return bool(to); }
};

}  // namespace normlab
