// For operations whose kernels are still to come.
#pragma once

#include "core/error.h"
#include "cuda/device.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

[[noreturn]] inline void no_kernel_yet(const char* op) {
  throw EnvironmentError(concat("cuda: ", op, " has no kernel yet"));
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
