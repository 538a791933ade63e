// Instructions that neither C++ nor the tests' emulation can express: products of small matrices on tensor cores, reads
// of their operands from shared memory, asynchronous copies, and 2^x. Each has a plain version with the same fragments
// in the same lanes, which runs in the emulation (and on GPUs before 8.0), so kernels are the same for both.
// tests/core/tensor_core_test.cpp checks the plain version against the tables of the PTX ISA and, on a GPU, the
// instructions against the plain version.
//
// Layout: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" (.bf16) and "ldmatrix". With
// g = lane / 4 and t = lane % 4, each register holds a pair (low half first):
//   A [16, 16]:  x[0] row g, columns 2 t, 2 t + 1;  x[1] row g + 8;  x[2], x[3] the same rows, columns + 8
//   B [16, 8]:   x[0] rows 2 t, 2 t + 1 of column g;  x[1] rows + 8
//   C [16, 8]:   x[0], x[1] row g, columns 2 t, 2 t + 1;  x[2], x[3] row g + 8
#pragma once

#include <bit>

#include "cuda/kernel.cuh"

#if !defined(NORMLAB_CUDA_EMULATED) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define NORMLAB_TENSOR_CORES 1
#else
#define NORMLAB_TENSOR_CORES 0
#endif

namespace normlab::NORMLAB_CUDA_NAMESPACE {

struct FragmentA {
  unsigned x[4];
};
struct FragmentB {
  unsigned x[2];
};
struct FragmentC {
  float x[4];
};

/// The instructions in C++. All lanes of a warp must call these together.
namespace plain {

__device__ inline float half(std::uint64_t pairs, int which) {
  return std::bit_cast<float>(static_cast<unsigned>(pairs >> (16 * which) & 0xffffu) << 16);
}
__device__ inline unsigned join(bf16 low, bf16 high) { return low.bits | static_cast<unsigned>(high.bits) << 16; }

/// d = a b + c, with its own order of additions.
__device__ inline void mma(FragmentC& d, const FragmentA& a, const FragmentB& b, const FragmentC& c) {
  const auto both = [](unsigned low, unsigned high) { return low | static_cast<std::uint64_t>(high) << 32; };
  const int lane = static_cast<int>(threadIdx.x) % kWarp, group = lane / 4, pair = lane % 4 * 2;
  FragmentC sum = c;
  for (int t = 0; t < 4; ++t) {  // lane t: columns 2 t, 2 t + 1, 2 t + 8, 2 t + 9 of A and those rows of B
    const std::uint64_t upper = __shfl_sync(kAllLanes, both(a.x[0], a.x[2]), group * 4 + t);
    const std::uint64_t lower = __shfl_sync(kAllLanes, both(a.x[1], a.x[3]), group * 4 + t);
    for (int e = 0; e < 2; ++e) {
      const std::uint64_t column = __shfl_sync(kAllLanes, both(b.x[0], b.x[1]), (pair + e) * 4 + t);
      for (int k = 0; k < 4; ++k) {
        sum.x[e] += half(upper, k) * half(column, k);
        sum.x[2 + e] += half(lower, k) * half(column, k);
      }
    }
  }
  d = sum;
}

__device__ inline unsigned pair_at(const bf16* from) {
  unsigned pair;
  memcpy(&pair, from, sizeof pair);
  return pair;
}
__device__ inline FragmentA load_a(const bf16* tile, int pitch) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const bf16* at = tile + lane / 4 * pitch + lane % 4 * 2;
  return {{pair_at(at), pair_at(at + 8 * pitch), pair_at(at + 8), pair_at(at + 8 * pitch + 8)}};
}
__device__ inline FragmentA load_a_trans(const bf16* tile, int pitch) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const bf16* at = tile + lane % 4 * 2 * pitch + lane / 4;
  const auto pair = [&](const bf16* from) { return join(from[0], from[pitch]); };
  return {{pair(at), pair(at + 8), pair(at + 8 * pitch), pair(at + 8 * pitch + 8)}};
}
__device__ inline void load_b(const bf16* tile, int pitch, FragmentB (&b)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int n = 0; n < 2; ++n)
    for (int k = 0; k < 2; ++k) b[n].x[k] = pair_at(tile + (8 * n + lane / 4) * pitch + 8 * k + lane % 4 * 2);
}
__device__ inline void load_b_trans(const bf16* tile, int pitch, FragmentB (&b)[2]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int n = 0; n < 2; ++n)
    for (int k = 0; k < 2; ++k) {
      const bf16* at = tile + (8 * k + lane % 4 * 2) * pitch + 8 * n + lane / 4;
      b[n].x[k] = join(at[0], at[pitch]);
    }
}
__device__ inline unsigned pack(float low, float high) { return join(bf16(low), bf16(high)); }
__device__ inline float exp2(float x) { return std::exp2(x); }

}  // namespace plain

/// d = a b + c for A [16, 16], B [16, 8]; exact products, float sums. All lanes of a warp must call this.
__device__ __forceinline__ void mma(FragmentC& d, const FragmentA& a, const FragmentB& b, const FragmentC& c) {
#if NORMLAB_TENSOR_CORES
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=f"(d.x[0]), "=f"(d.x[1]), "=f"(d.x[2]), "=f"(d.x[3])
      : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b.x[0]), "r"(b.x[1]), "f"(c.x[0]), "f"(c.x[1]),
        "f"(c.x[2]), "f"(c.x[3]));
#else
  plain::mma(d, a, b, c);
#endif
}

#if NORMLAB_TENSOR_CORES
__device__ __forceinline__ unsigned shared_address(const void* address) {
  return static_cast<unsigned>(__cvta_generic_to_shared(address));
}
/// Loads four 8 x 8 matrices. Lanes 8 i .. 8 i + 7 pass the row addresses of matrix i. Lane l gets columns 2 (l % 4)
/// and the next of row l / 4 of each matrix or its transpose.
template <bool kTransposed>
__device__ __forceinline__ void load_matrices(const bf16* row, unsigned& a, unsigned& b, unsigned& c, unsigned& d) {
  if constexpr (kTransposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(shared_address(row)));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(shared_address(row)));
}
#endif

/// A from shared memory with rows `pitch` values apart: an odd multiple of 8, to avoid bank conflicts. `tile` is
/// aligned to 16 bytes, here and below.
__device__ __forceinline__ FragmentA load_a(const bf16* tile, int pitch) {
#if NORMLAB_TENSOR_CORES
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  FragmentA a;
  load_matrices<false>(tile + lane % 16 * pitch + lane / 16 * 8, a.x[0], a.x[1], a.x[2], a.x[3]);
  return a;
#else
  return plain::load_a(tile, pitch);
#endif
}
/// A from its transpose: row r is column r of `tile`.
__device__ __forceinline__ FragmentA load_a_trans(const bf16* tile, int pitch) {
#if NORMLAB_TENSOR_CORES
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  FragmentA a;
  load_matrices<true>(tile + (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 8, a.x[0], a.x[1], a.x[2], a.x[3]);
  return a;
#else
  return plain::load_a_trans(tile, pitch);
#endif
}
/// Two adjacent B, [16, 16], from their transpose: column n is row n of `tile`.
__device__ __forceinline__ void load_b(const bf16* tile, int pitch, FragmentB (&b)[2]) {
#if NORMLAB_TENSOR_CORES
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  load_matrices<false>(tile + (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 8, b[0].x[0], b[0].x[1], b[1].x[0],
                       b[1].x[1]);
#else
  plain::load_b(tile, pitch, b);
#endif
}
/// Two adjacent B, [16, 16], as stored in `tile`.
__device__ __forceinline__ void load_b_trans(const bf16* tile, int pitch, FragmentB (&b)[2]) {
#if NORMLAB_TENSOR_CORES
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  load_matrices<true>(tile + lane % 16 * pitch + lane / 16 * 8, b[0].x[0], b[0].x[1], b[1].x[0], b[1].x[1]);
#else
  plain::load_b_trans(tile, pitch, b);
#endif
}

/// Two values rounded to bf16, the first in the low half.
__device__ __forceinline__ unsigned pack(float low, float high) {
#if NORMLAB_TENSOR_CORES
  unsigned both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
#else
  return plain::pack(low, high);
#endif
}
/// 2^x within 2 ulp, 0 below 2^-126.
__device__ __forceinline__ float exp2_of(float x) {
#if NORMLAB_TENSOR_CORES
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return plain::exp2(x);
#endif
}

/// 1 / x within 1 ulp.
__device__ __forceinline__ float reciprocal_of(float x) {
#if NORMLAB_TENSOR_CORES
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1 / x;
#endif
}

/// Writes a pair to an even position.
__device__ __forceinline__ void write_pair(bf16* to, unsigned pair) {
#if NORMLAB_TENSOR_CORES
  *reinterpret_cast<unsigned*>(to) = pair;
#else
  memcpy(static_cast<void*>(to), &pair, sizeof pair);
#endif
}
/// Copies eight values as one piece; both addresses are multiples of 16.
__device__ __forceinline__ void copy_eight(const bf16* from, bf16* to) {
#if NORMLAB_TENSOR_CORES
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
#else
  for (int i = 0; i < 8; ++i) to[i] = from[i];
#endif
}

/// A thread's asynchronous copies from global to shared memory. In the emulation the destination is undefined until
/// wait(), which exposes early reads, and copies to memory that is still being read.
class AsyncCopies {
 public:
  /// Copies kBytes, 4 or 16 and aligned accordingly; writes zeros and does not read `from` unless `there`.
  template <int kBytes>
  __device__ __forceinline__ void copy(void* to, const void* from, bool there) {
    static_assert(kBytes == 4 || kBytes == 16);
#if NORMLAB_TENSOR_CORES
    if constexpr (kBytes == 16)  // bypasses the first-level cache
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
                   "r"(there ? 16 : 0)
                   : "memory");
    else
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from),
                   "r"(there ? 4 : 0)
                   : "memory");
#elif defined(NORMLAB_CUDA_EMULATED)
    if (count_ == kMost) emulation::fault("has more copies under way than the emulation keeps");
    constexpr unsigned kUndefined = emulation::kPoison * 0x10001u;
    for (int i = 0; i < kBytes; i += 4) memcpy(static_cast<char*>(to) + i, &kUndefined, 4);
    pending_[count_++] = {to, there ? from : nullptr, kBytes};
#else
    for (int i = 0; i < kBytes; ++i) static_cast<char*>(to)[i] = there ? static_cast<const char*>(from)[i] : char(0);
#endif
  }
  /// Completes this thread's copies; other threads see them after a barrier.
  __device__ __forceinline__ void wait() {
#if NORMLAB_TENSOR_CORES
    asm volatile("cp.async.wait_all;" ::: "memory");
#elif defined(NORMLAB_CUDA_EMULATED)
    for (int n = 0; n < count_; ++n)
      for (int i = 0; i < pending_[n].bytes; i += 4) {
        unsigned value = 0;
        if (pending_[n].from) memcpy(&value, static_cast<const char*>(pending_[n].from) + i, 4);
        memcpy(static_cast<char*>(pending_[n].to) + i, &value, 4);
      }
    count_ = 0;
#endif
  }

#ifdef NORMLAB_CUDA_EMULATED
 private:
  static constexpr int kMost = 128;
  struct Copy {
    void* to;
    const void* from;
    int bytes;
  };
  Copy pending_[kMost];
  int count_ = 0;
#endif
};

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
