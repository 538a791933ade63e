#include "core/cpu/cpu_backend.h"

#include "core/cpu/bf16_products.h"
#include "core/cpu/blas.h"

namespace normlab {

std::string CpuBackend::name() const { return "cpu"; }

Backend& CpuBackend::with_bf16(Bf16Products products) {
  static CpuBackend emulated(Bf16Products::emulated);
  if (products == Bf16Products::emulated) return emulated;
  require_native_bf16();
  return cpu_backend();
}

Backend& cpu_backend() {
  static CpuBackend backend(Bf16Products::native);
  blas_info();  // loaded before any worker exists, and refused here rather than in the middle of a step
  return backend;
}

}  // namespace normlab
