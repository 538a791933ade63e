#include "core/cpu/cpu_backend.h"

#include "core/cpu/blas.h"

namespace normlab {

std::string CpuBackend::name() const { return "cpu"; }

Backend& cpu_backend() {
  static CpuBackend backend;
  blas_info();  // loaded before any worker exists, and refused here rather than in the middle of a step
  return backend;
}

}  // namespace normlab
