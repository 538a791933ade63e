// The register of a thread that says what becomes of denormals: MXCSR on x86-64, FPCR on ARM.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace normlab {

#if defined(__x86_64__)
inline constexpr std::uint64_t kFloatControlAtStart = 0x1f80, kFlushDenormals = 0x8040;  // results, operands
inline std::uint64_t float_control() { return _mm_getcsr(); }
inline void set_float_control(std::uint64_t value) { _mm_setcsr(static_cast<unsigned>(value)); }
#elif defined(__aarch64__)
inline constexpr std::uint64_t kFloatControlAtStart = 0, kFlushDenormals = 1u << 24;  // results and operands
inline std::uint64_t float_control() {
  std::uint64_t value;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
inline void set_float_control(std::uint64_t value) { asm volatile("msr fpcr, %0" : : "r"(value)); }
#else
#error "this CPU's control of denormals is missing here"
#endif

}  // namespace normlab
