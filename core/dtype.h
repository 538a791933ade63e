// Element types. Kernels are templates over the storage type; a bf16 kernel has float parameters and statistics.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/host_device.h"

namespace normlab {

enum class DType : std::uint8_t { f32, f64, bf16, i32, u8 };

/// How bf16 products are computed: by bf16 instructions, or in float on widened values. The latter rounds at the same
/// places and runs on every CPU, but slowly.
enum class Bf16Products : std::uint8_t { native, emulated };

constexpr std::size_t size_of(DType dtype) {
  constexpr std::size_t kSizes[] = {4, 8, 2, 4, 1};
  return kSizes[static_cast<int>(dtype)];
}
constexpr std::string_view to_string(DType dtype) {
  constexpr std::string_view kNames[] = {"f32", "f64", "bf16", "i32", "u8"};
  return kNames[static_cast<int>(dtype)];
}

/// Brain float: the upper half of a float, rounded to nearest, ties to even; NaN stays NaN.
struct bf16 {
  std::uint16_t bits = 0;
  bf16() = default;
  NORMLAB_HOST_DEVICE explicit bf16(float value) {
#ifdef __CUDA_ARCH__  // at least 800; an instruction instead of seven
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    bits = static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : rounded);
#endif
  }
  NORMLAB_HOST_DEVICE explicit bf16(double value) : bf16(static_cast<float>(value)) {}
  NORMLAB_HOST_DEVICE operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

template <class T>
struct Storage;
template <>
struct Storage<float> {
  using Param = float;
  using Acc = float;
  static constexpr DType dtype = DType::f32;
};
template <>
struct Storage<double> {
  using Param = double;
  using Acc = double;
  static constexpr DType dtype = DType::f64;
};
template <>
struct Storage<bf16> {
  using Param = float;
  using Acc = float;
  static constexpr DType dtype = DType::bf16;
};
template <>
struct Storage<std::int32_t> {
  static constexpr DType dtype = DType::i32;
};
template <>
struct Storage<std::uint8_t> {
  static constexpr DType dtype = DType::u8;
};

/// The type of parameters and their gradients for activations of type T.
template <class T>
using Param = typename Storage<T>::Param;
/// The type of sums and kept statistics in kernels over T.
template <class T>
using Acc = typename Storage<T>::Acc;

/// Param and Acc as a DType: f64 for f64, otherwise f32.
constexpr DType acc_of(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace normlab
