// The classification losses, one number per image or pixel, some of which may be ignored; rows of length 1 and the
// contrastive losses over their cosines; and rows of a table by their numbers.
#pragma once

#include <cmath>
#include <limits>

#include "core/contrast_rule.h"
#include "core/for_type.h"
#include "core/shared_kernels.h"

namespace normlab {
namespace shared {

inline const char* op_of(const LossDims& d) {
  return d.ignored ? "pixel_softmax_cross_entropy" : d.sigmoid ? "sigmoid_cross_entropy" : "softmax_cross_entropy";
}

/// The target of class c for an image: from `row`, or from its label with smoothing.
template <class A>
struct Target {
  const A* row;
  std::int64_t label;
  A on, off;
  NORMLAB_DEVICE A operator()(std::int64_t c) const { return row ? row[c] : c == label ? on : off; }
};

/// The targets of a batch: either `labels` or `soft` is null.
template <class A>
struct Targets {
  std::int64_t classes;
  A on, off;
  const std::int32_t* labels;
  const A* soft;
  bool ignoring;
  std::int32_t ignored;
  Targets(const LossDims& d, const Tensor& of_labels, const Tensor& targets)
      : classes(d.classes),
        labels(of_labels.data<std::int32_t>()),
        soft(targets.data<A>()),
        ignoring(d.ignored.has_value()),
        ignored(d.ignored.value_or(0)) {
    const A e = A(d.label_smoothing);
    const bool others = d.smoothing == Smoothing::others;
    off = others ? e / A(d.classes - 1) : e / A(d.classes);
    on = others ? 1 - e : 1 - e + off;
  }
  NORMLAB_DEVICE Target<A> operator()(std::int64_t image) const {
    if (soft) return {soft + image * classes, -1, on, off};
    return {nullptr, labels[image], on, off};
  }
  NORMLAB_DEVICE bool ignores(const Target<A>& target) const { return ignoring && target.label == ignored; }
  /// A label out of range gives NaN where a kernel cannot throw; the search for non-finite values then finds it.
  NORMLAB_DEVICE bool misses(const Target<A>& target) const {
    return !soft && !ignores(target) && (target.label < 0 || target.label >= classes);
  }
};

/// The softmax of a row in two parts, exp(z - top) and their sum. A single log-sum-exp would carry the rounding of
/// large logits into every probability.
template <class A>
struct Normaliser {
  A top, total;
};
template <class Row, class T>
NORMLAB_DEVICE Normaliser<Acc<T>> normaliser(const Row& row, std::int64_t n, const T* z) {
  using A = Acc<T>;
  const A top = row.max(n, [&](std::int64_t c) { return A(z[c]); });
  return {top, row.template sum_in_order<A>(n, [&](std::int64_t c) { return std::exp(A(z[c]) - top); })};
}

template <class T>
struct CrossEntropy {
  bool sigmoid;
  Targets<Acc<T>> targets;
  const T* logits;
  Acc<T>* losses;
  template <class Row>
  NORMLAB_DEVICE void operator()(const Row& row, std::int64_t b) const {
    using A = Acc<T>;
    const T* z = logits + b * targets.classes;
    const Target<A> target = targets(b);
    A loss = 0;
    if (targets.misses(target)) {
      loss = std::numeric_limits<A>::quiet_NaN();
    } else if (sigmoid) {
      loss = row.template sum_in_order<A>(targets.classes, [&](std::int64_t c) {
        const A v = A(z[c]), t = target(c);
        return t * minus_log_sigmoid(v) + (1 - t) * minus_log_sigmoid(-v);
      });
    } else if (!targets.ignores(target)) {
      const Normaliser<A> n = normaliser(row, targets.classes, z);
      const A log_total = std::log(n.total);
      loss = row.template sum_in_order<A>(targets.classes,
                                          [&](std::int64_t c) { return target(c) * (log_total - (A(z[c]) - n.top)); });
    }
    if (row.leads()) losses[b] = loss;
  }
};

template <class T>
struct CrossEntropyGradient {
  bool sigmoid;
  Targets<Acc<T>> targets;
  const Acc<T>* dlosses;
  const T* logits;
  T* dlogits;
  bool add;
  template <class Row>
  NORMLAB_DEVICE void operator()(const Row& row, std::int64_t b) const {
    using A = Acc<T>;
    const T* z = logits + b * targets.classes;
    T* out = dlogits + b * targets.classes;
    const Target<A> target = targets(b);
    const A up = targets.misses(target) ? std::numeric_limits<A>::quiet_NaN() : dlosses[b];
    if (sigmoid) {
      row.each(targets.classes, [&](std::int64_t c) {
        const A v = A(z[c]), e = std::exp(-std::abs(v));  // never overflows
        row.put(out[c], up * ((v >= 0 ? 1 : e) / (1 + e) - target(c)), add);
      });
      return;
    }
    if (targets.ignores(target)) return row.each(targets.classes, [&](std::int64_t c) { row.put(out[c], A(0), add); });
    const auto [top, total] = normaliser(row, targets.classes, z);
    // Sum of the targets: anything for soft ones, 1 for a label, up to the rounding of smoothed ones.
    const A mass = targets.soft || Row::kAddsTargets ? row.template sum_in_order<A>(targets.classes, target) : A(1);
    row.each(targets.classes, [&, top = top, total = total](std::int64_t c) {
      row.put(out[c], up * (mass * (std::exp(A(z[c]) - top) / total) - target(c)), add);
    });
  }
};

inline constexpr double kTiny = 1e-8;  // added to a norm, as in Big Vision

template <class Row, class T>
NORMLAB_DEVICE Acc<T> norm_of(const Row& row, const T* x, std::int64_t n) {
  return std::sqrt(row.template sum<Acc<T>>(n, [&](std::int64_t c) { return Acc<T>(x[c]) * Acc<T>(x[c]); }));
}
template <class T>
struct UnitRows {
  std::int64_t cols;
  const T* x;
  Acc<T>* y;
  template <class Row>
  NORMLAB_DEVICE void operator()(const Row& row, std::int64_t r) const {
    const T* in = x + r * cols;
    const Acc<T> by = norm_of(row, in, cols) + Acc<T>(kTiny);
    row.each(cols, [&](std::int64_t c) { y[r * cols + c] = Acc<T>(in[c]) / by; });
  }
};
template <class T>
struct UnitRowsGradient {
  std::int64_t cols;
  const Acc<T>* dy;
  const T* x;
  T* dx;
  bool add;
  template <class Row>
  NORMLAB_DEVICE void operator()(const Row& row, std::int64_t r) const {
    using A = Acc<T>;
    const T* in = x + r * cols;
    const A* up = dy + r * cols;
    const A norm = norm_of(row, in, cols), by = norm + A(kTiny);
    const A along = row.template sum<A>(cols, [&](std::int64_t c) { return up[c] * A(in[c]); });
    const A back = norm > 0 ? along / (norm * by * by) : A(0);
    row.each(cols, [&](std::int64_t c) { row.put(dx[r * cols + c], up[c] / by - back * A(in[c]), add); });
  }
};

template <class A>
struct ContrastLosses {
  ContrastDims d;
  ContrastRule<A> rule;
  const A *rows, *cols;
  A *statistics, *losses;
  /// Writes the largest logit of n cosines and the sum of exp(logit - largest).
  template <class Row>
  NORMLAB_DEVICE void softmax_of(const Row& row, const A* cosines, A* out) const {
    const A top = rule.logit(row.max(d.batch, [&](std::int64_t c) { return cosines[c]; }));
    const A total =
        row.template sum_in_order<A>(d.batch, [&](std::int64_t c) { return std::exp(rule.logit(cosines[c]) - top); });
    if (row.leads()) out[0] = top, out[1] = total;
  }
  template <class Row>
  NORMLAB_DEVICE void operator()(const Row& row, std::int64_t i) const {
    const A* const of_texts = rows + i * d.batch;
    if (d.sigmoid) {
      const A loss = row.template sum_in_order<A>(d.batch, [&](std::int64_t j) {
        const A z = rule.logit(of_texts[j]);
        return minus_log_sigmoid(j == d.first + i ? z : -z);
      });
      if (row.leads()) losses[i] = loss;
      return;
    }
    A* const pair = statistics + 4 * i;
    softmax_of(row, of_texts, pair);
    softmax_of(row, cols + i * d.batch, pair + 2);
    if (row.leads()) losses[i] = rule.softmax_loss(rule.logit(of_texts[d.first + i]), pair);
  }
};

template <class T>
struct Embed {
  std::int64_t cols;
  const std::int32_t* ids;
  const Param<T>* table;
  T* y;
  template <class Row>
  NORMLAB_DEVICE void operator()(const Row& row, std::int64_t r) const {
    row.each(cols, [&](std::int64_t c) { y[r * cols + c] = T(table[ids[r] * cols + c]); });
  }
};
template <class T>
struct PutToken {
  std::int64_t values, image;
  const Param<T>* token;
  T* y;
  template <class Row>
  NORMLAB_DEVICE void operator()(const Row& row, std::int64_t b) const {
    row.each(values, [&](std::int64_t c) { y[b * image + c] = T(token[c]); });
  }
};

}  // namespace shared

template <class D>
void SharedKernels<D>::cross_entropy(LossDims d, Tensor logits, Tensor labels, Tensor targets, Tensor losses) {
  const char* op = shared::op_of(d);
  on().require_classes(op, d, labels);
  for_type(op, logits.dtype(), [&]<class T>(Type<T>) {
    on().each_row(op, d.batch,
                  shared::CrossEntropy<T>{d.sigmoid, {d, labels, targets}, logits.data<T>(), losses.data<Acc<T>>()});
  });
}

template <class D>
void SharedKernels<D>::cross_entropy_backward(LossDims d, Tensor dlosses, Tensor logits, Tensor labels, Tensor targets,
                                              Gradient dlogits) {
  if (!dlogits) return;
  const char* op = shared::op_of(d);
  on().require_classes(op, d, labels);
  for_type(op, logits.dtype(), [&]<class T>(Type<T>) {
    on().each_row(op, d.batch,
                  shared::CrossEntropyGradient<T>{d.sigmoid,
                                                  {d, labels, targets},
                                                  dlosses.data<Acc<T>>(),
                                                  logits.data<T>(),
                                                  dlogits.to.data<T>(),
                                                  dlogits.write == Write::add});
  });
}

template <class D>
void SharedKernels<D>::unit_rows(Tensor x, Tensor y) {
  for_type("unit_rows", x.dtype(), [&]<class T>(Type<T>) {
    on().each_row("unit_rows", x.shape().rows(), shared::UnitRows<T>{x.shape().back(), x.data<T>(), y.data<Acc<T>>()});
  });
}

template <class D>
void SharedKernels<D>::unit_rows_backward(Tensor dy, Tensor x, Gradient dx) {
  if (!dx) return;
  for_type("unit_rows", x.dtype(), [&]<class T>(Type<T>) {
    on().each_row("unit_rows_backward", x.shape().rows(),
                  shared::UnitRowsGradient<T>{x.shape().back(), dy.data<Acc<T>>(), x.data<T>(), dx.to.data<T>(),
                                              dx.write == Write::add});
  });
}

template <class D>
void SharedKernels<D>::contrast(ContrastDims d, const Contrast& cosines, Tensor statistics, Tensor losses) {
  for_param_type("contrast", losses.dtype(), [&]<class A>(Type<A>) {
    on().each_row("contrast", d.images,
                  shared::ContrastLosses<A>{d, contrast_rule<A>(d, cosines, {}, {}), cosines.rows.data<A>(),
                                            cosines.cols.data<A>(), statistics.data<A>(), losses.data<A>()});
  });
}

template <class D>
void SharedKernels<D>::embed(Tensor ids, Tensor table, Tensor y) {
  for_type("embed", y.dtype(), [&]<class T>(Type<T>) {
    on().each_row("embed", ids.size(),
                  shared::Embed<T>{y.shape().back(), ids.data<std::int32_t>(), table.data<Param<T>>(), y.data<T>()});
  });
}

template <class D>
void SharedKernels<D>::put_token(TokenDims d, Tensor token, Tensor y) {
  for_type("put_token", y.dtype(), [&]<class T>(Type<T>) {
    on().each_row("put_token", d.batch,
                  shared::PutToken<T>{token.size(), d.tokens * d.cols, token.data<Param<T>>(), y.data<T>()});
  });
}

}  // namespace normlab
