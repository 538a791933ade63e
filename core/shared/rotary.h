// Rotary positions ("RoFormer", arXiv:2104.09864, equation 34).
#pragma once

#include "core/for_type.h"
#include "core/shared_kernels.h"

namespace normlab {
namespace shared {

/// A row is one head of a token.
template <class T, RotaryPairs kPairs>
struct Rotate {
  RotaryDims d;
  const T* x;
  const Param<T>* table;
  T* y;
  bool add;
  template <class Row>
  NORMLAB_DEVICE void operator()(const Row& row, std::int64_t r) const {
    using A = Acc<T>;
    const std::int64_t heads = d.cols / d.head_dim, token = r / heads, head = r - token * heads,
                       at = token % d.tokens - d.first, half = d.head_dim / 2;
    const T* const from = x + r * d.head_dim;
    T* const to = y + r * d.head_dim;
    const bool adds_here = add;
    if (at < 0 || head * d.head_dim >= d.turned) {
      row.each(d.head_dim, [=](std::int64_t c) { row.put(to[c], A(from[c]), adds_here); });
      return;
    }
    const Param<T>* const cosines = table + at * d.head_dim;
    const Param<T>* const sines = cosines + half;
    const A sign = d.back ? A(-1) : A(1);
    row.each(half, [=](std::int64_t c) {
      const std::int64_t i = kPairs == RotaryPairs::halves ? c : 2 * c,
                         j = kPairs == RotaryPairs::halves ? c + half : 2 * c + 1;
      const A a = A(from[i]), b = A(from[j]), cosine = A(cosines[c]), sine = sign * A(sines[c]);
      row.put(to[i], a * cosine - b * sine, adds_here);
      row.put(to[j], b * cosine + a * sine, adds_here);
    });
  }
};

}  // namespace shared

template <class D>
void SharedKernels<D>::rotate(RotaryDims d, Tensor x, Tensor table, Gradient y) {
  if (!y) return;
  for_type("rotate", x.dtype(), [&]<class T>(Type<T>) {
    const auto run = [&]<RotaryPairs kPairs>() {
      on().each_row("rotate", d.batch * d.tokens * (d.cols / d.head_dim),
                    shared::Rotate<T, kPairs>{d, x.data<T>(), table.data<Param<T>>(), y.to.template data<T>(),
                                              y.write == Write::add});
    };
    if (d.pairs == RotaryPairs::halves)
      run.template operator()<RotaryPairs::halves>();
    else
      run.template operator()<RotaryPairs::neighbours>();
  });
}

}  // namespace normlab
