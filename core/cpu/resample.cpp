// Resamples images and position tables: first the width of every row, then the height of the whole image.
#include "core/resample.h"

#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;
namespace {

struct Axis {
  std::int64_t in, out, taps;
  const std::int64_t* first;  // [out]
  const double* weights;      // [out, taps]
};
struct Axes {
  Axis height, width;
};

/// The tables of both axes, in scratch `a` and `b`.
Axes axes_of(const ResampleDims& d) {
  const std::int64_t height_taps = resample_taps(d.how, d.height, d.out_height);
  const std::int64_t width_taps = resample_taps(d.how, d.width, d.out_width);
  std::int64_t* first = scratch<std::int64_t>(Slot::a, d.out_height + d.out_width);
  double* weights = scratch<double>(Slot::b, d.out_height * height_taps + d.out_width * width_taps);
  const Axis height{d.height, d.out_height, height_taps, first, weights};
  resample_weights(d.how, d.height, d.out_height, first, weights);
  first += d.out_height, weights += d.out_height * height_taps;
  resample_weights(d.how, d.width, d.out_width, first, weights);
  return {height, {d.width, d.out_width, width_taps, first, weights}};
}

/// to [outer, out, inner] = weights times from [outer, in, inner], along the middle axis.
template <class A>
void gather(const Axis& axis, std::int64_t outer, std::int64_t inner, const A* from, A* to) {
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
void scatter(const Axis& axis, std::int64_t outer, std::int64_t inner, const A* from, A* to) {
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
  const Axes axes = axes_of(d);
  for_type("resample", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Acc<T>;
    const std::int64_t in = d.height * d.width * d.channels, out = d.out_height * d.out_width * d.channels;
    for (std::int64_t b = 0; b < d.batch; ++b) {
      A* rows = scratch<A>(Slot::c, d.height * d.out_width * d.channels);
      A* image = scratch<A>(Slot::e, out);
      gather(axes.width, d.height, d.channels, widen(Slot::d, x.data<T>() + b * in, in), rows);
      gather(axes.height, 1, d.out_width * d.channels, rows, image);
      for (std::int64_t i = 0; i < out; ++i) y.data<T>()[b * out + i] = T(image[i]);
    }
  });
}

void CpuBackend::resample_backward(ResampleDims d, Tensor dy, Gradient dx) {
  if (!dx) return;
  const Axes axes = axes_of(d);
  for_type("resample", dy.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Acc<T>;
    const std::int64_t in = d.height * d.width * d.channels, out = d.out_height * d.out_width * d.channels;
    for (std::int64_t b = 0; b < d.batch; ++b) {
      A* rows = scratch<A>(Slot::c, d.height * d.out_width * d.channels);
      A* image = scratch<A>(Slot::e, in);
      scatter(axes.height, 1, d.out_width * d.channels, widen(Slot::d, dy.data<T>() + b * out, out), rows);
      scatter(axes.width, d.height, d.channels, rows, image);
      T* to = dx.to.data<T>() + b * in;
      for (std::int64_t i = 0; i < in; ++i) put(to[i], image[i], adds(dx));
    }
  });
}

}  // namespace normlab
