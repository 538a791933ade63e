#include "core/cpu/cpu_backend.h"

#include <cstring>

#include "core/cpu/bf16_products.h"
#include "core/cpu/scratch.h"
#include "core/error.h"

namespace normlab {

std::string CpuBackend::name() const { return "cpu"; }

Backend& CpuBackend::with_bf16(Bf16Products products) {
  static CpuBackend emulated(Bf16Products::emulated);
  if (products == Bf16Products::emulated) return emulated;
  require_native_bf16();
  return cpu_backend();
}

Backend& CpuBackend::with_tf32() {
  throw EnvironmentError("--device cpu: precision \"tf32\" exists on GPUs only; use \"fp32\" or --device cuda");
}

std::uint64_t CpuBackend::thread_memory() const {
  return cpu::scratch_growths() + static_cast<std::uint64_t>(bf16_primitives_made());
}

void CpuBackend::match_thread_memory() {
  cpu::match_scratch();
  bf16_prepare_thread();
}

void CpuBackend::read(Tensor from, void* to) { std::memcpy(to, from.raw(), from.bytes()); }

Backend& cpu_backend() {
  static CpuBackend backend(Bf16Products::native);
  return backend;
}

}  // namespace normlab
