// What the kernels of formulas call, as text.
#pragma once

namespace normlab::formula {

// What follows the constants of a kernel: T (storage), A (arithmetic), Words (V values), kCols, V, kVectors (of a lane),
// kWarps (of a team), kTeams.
inline constexpr const char* kCudaHelpers = R"cuda(
#ifdef NORMLAB_CUDA_EMULATED
#define NORMLAB_KERNEL static
using std::atan, std::cos, std::erf, std::exp, std::expm1, std::log, std::log1p, std::pow, std::sin, std::sqrt, std::tanh;
#else
#define NORMLAB_KERNEL extern "C" __global__
#endif
#ifndef NORMLAB_UNROLL
#define NORMLAB_UNROLL _Pragma("unroll")
#define NORMLAB_SHARED(T, name, count)                                    \
  __shared__ alignas(16) unsigned char name##_bytes[sizeof(T) * (count)]; \
  T* const name = reinterpret_cast<T*>(name##_bytes)
#define NORMLAB_DYNAMIC_SHARED(T, name)                                   \
  extern __shared__ __align__(16) unsigned char normlab_dynamic_shared[]; \
  T* const name = reinterpret_cast<T*>(normlab_dynamic_shared)
#endif
constexpr int kHeld = kVectors * V, kLanes = 32 * kWarps, kThreads = kLanes * kTeams;
constexpr bool kWhole = kHeld * kLanes == kCols;
constexpr unsigned kAllLanes = 0xffffffffu;

__device__ inline float widened(unsigned short v) {
  const unsigned bits = unsigned(v) << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
__device__ inline float widened(float v) { return v; }
__device__ inline double widened(double v) { return v; }
__device__ inline void round_to(float& to, float v) { to = v; }
__device__ inline void round_to(double& to, double v) { to = v; }
__device__ inline void round_to(unsigned short& to, float v) {
#ifdef NORMLAB_CUDA_EMULATED
  to = normlab::bf16(v).bits;
#else
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to) : "f"(v));
#endif
}

// V adjacent values of a row.
struct Packed {
#ifdef NORMLAB_CUDA_EMULATED
  T values[V];
#else
  Words words;
#endif
};
__device__ inline Packed loaded(const T* from) {
  Packed to;
#ifdef NORMLAB_CUDA_EMULATED
  for (int k = 0; k < V; ++k) to.values[k] = from[k];
#else
  to.words = *reinterpret_cast<const Words*>(from);
#endif
  return to;
}
__device__ inline void widen(const Packed& from, A* to) {
  T values[V];
  memcpy(static_cast<void*>(values), &from, sizeof values);
  NORMLAB_UNROLL
  for (int k = 0; k < V; ++k) to[k] = widened(values[k]);
}
__device__ inline void store(T* to, const A* from) {
  T values[V];
  NORMLAB_UNROLL
  for (int k = 0; k < V; ++k) round_to(values[k], from[k]);
#ifdef NORMLAB_CUDA_EMULATED
  for (int k = 0; k < V; ++k) to[k] = values[k];
#else
  Words words;
  memcpy(&words, values, sizeof words);
  *reinterpret_cast<Words*>(to) = words;
#endif
}
// Copies V values into shared memory while the thread goes on, and waits for such copies.
__device__ inline void copy_ahead(T* to, const T* from) {
#ifdef NORMLAB_CUDA_EMULATED
  for (int k = 0; k < V; ++k) to[k] = from[k];
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(unsigned(__cvta_generic_to_shared(to))), "l"(from) : "memory");
#endif
}
__device__ inline void wait_for_copies() {
#ifndef NORMLAB_CUDA_EMULATED
  asm volatile("cp.async.wait_all;" : : : "memory");
#endif
}
// Brings what is added to later nearer, without a register.
__device__ inline void will_read(const T* from) {
#ifndef NORMLAB_CUDA_EMULATED
  asm volatile("prefetch.global.L2 [%0];" : : "l"(from));
#endif
}
// V parameters, which need not be aligned.
__device__ inline void load_parameters(const A* from, A (&to)[V]) {
#ifndef NORMLAB_CUDA_EMULATED
  constexpr int kPart = 16 / int(sizeof(A));
  if (V % kPart == 0 && reinterpret_cast<unsigned long long>(from) % 16 == 0) {
    NORMLAB_UNROLL
    for (int k = 0; k < V; k += kPart) {
      const uint4 part = *reinterpret_cast<const uint4*>(from + k);
      memcpy(to + k, &part, V < kPart ? 0 : sizeof part);
    }
    return;
  }
#endif
  NORMLAB_UNROLL
  for (int k = 0; k < V; ++k) to[k] = from[k];
}

// The largest or smallest value, and where it is first; at < 0: none. NaN is both.
struct Extreme {
  A best;
  int at;
};
template <bool kLeast>
struct First {
  __device__ Extreme operator()(Extreme a, Extreme b) const {
    if (a.at < 0 || b.at < 0) return a.at < 0 ? b : a;
    const bool none_a = a.best != a.best, none_b = b.best != b.best;
    if (none_a != none_b) return none_a ? a : b;
    if (none_a || a.best == b.best) return a.at < b.at ? a : b;
    return (a.best < b.best) == kLeast ? a : b;
  }
};
struct Plus {
  template <class S>
  __device__ S operator()(S a, S b) const {
    return a + b;
  }
};
template <class S>
__device__ inline S of_other(S value, int step) {
  return __shfl_xor_sync(kAllLanes, value, step);
}
__device__ inline Extreme of_other(Extreme e, int step) { return {of_other(e.best, step), of_other(e.at, step)}; }

// Joins each value over groups of kOf warps; the same bits in each lane. All threads must call this. Calls take turns
// with the halves of `memory`, so that one barrier is enough.
template <int kOf, int K, class S, class F>
__device__ inline void join(S (&values)[K], double* memory, int half, int& turn, F both) {
  NORMLAB_UNROLL
  for (int k = 0; k < K; ++k)
    for (int step = 16; step > 0; step /= 2) values[k] = both(values[k], of_other(values[k], step));
  if (kOf == 1) return;
  const int warp = int(threadIdx.x) / 32, warps = int(blockDim.x) / 32, first = warp / kOf * kOf;
  S* const of_warp = reinterpret_cast<S*>(memory + turn * half);
  turn = 1 - turn;
  if (threadIdx.x % 32 == 0)
    for (int k = 0; k < K; ++k) of_warp[k * warps + warp] = values[k];
  __syncthreads();
  NORMLAB_UNROLL
  for (int k = 0; k < K; ++k) {
    values[k] = of_warp[k * warps + first];
    for (int w = 1; w < kOf; ++w) values[k] = both(values[k], of_warp[k * warps + first + w]);
  }
}

// sum += the next kAtOnce of a warp's chunks, repeated while so many are left.
template <int kAtOnce>
__device__ inline void add_chunks(const double*& from, long long step, long long& left, double& sum) {
  for (; left >= kAtOnce; left -= kAtOnce) {
    double values[kAtOnce];
    NORMLAB_UNROLL
    for (int i = 0; i < kAtOnce; ++i, from += step) values[i] = *from;
    NORMLAB_UNROLL
    for (int i = 0; i < kAtOnce; ++i) sum += values[i];
  }
}
// A column's sum over all chunks. The lanes of a warp have one column each, the warps share the chunks and read many at
// once. All threads must call this; 0 if not `inside`.
__device__ inline double chunk_sum(const FormulaArguments& a, int step, int column, bool inside) {
  NORMLAB_SHARED(double, of_warp, 256);
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  double sum = 0;
  long long left = inside && warp < a.chunks ? (a.chunks - warp + 7) / 8 : 0;
  const double* from = a.partial + (left > 0 ? warp * step + column : 0);
  add_chunks<16>(from, 8 * step, left, sum);
  add_chunks<4>(from, 8 * step, left, sum);
  add_chunks<1>(from, 8 * step, left, sum);
  __syncthreads();  // no thread reads an earlier sum any more
  of_warp[threadIdx.x] = sum;
  __syncthreads();
  double total = 0;
  for (int w = 0; w < 8; ++w) total += of_warp[w * 32 + lane];
  return total;
}

__device__ inline A size_of(A v) { return v < 0 ? -v : v; }
__device__ inline A sign_of(A v) { return v > 0 ? A(1) : v < 0 ? A(-1) : v; }
__device__ inline A sigmoid_of(A v) { return 1 / (1 + exp(-v)); }
__device__ inline A softplus_of(A v) {
  const A rest = log1p(exp(-size_of(v)));
  return v > 0 ? v + rest : rest;
}
__device__ inline A times_of(A a, A b) { return a == 0 || b == 0 ? A(0) : a * b; }
__device__ inline A pow_of(A a, A b) { return a < 0 ? a - a + A(0) / A(0) : pow(a, b); }
__device__ inline A min_of(A a, A b) { return b != b ? b : b < a ? b : a; }
__device__ inline A max_of(A a, A b) { return b != b ? b : a < b ? b : a; }
__device__ inline A select_of(A a, A b, A c, A d) { return a != a || b != b ? a + b : a < b ? c : d; }
__device__ inline A same_of(A a, A b, A c) { return a == b ? c : A(0); }
)cuda";

}  // namespace normlab::formula
