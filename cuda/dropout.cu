// Dropout and drop-path with a given mask, the mask itself, and the search for NaN.
#include "cuda/cuda_backend.h"
#include "cuda/kernel.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// What a mask makes of a value. A dropped element is zero whatever it was; in a dropped group, as on the way back,
/// what is not finite stays so and is found.
template <class T>
struct Mask {
  std::int64_t group;
  const std::uint8_t* keep;
  Acc<T> factor;
  Mask(std::int64_t group_size, double rate, Tensor mask)
      : group(group_size), keep(mask.data<std::uint8_t>()), factor(Acc<T>(1 / (1 - rate))) {}
  __device__ Acc<T> of(std::int64_t i, Acc<T> x) const {
    if (group == 1 && !keep[i]) return 0;
    return scaled(i, x);
  }
  __device__ Acc<T> scaled(std::int64_t i, Acc<T> x) const { return x * (keep[i / group] ? factor : 0); }
};

template <class T>
struct Dropout {
  Mask<T> mask;
  const T* x;
  T* y;
  __device__ void operator()(std::int64_t i) const { y[i] = T(mask.of(i, Acc<T>(x[i]))); }
};
template <class T>
struct DropoutAdd {
  Mask<T> mask;
  const T *x, *residual;
  T* y;
  __device__ void operator()(std::int64_t i) const { y[i] = T(Acc<T>(residual[i]) + mask.of(i, Acc<T>(x[i]))); }
};
template <class T>
struct DropoutGradient {
  Mask<T> mask;
  const T* dy;
  T* dx;
  bool add;
  __device__ void operator()(std::int64_t i) const { put(dx[i], mask.scaled(i, Acc<T>(dy[i])), add); }
};

struct MaskElements {
  StreamKey key;
  std::int64_t first;
  std::uint32_t threshold;
  const StepState* state;
  std::uint8_t* out;
  __device__ void operator()(std::int64_t i) const {
    const auto position = static_cast<std::uint64_t>(first + i), step = static_cast<std::uint64_t>(state->step);
    std::uint32_t words[4] = {static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32),
                              static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32)};
    philox4x32(words, key.key[0], key.key[1]);
    out[i] = keep(words[0], threshold);
  }
};

constexpr int kSearchThreads = 256;

/// bad [blocks]: whether a value that a block looks at is not finite, which times 0 is NaN.
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

void CudaBackend::dropout(std::int64_t group, double rate, Tensor x, Tensor keep, Tensor y) {
  for_type("dropout", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_element("dropout", x.size(), stream_, Dropout<T>{{group, rate, keep}, x.data<T>(), y.data<T>()});
  });
}

void CudaBackend::dropout_add(std::int64_t group, double rate, Tensor x, Tensor keep, Tensor residual, Tensor y) {
  for_type("dropout_add", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_element("dropout_add", x.size(), stream_,
                 DropoutAdd<T>{{group, rate, keep}, x.data<T>(), residual.data<T>(), y.data<T>()});
  });
}

void CudaBackend::dropout_backward(std::int64_t group, double rate, Tensor dy, Tensor keep, Gradient dx) {
  if (!dx) return;
  for_type("dropout", dy.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_element("dropout_backward", dy.size(), stream_,
                 DropoutGradient<T>{{group, rate, keep}, dy.data<T>(), dx.to.data<T>(), adds(dx)});
  });
}

void CudaBackend::draw_mask(MaskDraw d, const StepState* state, Tensor keep) {
  each_element("draw_mask", keep.size(), stream_,
               MaskElements{d.key, d.first, drop_threshold(d.rate), state, keep.data<std::uint8_t>()});
}

void CudaBackend::check_finite(Tensor x, std::int32_t code, Tensor flag) {
  for_type("check_finite", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    constexpr std::int64_t kMostBlocks = 1024;
    const std::int64_t n = x.size(), enough = ceil_div(n, kSearchThreads);
    const std::int64_t blocks = enough < kMostBlocks ? enough : kMostBlocks;
    std::int32_t* bad = partial_.get<std::int32_t>(blocks + 1);
    launch("check_finite", search<T>, {blocks, kSearchThreads}, stream_, n, x.data<T>(), bad);
    launch("check_finite", raise, {1, kSearchThreads}, stream_, blocks, bad, code, flag.data<std::int32_t>());
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
