// Memory that one trial asks for and does not get is no fault of the machine that other trials would meet, too.
#pragma once

#include "core/error.h"

namespace normlab {

struct MemoryError : EnvironmentError {
  using EnvironmentError::EnvironmentError;
};

}  // namespace normlab
