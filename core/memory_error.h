// Memory that one trial asks for and does not get is no fault of the machine that other trials would meet, too.
#pragma once

#include <cstddef>

#include "core/error.h"

namespace normlab {

struct MemoryError : EnvironmentError {
  using EnvironmentError::EnvironmentError;
};

/// A device has less free than was asked for: whether it fits depends on who else works there. Bytes.
struct DeviceMemoryError : EnvironmentError {
  DeviceMemoryError(std::size_t wanted, std::size_t left, std::size_t all)
      : EnvironmentError(concat("out of GPU memory: ", (wanted >> 20) + 1, " MB requested, ", left >> 20, " MB of ",
                                all >> 20, " MB free")),
        asked(wanted),
        free(left),
        total(all) {}
  std::size_t asked, free, total;
};

}  // namespace normlab
