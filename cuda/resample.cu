// Resamples images and position tables: first the width of every row, then the height of the whole image. In both
// directions one thread sums each value of the result, in the order of the other side.
#include "core/resample_row.h"
#include "cuda/cuda_backend.h"
#include "cuda/kernel.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// Like the tables of core/resample.h.
struct Axis {
  Resampling method;
  std::int64_t in, out, taps;
  std::int64_t* first;  // [out], non-decreasing
  double* weights;      // [out, taps]
};

struct FillRow {
  Axis axis;
  __device__ void operator()(std::int64_t o) const {
    axis.first[o] = resample_row(axis.method, axis.in, axis.out, axis.taps, o, axis.weights + o * axis.taps);
  }
};

/// to [outer, out, inner] = weights times from [outer, in, inner], along the middle axis.
template <class A, class From, class To>
struct Forward {
  Axis axis;
  std::int64_t inner;
  const From* from;
  To* to;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t c = i % inner, o = i / inner % axis.out, outer = i / (inner * axis.out);
    const From* points = from + (outer * axis.in + axis.first[o]) * inner + c;
    A total = 0;
    for (std::int64_t t = 0; t < axis.taps; ++t) total += A(axis.weights[o * axis.taps + t]) * A(points[t * inner]);
    to[i] = To(total);
  }
};

/// Its transpose: to [outer, in, inner] from the gradient [outer, out, inner].
template <class A, class From, class To>
struct Backward {
  Axis axis;
  std::int64_t inner;
  const From* from;
  To* to;
  bool add;
  /// The first output that has a weight for point j.
  __device__ std::int64_t first_place(std::int64_t j) const {
    std::int64_t low = 0, high = axis.out;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (axis.first[middle] + axis.taps > j)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t c = i % inner, j = i / inner % axis.in, outer = i / (inner * axis.in);
    const From* places = from + outer * axis.out * inner + c;
    A total = 0;
    for (std::int64_t o = first_place(j); o < axis.out && axis.first[o] <= j; ++o)
      total += A(axis.weights[o * axis.taps + j - axis.first[o]]) * A(places[o * inner]);
    put(to[i], total, add);
  }
};

struct Axes {
  Axis height, width;
};
Axes axes_of(const ResampleDims& d, Buffer& buffer, const Stream& stream) {
  Axis height{d.method, d.height, d.out_height, resample_taps(d.method, d.height, d.out_height), nullptr, nullptr};
  Axis width{d.method, d.width, d.out_width, resample_taps(d.method, d.width, d.out_width), nullptr, nullptr};
  static_assert(sizeof(double) == sizeof(std::int64_t));
  height.weights = buffer.get<double>(height.out * (height.taps + 1) + width.out * (width.taps + 1));
  width.weights = height.weights + height.out * height.taps;
  height.first = reinterpret_cast<std::int64_t*>(width.weights + width.out * width.taps);
  width.first = height.first + height.out;
  each_element("resample", height.out, stream, FillRow{height});
  each_element("resample", width.out, stream, FillRow{width});
  return {height, width};
}

}  // namespace

void CudaBackend::resample(ResampleDims d, Tensor x, Tensor y) {
  const Axes axes = axes_of(d, partial_, stream_);
  for_type("resample", x.dtype(), [&]<class T>(Type<T>) {
    using A = Acc<T>;
    const std::int64_t size = d.batch * d.height * d.out_width * d.channels;
    A* rows = wide_.get<A>(size + 1);
    each_element("resample", size, stream_, Forward<A, T, A>{axes.width, d.channels, x.data<T>(), rows});
    each_element("resample", y.size(), stream_,
                 Forward<A, A, T>{axes.height, d.out_width * d.channels, rows, y.data<T>()});
  });
}

void CudaBackend::resample_backward(ResampleDims d, Tensor dy, Gradient dx) {
  if (!dx) return;
  const Axes axes = axes_of(d, partial_, stream_);
  for_type("resample", dy.dtype(), [&]<class T>(Type<T>) {
    using A = Acc<T>;
    const std::int64_t size = d.batch * d.height * d.out_width * d.channels;
    A* rows = wide_.get<A>(size + 1);
    each_element("resample_backward", size, stream_,
                 Backward<A, T, A>{axes.height, d.out_width * d.channels, dy.data<T>(), rows, false});
    each_element("resample_backward", dx.to.size(), stream_,
                 Backward<A, A, T>{axes.width, d.channels, rows, dx.to.data<T>(), adds(dx)});
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
