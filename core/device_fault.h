// A device that has stopped in the middle of its work.
#pragma once

#include "core/error.h"

namespace normlab {

/// After it every call of this process to the device fails. Where processes share the device, another one's kernel may be
/// the cause.
struct DeviceFault : EnvironmentError {
  using EnvironmentError::EnvironmentError;
};

}  // namespace normlab
