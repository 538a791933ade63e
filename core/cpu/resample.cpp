// Resamples images and position tables: first the width of every row, then the height of the whole image.
#include "core/resample.h"

#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;
namespace {

struct Axis {
  std::int64_t in, out, taps;
  Scratch<std::int64_t> first;  // [out]
  Scratch<double> weights;      // [out, taps]
  Axis(Resampling method, std::int64_t from, std::int64_t to)
      : in(from), out(to), taps(resample_taps(method, from, to)), first(to), weights(to * taps) {
    resample_weights(method, from, to, first, weights);
  }
};
struct Axes {
  Axis height, width;
  explicit Axes(const ResampleDims& d)
      : height(d.method, d.height, d.out_height), width(d.method, d.width, d.out_width) {}
};

/// to [outer, out, inner] = weights times from [outer, in, inner], along the middle axis.
template <class A>
void interpolate(const Axis& axis, std::int64_t outer, std::int64_t inner, const A* from, A* to) {
  std::fill_n(to, outer * axis.out * inner, A(0));
  for (std::int64_t i = 0; i < outer; ++i, from += axis.in * inner)
    for (std::int64_t o = 0; o < axis.out; ++o, to += inner)
      for (std::int64_t t = 0; t < axis.taps; ++t) {
        const A weight = A(axis.weights[o * axis.taps + t]);
        const A* row = from + (axis.first[o] + t) * inner;
        for (std::int64_t c = 0; c < inner; ++c) to[c] += weight * row[c];
      }
}

/// Its transpose: to [outer, in, inner] from the gradient [outer, out, inner].
template <class A>
void spread(const Axis& axis, std::int64_t outer, std::int64_t inner, const A* from, A* to) {
  std::fill_n(to, outer * axis.in * inner, A(0));
  for (std::int64_t i = 0; i < outer; ++i, to += axis.in * inner)
    for (std::int64_t o = 0; o < axis.out; ++o, from += inner)
      for (std::int64_t t = 0; t < axis.taps; ++t) {
        const A weight = A(axis.weights[o * axis.taps + t]);
        A* row = to + (axis.first[o] + t) * inner;
        for (std::int64_t c = 0; c < inner; ++c) row[c] += weight * from[c];
      }
}

}  // namespace

void CpuBackend::resample(ResampleDims d, Tensor x, Tensor y) {
  const Axes axes(d);
  for_type("resample", x.dtype(), [&]<class T>(Type<T>) {
    using A = Acc<T>;
    const std::int64_t in = d.height * d.width * d.channels, out = d.out_height * d.out_width * d.channels;
    const Scratch<A> rows(d.height * d.out_width * d.channels), image(out), wide(in);
    for (std::int64_t b = 0; b < d.batch; ++b) {
      interpolate<A>(axes.width, d.height, d.channels, widen(x.data<T>() + b * in, in, wide), rows);
      interpolate<A>(axes.height, 1, d.out_width * d.channels, rows, image);
      for (std::int64_t i = 0; i < out; ++i) y.data<T>()[b * out + i] = T(image[i]);
    }
  });
}

void CpuBackend::resample_backward(ResampleDims d, Tensor dy, Gradient dx) {
  if (!dx) return;
  const Axes axes(d);
  for_type("resample", dy.dtype(), [&]<class T>(Type<T>) {
    using A = Acc<T>;
    const std::int64_t in = d.height * d.width * d.channels, out = d.out_height * d.out_width * d.channels;
    const Scratch<A> rows(d.height * d.out_width * d.channels), image(in), wide(out);
    for (std::int64_t b = 0; b < d.batch; ++b) {
      spread<A>(axes.height, 1, d.out_width * d.channels, widen(dy.data<T>() + b * out, out, wide), rows);
      spread<A>(axes.width, d.height, d.channels, rows, image);
      T* to = dx.to.data<T>() + b * in;
      for (std::int64_t i = 0; i < in; ++i) put(to[i], image[i], adds(dx));
    }
  });
}

}  // namespace normlab
