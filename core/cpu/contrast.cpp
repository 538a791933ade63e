// Unit rows and the contrastive losses over them.
#include "core/contrast_rule.h"
#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;
namespace {

constexpr double kTiny = 1e-8;  // added to a norm, as in Big Vision

template <class T>
Acc<T> norm_of(const T* x, std::int64_t n) {
  return std::sqrt(sum<Acc<T>>(n, [&](std::int64_t c) { return Acc<T>(x[c]) * Acc<T>(x[c]); }));
}

/// Writes the largest logit of a row and the sum of exp(logit - largest).
template <class A>
void softmax_of(const ContrastRule<A>& rule, std::int64_t n, const A* cosines, A* out) {
  out[0] = rule.logit(*std::max_element(cosines, cosines + n));
  out[1] = 0;
  for (std::int64_t c = 0; c < n; ++c) out[1] += std::exp(rule.logit(cosines[c]) - out[0]);
}

}  // namespace

void CpuBackend::unit_rows(Tensor x, Tensor y) {
  for_type("unit_rows", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t cols = x.shape().back();
    for (std::int64_t r = 0; r < x.shape().rows(); ++r) {
      const T* in = x.data<T>() + r * cols;
      const Acc<T> by = norm_of(in, cols) + Acc<T>(kTiny);
      for (std::int64_t c = 0; c < cols; ++c) y.data<Acc<T>>()[r * cols + c] = Acc<T>(in[c]) / by;
    }
  });
}

void CpuBackend::unit_rows_backward(Tensor dy, Tensor x, Gradient dx) {
  if (!dx) return;
  for_type("unit_rows", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Acc<T>;
    const std::int64_t cols = x.shape().back();
    for (std::int64_t r = 0; r < x.shape().rows(); ++r) {
      const T* in = x.data<T>() + r * cols;
      const A* up = dy.data<A>() + r * cols;
      const A norm = norm_of(in, cols), by = norm + A(kTiny);
      const A along = sum<A>(cols, [&](std::int64_t c) { return up[c] * A(in[c]); });
      const A back = norm > 0 ? along / (norm * by * by) : A(0);
      for (std::int64_t c = 0; c < cols; ++c)
        put(dx.to.data<T>()[r * cols + c], up[c] / by - back * A(in[c]), adds(dx));
    }
  });
}

void CpuBackend::contrast(ContrastDims d, const Contrast& of, Tensor statistics, Tensor losses) {
  for_param_type("contrast", losses.dtype(), [&](auto type) {
    using A = typename decltype(type)::type;
    const ContrastRule<A> rule = contrast_rule<A>(d, of, {}, {});
    for (std::int64_t i = 0; i < d.images; ++i) {
      const A *row = of.rows.data<A>() + i * d.batch, *col = of.cols.data<A>() + i * d.batch;
      A& loss = losses.data<A>()[i];
      if (d.sigmoid) {
        loss = 0;
        for (std::int64_t j = 0; j < d.batch; ++j) {
          const A z = rule.logit(row[j]);
          loss += rule.minus_log_sigmoid(j == d.first + i ? z : -z);
        }
      } else {
        A* const own = statistics.data<A>() + 4 * i;
        softmax_of(rule, d.batch, row, own);
        softmax_of(rule, d.batch, col, own + 2);
        loss = rule.softmax_loss(rule.logit(row[d.first + i]), own);
      }
    }
  });
}

void CpuBackend::contrast_backward(ContrastDims d, const Contrast& of, Tensor statistics, Tensor dlosses, Tensor,
                                   Gradient dt, Gradient db) {
  for_param_type("contrast", dlosses.dtype(), [&](auto type) {
    using A = typename decltype(type)::type;
    const ContrastRule<A> rule = contrast_rule<A>(d, of, statistics, dlosses);
    const A scale = rule.scale();
    double of_t = 0, of_b = 0;
    for (std::int64_t i = 0; i < d.images; ++i) {
      A *row = of.rows.data<A>() + i * d.batch, *col = of.cols.data<A>() + i * d.batch;
      const std::int64_t own = d.first + i;
      for (std::int64_t j = 0; j < d.batch; ++j) {
        const A g = rule.gradient(own, j, rule.logit(row[j]));
        of_t += double(g * scale * row[j]);
        of_b += double(g);
        row[j] = g * scale;
        col[j] = rule.gradient(j, own, rule.logit(col[j])) * scale;
      }
    }
    if (dt) put(*dt.to.data<A>(), A(of_t), adds(dt));
    if (db) put(*db.to.data<A>(), d.sigmoid ? A(of_b) : A(0), adds(db));
  });
}

}  // namespace normlab
