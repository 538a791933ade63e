// The two classification losses, one number per image, and softmax cross-entropy over pixels, some of which are
// ignored. One warp per image or pixel.
#include <limits>

#include "cuda/cuda_backend.h"
#include "cuda/kernel.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// The target of class c for an image: from `row`, or from its label with smoothing.
template <class A>
struct Target {
  const A* row;
  std::int64_t label;
  A on, off;
  __device__ A operator()(std::int64_t c) const { return row ? row[c] : c == label ? on : off; }
};

/// The targets of a batch: either `labels` or `soft` is null. Pixels may have the label `ignored`.
template <class A>
struct TargetsOf {
  std::int64_t classes;
  A on, off;
  const std::int32_t* labels;
  const A* soft;
  bool pixels;
  std::int32_t ignored;
  __device__ Target<A> operator()(std::int64_t image) const {
    if (soft) return {soft + image * classes, -1, on, off};
    return {nullptr, labels[image], on, off};
  }
  __device__ bool ignores(const Target<A>& target) const { return pixels && target.label == ignored; }
  /// A label out of range gives NaN, since a kernel cannot throw; the search for non-finite values then finds it.
  __device__ bool misses(const Target<A>& target) const {
    return !soft && !ignores(target) && (target.label < 0 || target.label >= classes);
  }
};

template <class A>
TargetsOf<A> targets_of(const LossDims& d, const Tensor& labels, const Tensor& soft) {
  const A e = A(d.label_smoothing);
  const bool others = d.smoothing == Smoothing::others;
  const A off = others ? e / A(d.classes - 1) : e / A(d.classes);
  const A on = others ? 1 - e : 1 - e + off;
  return {d.classes, on, off, labels.data<std::int32_t>(), soft.data<A>(), false, 0};
}
template <class A>
TargetsOf<A> pixel_targets(const LossDims& d, const Tensor& labels, std::int32_t ignored) {
  TargetsOf<A> targets = targets_of<A>(d, labels, Tensor());
  targets.pixels = true;
  targets.ignored = ignored;
  return targets;
}

/// The softmax of a row in two parts, exp(z - top) and their sum. A single log-sum-exp would carry the rounding of
/// large logits into every probability.
template <class A>
struct Normaliser {
  A top, total;
};
template <class T>
__device__ Normaliser<Acc<T>> normaliser(std::int64_t n, const T* z) {
  using A = Acc<T>;
  A top = A(z[0]);
  for (std::int64_t c = threadIdx.x % kWarp; c < n; c += kWarp) top = A(z[c]) > top ? A(z[c]) : top;
  top = warp_max(top);
  return {top, warp_sum_of<A>(n, [&](std::int64_t c) { return std::exp(A(z[c]) - top); })};
}

template <class T>
__global__ void softmax_losses(std::int64_t batch, TargetsOf<Acc<T>> targets, const T* logits, Acc<T>* losses) {
  using A = Acc<T>;
  const std::int64_t b = row_of_warp();
  if (b >= batch) return;  // a whole warp
  const T* z = logits + b * targets.classes;
  const Target<A> target = targets(b);
  A loss = 0;
  if (targets.misses(target)) {
    loss = std::numeric_limits<A>::quiet_NaN();
  } else if (!targets.ignores(target)) {
    const Normaliser<A> n = normaliser(targets.classes, z);
    const A log_total = std::log(n.total);
    loss = warp_sum_of<A>(targets.classes, [&](std::int64_t c) { return target(c) * (log_total - (A(z[c]) - n.top)); });
  }
  if (threadIdx.x % kWarp == 0) losses[b] = loss;
}

template <class T>
__global__ void softmax_loss_gradient(std::int64_t batch, TargetsOf<Acc<T>> targets, const Acc<T>* dlosses,
                                      const T* logits, T* dlogits, bool add) {
  using A = Acc<T>;
  const std::int64_t b = row_of_warp();
  if (b >= batch) return;
  const T* z = logits + b * targets.classes;
  T* out = dlogits + b * targets.classes;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const Target<A> target = targets(b);
  if (targets.ignores(target)) {
    for (std::int64_t c = lane; c < targets.classes; c += kWarp) put(out[c], A(0), add);
    return;
  }
  const auto [top, total] = normaliser(targets.classes, z);
  const A up = targets.misses(target) ? std::numeric_limits<A>::quiet_NaN() : dlosses[b];
  // Sum of the targets: 1 for labels, anything for soft targets.
  const A mass = targets.soft ? warp_sum_of<A>(targets.classes, [&](std::int64_t c) { return target(c); }) : A(1);
  for (std::int64_t c = lane; c < targets.classes; c += kWarp)
    put(out[c], up * (mass * (std::exp(A(z[c]) - top) / total) - target(c)), add);
}

/// log(1 + exp(-|z|)) + max(z, 0) = -log sigmoid(-z), without overflow at either end.
template <class A>
__device__ A softplus(A z) {
  return std::log1p(std::exp(-std::abs(z))) + (z < 0 ? A(0) : z);
}

template <class T>
__global__ void sigmoid_losses(std::int64_t batch, TargetsOf<Acc<T>> targets, const T* logits, Acc<T>* losses) {
  using A = Acc<T>;
  const std::int64_t b = row_of_warp();
  if (b >= batch) return;
  const T* z = logits + b * targets.classes;
  const Target<A> target = targets(b);
  A loss = warp_sum_of<A>(targets.classes, [&](std::int64_t c) {
    const A v = A(z[c]), t = target(c);
    return t * softplus(-v) + (1 - t) * softplus(v);
  });
  if (targets.misses(target)) loss = std::numeric_limits<A>::quiet_NaN();
  if (threadIdx.x % kWarp == 0) losses[b] = loss;
}

template <class T>
struct SigmoidLossGradient {
  TargetsOf<Acc<T>> targets;
  const Acc<T>* dlosses;
  const T* logits;
  T* dlogits;
  bool add;
  __device__ void operator()(std::int64_t i) const {
    using A = Acc<T>;
    const std::int64_t b = i / targets.classes;
    const A v = A(logits[i]), e = std::exp(-std::abs(v));  // never overflows
    const Target<A> target = targets(b);
    const A up = targets.misses(target) ? std::numeric_limits<A>::quiet_NaN() : dlosses[b];
    put(dlogits[i], up * ((v >= 0 ? 1 : e) / (1 + e) - target(i % targets.classes)), add);
  }
};

}  // namespace

void CudaBackend::softmax_cross_entropy(LossDims d, Tensor logits, Tensor labels, Tensor targets, Tensor losses) {
  for_type("softmax_cross_entropy", logits.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("softmax_cross_entropy", softmax_losses<T>, warp_a_row(d.batch), stream_, d.batch,
           targets_of<Acc<T>>(d, labels, targets), logits.data<T>(), losses.data<Acc<T>>());
  });
}

void CudaBackend::softmax_cross_entropy_backward(LossDims d, Tensor dlosses, Tensor logits, Tensor labels,
                                                 Tensor targets, Gradient dlogits) {
  if (!dlogits) return;
  for_type("softmax_cross_entropy", logits.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("softmax_cross_entropy_backward", softmax_loss_gradient<T>, warp_a_row(d.batch), stream_, d.batch,
           targets_of<Acc<T>>(d, labels, targets), dlosses.data<Acc<T>>(), logits.data<T>(), dlogits.to.data<T>(),
           adds(dlogits));
  });
}

void CudaBackend::sigmoid_cross_entropy(LossDims d, Tensor logits, Tensor labels, Tensor targets, Tensor losses) {
  for_type("sigmoid_cross_entropy", logits.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("sigmoid_cross_entropy", sigmoid_losses<T>, warp_a_row(d.batch), stream_, d.batch,
           targets_of<Acc<T>>(d, labels, targets), logits.data<T>(), losses.data<Acc<T>>());
  });
}

void CudaBackend::sigmoid_cross_entropy_backward(LossDims d, Tensor dlosses, Tensor logits, Tensor labels,
                                                 Tensor targets, Gradient dlogits) {
  if (!dlogits) return;
  for_type("sigmoid_cross_entropy", logits.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_element("sigmoid_cross_entropy_backward", d.batch * d.classes, stream_,
                 SigmoidLossGradient<T>{targets_of<Acc<T>>(d, labels, targets), dlosses.data<Acc<T>>(),
                                        logits.data<T>(), dlogits.to.data<T>(), adds(dlogits)});
  });
}

void CudaBackend::pixel_softmax_cross_entropy(LossDims d, std::int32_t ignore, Tensor logits, Tensor labels,
                                              Tensor losses) {
  for_type("pixel_softmax_cross_entropy", logits.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("pixel_softmax_cross_entropy", softmax_losses<T>, warp_a_row(d.batch), stream_, d.batch,
           pixel_targets<Acc<T>>(d, labels, ignore), logits.data<T>(), losses.data<Acc<T>>());
  });
}

void CudaBackend::pixel_softmax_cross_entropy_backward(LossDims d, std::int32_t ignore, Tensor dlosses, Tensor logits,
                                                       Tensor labels, Gradient dlogits) {
  if (!dlogits) return;
  for_type("pixel_softmax_cross_entropy", logits.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("pixel_softmax_cross_entropy_backward", softmax_loss_gradient<T>, warp_a_row(d.batch), stream_, d.batch,
           pixel_targets<Acc<T>>(d, labels, ignore), dlosses.data<Acc<T>>(), logits.data<T>(), dlogits.to.data<T>(),
           adds(dlogits));
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
