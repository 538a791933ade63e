// The two classification losses, one number per image, and softmax cross-entropy over pixels, some of which
// are ignored.
#include <optional>

#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;
namespace {

/// The target of class c for an image: from its row of `targets`, or from its label with smoothing.
template <class A>
struct Target {
  const A* row;
  std::int64_t label;
  A on, off;
  A operator()(std::int64_t c) const { return row ? row[c] : c == label ? on : off; }
};

template <class A>
Target<A> target_of(const LossDims& d, const Tensor& labels, const Tensor& targets, std::int64_t image) {
  const A e = A(d.label_smoothing);
  const bool others = d.smoothing == Smoothing::others;
  const A off = others ? e / A(d.classes - 1) : e / A(d.classes);
  const A on = others ? 1 - e : 1 - e + off;
  if (targets) return {targets.data<A>() + image * d.classes, -1, on, off};
  return {nullptr, labels.data<std::int32_t>()[image], on, off};
}

/// The softmax of a row in two parts, exp(z - top) and their sum. A single log-sum-exp would carry the rounding of
/// large logits into every probability.
template <class A>
struct Normaliser {
  A top, total;
};
template <class T>
Normaliser<Acc<T>> normaliser(std::int64_t n, const T* z) {
  using A = Acc<T>;
  A top = A(z[0]);
  for (std::int64_t c = 1; c < n; ++c) top = std::max(top, A(z[c]));
  A total = 0;
  for (std::int64_t c = 0; c < n; ++c) total += std::exp(A(z[c]) - top);
  return {top, total};
}

/// log(1 + exp(-|z|)) + max(z, 0) = -log sigmoid(-z), without overflow at either end.
template <class A>
A softplus(A z) {
  return std::log1p(std::exp(-std::abs(z))) + std::max(z, A(0));
}

/// Rejects labels out of range: such an image would have no target and the loss 0.
void require_class(const char* op, const char* what, std::int64_t image, std::int64_t label, std::int64_t classes,
                   std::optional<std::int32_t> ignored) {
  if ((label >= 0 && label < classes) || label == ignored) return;
  throw InputError(concat(op, ": ", what, " ", image, " has label ", label, ", but there are ", classes, " classes",
                          ignored ? concat(", and ", *ignored, " is ignored") : ""));
}

/// f(image, its logits, its target) for every image of the batch, or pixel if some labels are `ignored`.
template <class F>
void for_each_image(const char* op, const LossDims& d, const Tensor& logits, const Tensor& labels,
                    const Tensor& targets, std::optional<std::int32_t> ignored, F&& f) {
  for_type(op, logits.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    for (std::int64_t b = 0; b < d.batch; ++b) {
      const Target<Acc<T>> target = target_of<Acc<T>>(d, labels, targets, b);
      if (!targets) require_class(op, ignored ? "pixel" : "image", b, target.label, d.classes, ignored);
      f(b, logits.data<T>() + b * d.classes, target);
    }
  });
}

}  // namespace

void CpuBackend::softmax_cross_entropy(LossDims d, Tensor logits, Tensor labels, Tensor targets, Tensor losses) {
  for_each_image("softmax_cross_entropy", d, logits, labels, targets, std::nullopt,
                 [&]<class T, class A>(std::int64_t b, const T* z, const Target<A>& target) {
                   const auto [top, total] = normaliser(d.classes, z);
                   const A log_total = std::log(total);
                   A loss = 0;
                   for (std::int64_t c = 0; c < d.classes; ++c) loss += target(c) * (log_total - (A(z[c]) - top));
                   losses.data<A>()[b] = loss;
                 });
}

void CpuBackend::softmax_cross_entropy_backward(LossDims d, Tensor dlosses, Tensor logits, Tensor labels,
                                                Tensor targets, Gradient dlogits) {
  if (!dlogits) return;
  for_each_image("softmax_cross_entropy", d, logits, labels, targets, std::nullopt,
                 [&]<class T, class A>(std::int64_t b, const T* z, const Target<A>& target) {
                   const auto [top, total] = normaliser(d.classes, z);
                   const A up = dlosses.data<A>()[b];
                   A mass = 0;  // sum of the targets: 1 for labels, anything for soft targets
                   for (std::int64_t c = 0; c < d.classes; ++c) mass += target(c);
                   T* out = dlogits.to.data<T>() + b * d.classes;
                   for (std::int64_t c = 0; c < d.classes; ++c)
                     put(out[c], up * (mass * (std::exp(A(z[c]) - top) / total) - target(c)), adds(dlogits));
                 });
}

void CpuBackend::sigmoid_cross_entropy(LossDims d, Tensor logits, Tensor labels, Tensor targets, Tensor losses) {
  for_each_image("sigmoid_cross_entropy", d, logits, labels, targets, std::nullopt,
                 [&]<class T, class A>(std::int64_t b, const T* z, const Target<A>& target) {
                   A loss = 0;
                   for (std::int64_t c = 0; c < d.classes; ++c)
                     loss += target(c) * softplus(-A(z[c])) + (1 - target(c)) * softplus(A(z[c]));
                   losses.data<A>()[b] = loss;
                 });
}

void CpuBackend::sigmoid_cross_entropy_backward(LossDims d, Tensor dlosses, Tensor logits, Tensor labels,
                                                Tensor targets, Gradient dlogits) {
  if (!dlogits) return;
  for_each_image("sigmoid_cross_entropy", d, logits, labels, targets, std::nullopt,
                 [&]<class T, class A>(std::int64_t b, const T* z, const Target<A>& target) {
                   const A up = dlosses.data<A>()[b];
                   T* out = dlogits.to.data<T>() + b * d.classes;
                   for (std::int64_t c = 0; c < d.classes; ++c) {
                     const A v = A(z[c]), e = std::exp(-std::abs(v));  // never overflows
                     put(out[c], up * ((v >= 0 ? 1 : e) / (1 + e) - target(c)), adds(dlogits));
                   }
                 });
}

void CpuBackend::pixel_softmax_cross_entropy(LossDims d, std::int32_t ignore, Tensor logits, Tensor labels,
                                             Tensor losses) {
  for_each_image("pixel_softmax_cross_entropy", d, logits, labels, Tensor(), ignore,
                 [&]<class T, class A>(std::int64_t pixel, const T* z, const Target<A>& target) {
                   A& loss = losses.data<A>()[pixel];
                   loss = 0;
                   if (target.label == ignore) return;
                   const auto [top, total] = normaliser(d.classes, z);
                   const A log_total = std::log(total);
                   for (std::int64_t c = 0; c < d.classes; ++c) loss += target(c) * (log_total - (A(z[c]) - top));
                 });
}

void CpuBackend::pixel_softmax_cross_entropy_backward(LossDims d, std::int32_t ignore, Tensor dlosses, Tensor logits,
                                                      Tensor labels, Gradient dlogits) {
  if (!dlogits) return;
  for_each_image("pixel_softmax_cross_entropy", d, logits, labels, Tensor(), ignore,
                 [&]<class T, class A>(std::int64_t pixel, const T* z, const Target<A>& target) {
                   T* out = dlogits.to.data<T>() + pixel * d.classes;
                   if (target.label == ignore) {
                     for (std::int64_t c = 0; c < d.classes; ++c) put(out[c], A(0), adds(dlogits));
                     return;
                   }
                   const auto [top, total] = normaliser(d.classes, z);
                   const A up = dlosses.data<A>()[pixel];
                   for (std::int64_t c = 0; c < d.classes; ++c)
                     put(out[c], up * (std::exp(A(z[c]) - top) / total - target(c)), adds(dlogits));
                 });
}

}  // namespace normlab
