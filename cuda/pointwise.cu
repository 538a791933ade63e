// GELU, tanh, sums, gains and softmax.
#include "cuda/column_sums.cuh"
#include "cuda/cuda_backend.h"
#include "cuda/gelu.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

template <class T>
struct GeluForward {
  GeluForm form;
  const T* x;
  T* y;
  __device__ void operator()(std::int64_t i) const { y[i] = T(gelu_of(form, Acc<T>(x[i])).value); }
};
template <class T>
struct GeluGradient {
  GeluForm form;
  const T *dy, *x;
  T* dx;
  bool add;
  __device__ void operator()(std::int64_t i) const {
    put(dx[i], Acc<T>(dy[i]) * gelu_of(form, Acc<T>(x[i])).slope, add);
  }
};

template <class T>
struct TanhForward {
  const T* x;
  T* y;
  __device__ void operator()(std::int64_t i) const { y[i] = T(std::tanh(Acc<T>(x[i]))); }
};
template <class T>
struct TanhGradient {
  const T *dy, *y;
  T* dx;
  bool add;
  __device__ void operator()(std::int64_t i) const {
    const Acc<T> t = Acc<T>(y[i]);
    put(dx[i], Acc<T>(dy[i]) * (1 - t * t), add);
  }
};

template <class T>
struct Sum {
  const T *a, *b;
  T* y;
  __device__ void operator()(std::int64_t i) const { y[i] = T(Acc<T>(a[i]) + Acc<T>(b[i])); }
};
template <class T>
struct CopyGradient {
  const T* dy;
  T* dx;
  bool add;
  __device__ void operator()(std::int64_t i) const { put(dx[i], Acc<T>(dy[i]), add); }
};

/// to (+)= x * gain[c / group]: scale, and dx from dy.
template <class T>
struct Fill {
  T* to;
  T value;
  __device__ void operator()(std::int64_t i) const { to[i] = value; }
};
template <class T>
struct Scale {
  std::int64_t cols, group;
  const T* x;
  const Param<T>* gain;
  T* to;
  bool add;
  __device__ void operator()(std::int64_t i) const { put(to[i], Acc<T>(x[i]) * Acc<T>(gain[i % cols / group]), add); }
};
template <class T>
struct GainTerms {
  std::int64_t cols;
  const T *dy, *x;
  __device__ void operator()(std::int64_t r, std::int64_t c, Acc<T> (&terms)[1]) const {
    terms[0] = Acc<T>(dy[r * cols + c]) * Acc<T>(x[r * cols + c]);
  }
};

template <class T>
__global__ void softmax_rows(std::int64_t rows, std::int64_t cols, const T* x, T* y) {
  using A = Acc<T>;
  const std::int64_t r = row_of_warp();
  if (r >= rows) return;  // a whole warp
  x += r * cols;
  y += r * cols;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  A top = A(x[0]);
  for (std::int64_t c = lane; c < cols; c += kWarp) top = A(x[c]) > top ? A(x[c]) : top;
  top = warp_max(top);
  const A inverse = 1 / warp_sum_of<A>(cols, [&](std::int64_t c) { return std::exp(A(x[c]) - top); });
  for (std::int64_t c = lane; c < cols; c += kWarp) y[c] = T(std::exp(A(x[c]) - top) * inverse);
}

template <class T>
__global__ void softmax_gradient(std::int64_t rows, std::int64_t cols, const T* dy, const T* y, T* dx, bool add) {
  using A = Acc<T>;
  const std::int64_t r = row_of_warp();
  if (r >= rows) return;
  const T *g = dy + r * cols, *p = y + r * cols;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  // The same for every shift of dy. Shifted by that of the largest weight, the sum has no term to cancel where this
  // weight is nearly 1 and its gradient is what the small ones leave.
  A top = -1;
  for (std::int64_t c = lane; c < cols; c += kWarp) top = A(p[c]) > top ? A(p[c]) : top;
  const A largest = warp_max(top);
  std::int64_t at = cols;  // the first of the largest
  for (std::int64_t c = lane; c < cols && at == cols; c += kWarp)
    if (A(p[c]) == largest) at = c;
  at = -warp_max(-at);
  const A shift = A(g[at < cols ? at : 0]);  // NaN is equal to nothing
  const A inner = warp_sum_of<A>(cols, [&](std::int64_t c) { return (A(g[c]) - shift) * A(p[c]); });
  for (std::int64_t c = lane; c < cols; c += kWarp) put(dx[r * cols + c], A(p[c]) * ((A(g[c]) - shift) - inner), add);
}

}  // namespace

void CudaBackend::gelu(GeluForm form, Tensor x, Tensor y) {
  for_type("gelu", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_element("gelu", x.size(), stream_, GeluForward<T>{form, x.data<T>(), y.data<T>()});
  });
}

void CudaBackend::gelu_backward(GeluForm form, Tensor dy, Tensor x, Gradient dx) {
  if (!dx) return;
  for_type("gelu", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_element("gelu_backward", x.size(), stream_,
                 GeluGradient<T>{form, dy.data<T>(), x.data<T>(), dx.to.data<T>(), adds(dx)});
  });
}

void CudaBackend::tanh(Tensor x, Tensor y) {
  for_type("tanh", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_element("tanh", x.size(), stream_, TanhForward<T>{x.data<T>(), y.data<T>()});
  });
}

void CudaBackend::tanh_backward(Tensor dy, Tensor y, Gradient dx) {
  if (!dx) return;
  for_type("tanh", y.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_element("tanh_backward", y.size(), stream_,
                 TanhGradient<T>{dy.data<T>(), y.data<T>(), dx.to.data<T>(), adds(dx)});
  });
}

void CudaBackend::add(Tensor a, Tensor b, Tensor y) {
  for_type("add", a.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_element("add", y.size(), stream_, Sum<T>{a.data<T>(), b.data<T>(), y.data<T>()});
  });
}

void CudaBackend::fill(Tensor x, double value) {
  for_number_type("fill", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_element("fill", x.size(), stream_, Fill<T>{x.data<T>(), T(value)});
  });
}

void CudaBackend::copy_gradient(Tensor dy, Gradient dx) {
  if (!dx) return;
  for_type("add", dy.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_element("copy_gradient", dy.size(), stream_, CopyGradient<T>{dy.data<T>(), dx.to.data<T>(), adds(dx)});
  });
}

void CudaBackend::scale(std::int64_t group, Tensor x, Tensor gain, Tensor y) {
  for_type("scale", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_element("scale", x.size(), stream_,
                 Scale<T>{x.shape().back(), group, x.data<T>(), gain.data<Param<T>>(), y.data<T>(), false});
  });
}

void CudaBackend::scale_backward(std::int64_t group, Tensor dy, Tensor x, Tensor gain, Gradient dx, Gradient dgain) {
  for_type("scale", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t rows = x.shape().rows(), cols = x.shape().back();
    if (dx)
      each_element("scale_backward", x.size(), stream_,
                   Scale<T>{cols, group, dy.data<T>(), gain.data<Param<T>>(), dx.to.data<T>(), adds(dx)});
    column_sums<1, Acc<T>, Param<T>>("scale_backward", rows, cols, GainTerms<T>{cols, dy.data<T>(), x.data<T>()},
                                     {dgain}, partial_, stream_, {group});
  });
}

void CudaBackend::softmax(Tensor x, Tensor y) {
  for_type("softmax", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t rows = x.shape().rows();
    launch("softmax", softmax_rows<T>, warp_a_row(rows), stream_, rows, x.shape().back(), x.data<T>(), y.data<T>());
  });
}

void CudaBackend::softmax_backward(Tensor dy, Tensor y, Gradient dx) {
  if (!dx) return;
  for_type("softmax", y.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t rows = y.shape().rows();
    launch("softmax_backward", softmax_gradient<T>, warp_a_row(rows), stream_, rows, y.shape().back(), dy.data<T>(),
           y.data<T>(), dx.to.data<T>(), adds(dx));
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
