// Memory that one trial cannot get. Unlike other environment errors it need not affect other trials.
#pragma once

#include <cstddef>

#include "core/error.h"

namespace normlab {

struct MemoryError : EnvironmentError {
  using EnvironmentError::EnvironmentError;
};

/// A device has less free memory than requested, which depends on what else runs there. Sizes in bytes.
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
