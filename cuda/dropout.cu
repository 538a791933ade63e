// Dropout and drop-path with a given mask, the drawing of masks, and the search for NaN.
#include "cuda/cuda_backend.h"
#include "cuda/each_vector.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// Applies a mask to adjacent values, which share one group if groups have more than one element. A dropped element is
/// zero whatever it was. In a dropped group, as in the backward pass, non-finite values stay and are detected.
template <class T>
struct Mask {
  std::int64_t group;
  const std::uint8_t* keep;
  Acc<T> factor;
  Mask(std::int64_t group_size, double rate, Tensor mask)
      : group(group_size), keep(mask.data<std::uint8_t>()), factor(Acc<T>(1 / (1 - rate))) {}
  template <int V>
  __device__ void of(std::int64_t at, const T (&x)[V], bool zeroes, Acc<T> (&to)[V]) const {
    std::uint8_t kept[V];
    if (group == 1) {
      load(keep + at, kept);
    } else {
      const std::uint8_t all = keep[quotient(at, group)];
      for (std::uint8_t& each : kept) each = all;
    }
    for (int k = 0; k < V; ++k)
      to[k] = zeroes && group == 1 && !kept[k] ? Acc<T>(0) : Acc<T>(x[k]) * (kept[k] ? factor : Acc<T>(0));
  }
  /// Whether kernels may use vectors for these tensors.
  bool in_vectors(std::initializer_list<const void*> tensors) const {
    return aligned(tensors) && (group == 1 ? aligned({keep}) : group % kVector<T> == 0);
  }
};

/// With a residual, that is added.
template <class T>
struct Dropout {
  Mask<T> mask;
  const T *x, *residual;
  T* y;
  bool zeroes, add;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    const auto masked = [&](std::int64_t at, const T(&in)[V], const auto&... under) {
      Acc<T> out[V];
      mask.of(at, in, zeroes, out);
      for (int k = 0; k < V; ++k) out[k] = (Acc<T>(under[k]) + ... + out[k]);
      put_all(y + at, out, add);
    };
    if (residual)
      run.each(masked, x, residual);
    else
      run.each(masked, x);
  }
};

/// Each element draws four words and uses the first, as core/random.h defines a draw.
struct MaskElements {
  StreamKey key;
  std::int64_t first;
  std::uint32_t threshold;
  const StepState* state;
  std::uint8_t* out;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    const auto step = static_cast<std::uint64_t>(state->step);
    run.each([&](std::int64_t at) {
      std::uint8_t kept[V];
      for (int k = 0; k < V; ++k) {
        const auto position = static_cast<std::uint64_t>(first + at + k);
        std::uint32_t words[4] = {static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32),
                                  static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32)};
        philox4x32(words, key.key[0], key.key[1]);
        kept[k] = keep(words[0], threshold);
      }
      store(out + at, kept);
    });
  }
};

constexpr int kSearchThreads = 256;

/// bad [blocks]: whether a block sees a non-finite value, which times 0 is NaN.
template <class T>
__global__ void search(std::int64_t n, const T* x, std::int32_t* bad) {
  Acc<T> zero = 0;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) zero += Acc<T>(x[i]) * 0;
  zero = block_sum(zero);
  if (threadIdx.x == 0) bad[blockIdx.x] = !(zero == 0);
}
__global__ void raise(std::int64_t blocks, const std::int32_t* bad, std::int32_t code, std::int32_t* flag) {
  const auto found = block_sum_of<std::int32_t>(blocks, [&](std::int64_t i) { return bad[i]; });
  if (threadIdx.x == 0 && found != 0 && *flag == 0) *flag = code;
}

}  // namespace

void CudaBackend::dropout(std::int64_t group, double rate, Tensor x, Tensor keep, Tensor residual, Tensor y) {
  for_type("dropout", x.dtype(), [&]<class T>(Type<T>) {
    const Mask<T> mask(group, rate, keep);
    each_vector<T>(residual ? "dropout_add" : "dropout", x.size(), mask.in_vectors({x.raw(), residual.raw(), y.raw()}),
                   stream_, Dropout<T>{mask, x.data<T>(), residual.data<T>(), y.data<T>(), true, false});
  });
}

void CudaBackend::dropout_backward(std::int64_t group, double rate, Tensor dy, Tensor keep, Gradient dx) {
  if (!dx) return;
  for_type("dropout", dy.dtype(), [&]<class T>(Type<T>) {
    const Mask<T> mask(group, rate, keep);
    each_vector<T>("dropout_backward", dy.size(), mask.in_vectors({dy.raw(), dx.to.raw()}), stream_,
                   Dropout<T>{mask, dy.data<T>(), nullptr, dx.to.data<T>(), false, adds(dx)});
  });
}

void CudaBackend::draw_mask(MaskDraw d, const StepState* state, Tensor keep) {
  each_vector<std::uint8_t>("draw_mask", keep.size(), aligned({keep.raw()}), stream_,
                            MaskElements{d.key, d.first, drop_threshold(d.rate), state, keep.data<std::uint8_t>()});
}

void CudaBackend::check_finite(Tensor x, std::int32_t code, Tensor flag) {
  for_type("check_finite", x.dtype(), [&]<class T>(Type<T>) {
    constexpr std::int64_t kMostBlocks = 1024;
    const std::int64_t n = x.size(), enough = ceil_div(n, kSearchThreads);
    const std::int64_t blocks = enough < kMostBlocks ? enough : kMostBlocks;
    std::int32_t* bad = partial_.get<std::int32_t>(blocks + 1);
    launch("check_finite", search<T>, {blocks, kSearchThreads}, stream_, n, x.data<T>(), bad);
    launch("check_finite", raise, {1, kSearchThreads}, stream_, blocks, bad, code, flag.data<std::int32_t>());
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
