// Where a kernel writes a gradient.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace normlab {

enum class Write : std::uint8_t { assign, add };

struct Gradient {
  Tensor to;
  Write write = Write::assign;
  explicit operator bool() const { return bool(to); }
};

}  // namespace normlab
