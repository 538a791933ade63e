// Stands in front of NVIDIA's header of this name where the kernels are compiled for the emulation: what of CUDA the
// kernels and their host side use, no more.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "tests/cuda_emulation/heap.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/cuda_emulation/scheduler.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define threadIdx (::normlab::emulation::position.thread)
#define blockIdx (::normlab::emulation::position.block)
#define blockDim (::normlab::emulation::position.block_dim)
#define gridDim (::normlab::emulation::position.grid_dim)

using Where = normlab::emulation::Where;

inline void __syncthreads(Where where = Where::current()) { normlab::emulation::block_barrier(where); }
inline void __syncwarp(unsigned mask = 0xffffffffu, Where where = Where::current()) {
  normlab::emulation::warp_operation(normlab::emulation::WarpOp::barrier, mask, 0, 0, where);
}

namespace normlab::emulation {
template <class T>
T shuffle(unsigned mask, T value, int source, Where where) {
  static_assert(sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = warp_operation(WarpOp::shuffle, mask, bits, source, where);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
inline int lane() {
  const Position& p = position;
  return static_cast<int>((p.thread.x + p.block_dim.x * (p.thread.y + p.block_dim.y * p.thread.z)) % 32);
}
}  // namespace normlab::emulation

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, Where where = Where::current()) {
  const int lane = normlab::emulation::lane();
  return normlab::emulation::shuffle(mask, value, lane / width * width + (source & (width - 1)), where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, Where where = Where::current()) {
  const int lane = normlab::emulation::lane(), source = lane % width + static_cast<int>(delta);
  return normlab::emulation::shuffle(mask, value, source < width ? lane / width * width + source : lane, where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, Where where = Where::current()) {
  const int lane = normlab::emulation::lane(), source = lane % width - static_cast<int>(delta);
  return normlab::emulation::shuffle(mask, value, source >= 0 ? lane / width * width + source : lane, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, Where where = Where::current()) {
  const int lane = normlab::emulation::lane(), source = lane % width ^ bits;
  return normlab::emulation::shuffle(mask, value, source < width ? lane / width * width + source : lane, where);
}
inline unsigned __ballot_sync(unsigned mask, int vote, Where where = Where::current()) {
  using namespace normlab::emulation;
  return static_cast<unsigned>(warp_operation(WarpOp::vote, mask, vote != 0, 0, where));
}
inline int __any_sync(unsigned mask, int vote, Where where = Where::current()) {
  return __ballot_sync(mask, vote, where) != 0;
}
inline int __all_sync(unsigned mask, int vote, Where where = Where::current()) {
  return __ballot_sync(mask, vote, where) == mask;
}

// Atomics of whole numbers: sums of floating-point numbers by them have no fixed order.
int atomicAdd(int* address, int value);
unsigned atomicAdd(unsigned* address, unsigned value);
unsigned long long atomicAdd(unsigned long long* address, unsigned long long value);
int atomicCAS(int* address, int expected, int value);
unsigned atomicCAS(unsigned* address, unsigned expected, unsigned value);
int atomicMax(int* address, int value);
int atomicExch(int* address, int value);
inline void __threadfence() {}
inline void __threadfence_block() {}
