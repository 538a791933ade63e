// GELU, tanh, sums, gains and softmax.
#include "cuda/cuda_backend.h"
#include "cuda/gelu.cuh"
#include "cuda/vector_sums.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// y (+)= of(x), a formula in Acc<T>, or of(a, b).
template <class T, class Of>
struct Map {
  Of of;
  const T* x;
  T* y;
  bool add;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    run.each(
        [&](std::int64_t at, const T(&in)[V]) {
          Acc<T> out[V];
          for (int k = 0; k < V; ++k) out[k] = of(Acc<T>(in[k]));
          put_all(y + at, out, add);
        },
        x);
  }
};
template <class T, class Of>
struct MapOfTwo {
  Of of;
  const T *a, *b;
  T* y;
  bool add;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    run.each(
        [&](std::int64_t at, const T(&left)[V], const T(&right)[V]) {
          Acc<T> out[V];
          for (int k = 0; k < V; ++k) out[k] = of(Acc<T>(left[k]), Acc<T>(right[k]));
          put_all(y + at, out, add);
        },
        a, b);
  }
};
struct Gelu {
  GeluForm form;
  template <class A>
  __device__ A operator()(A x) const {
    return gelu_of(form, x).value;
  }
};
struct GeluGradient {
  GeluForm form;
  template <class A>
  __device__ A operator()(A dy, A x) const {
    return dy * gelu_of(form, x).slope;
  }
};
struct Tanh {
  template <class A>
  __device__ A operator()(A x) const {
    return std::tanh(x);
  }
};
struct TanhGradient {
  template <class A>
  __device__ A operator()(A dy, A y) const {
    return dy * (1 - y * y);
  }
};
struct Sum {
  template <class A>
  __device__ A operator()(A a, A b) const {
    return a + b;
  }
};
struct Same {
  template <class A>
  __device__ A operator()(A x) const {
    return x;
  }
};

template <class T>
struct Fill {
  T* to;
  T value;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    T values[V];
    for (T& each : values) each = value;
    run.each([&](std::int64_t at) { store(to + at, values); });
  }
};

/// gain[c / group] for the columns of a run.
template <int V, class P>
__device__ void load_gains(const P* gain, std::int64_t group, std::int64_t column, P (&to)[V]) {
  if (group == 1) {
    load(gain + column, to);
  } else if (group % V == 0) {
    const P all = gain[quotient(column, group)];
    for (P& each : to) each = all;
  } else {
    for (int k = 0; k < V; ++k) to[k] = gain[quotient(column + k, group)];
  }
}
template <class T>
struct Scale {
  std::int64_t group;
  const T* x;
  const Param<T>* gain;
  T* y;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    Param<T> g[V];
    load_gains(gain, group, run.column, g);
    run.each(
        [&](std::int64_t at, const T(&in)[V]) {
          Acc<T> out[V];
          for (int k = 0; k < V; ++k) out[k] = Acc<T>(in[k]) * g[k];
          put_all(y + at, out);
        },
        x);
  }
};
/// dx = dy gain, and on the way the sums of dy x.
template <class T>
struct ScaleGradient {
  std::int64_t group;
  const T *dy, *x;
  const Param<T>* gain;
  T* dx;
  bool add;
  template <int V>
  __device__ void operator()(SumRun<1, V, Acc<T>>& run) const {
    Param<T> g[V];
    load_gains(gain, group, run.column, g);
    run.each(
        [&](std::int64_t at, const T(&dys)[V], const T(&in)[V], Acc<T>(&terms)[1][V]) {
          Acc<T> out[V];
          for (int k = 0; k < V; ++k) {
            const Acc<T> up = Acc<T>(dys[k]);
            terms[0][k] = up * Acc<T>(in[k]);
            out[k] = up * g[k];
          }
          if (dx) put_all(dx + at, out, add);
        },
        dy, x);
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
  // A shift of dy does not change the result. Shifted by the entry of the largest weight, the sum has no cancelling
  // terms when this weight is nearly 1 and its gradient is what the small weights leave.
  A top = -1;
  for (std::int64_t c = lane; c < cols; c += kWarp) top = A(p[c]) > top ? A(p[c]) : top;
  const A largest = warp_max(top);
  std::int64_t at = cols;  // index of the first largest weight
  for (std::int64_t c = lane; c < cols && at == cols; c += kWarp)
    if (A(p[c]) == largest) at = c;
  at = -warp_max(-at);
  const A shift = A(g[at < cols ? at : 0]);  // NaN equals nothing
  const A inner = warp_sum_of<A>(cols, [&](std::int64_t c) { return (A(g[c]) - shift) * A(p[c]); });
  for (std::int64_t c = lane; c < cols; c += kWarp) put(dx[r * cols + c], A(p[c]) * ((A(g[c]) - shift) - inner), add);
}

template <class Of>
void map(const char* op, Of of, Tensor x, Tensor y, bool add, const Stream& stream) {
  for_type(op, x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_vector<T>(op, y.size(), aligned({x.raw(), y.raw()}), stream, Map<T, Of>{of, x.data<T>(), y.data<T>(), add});
  });
}
template <class Of>
void map_two(const char* op, Of of, Tensor a, Tensor b, Tensor y, bool add, const Stream& stream) {
  for_type(op, a.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_vector<T>(op, y.size(), aligned({a.raw(), b.raw(), y.raw()}), stream,
                   MapOfTwo<T, Of>{of, a.data<T>(), b.data<T>(), y.data<T>(), add});
  });
}

}  // namespace

void CudaBackend::gelu(GeluForm form, Tensor x, Tensor y) { map("gelu", Gelu{form}, x, y, false, stream_); }

void CudaBackend::gelu_backward(GeluForm form, Tensor dy, Tensor x, Gradient dx) {
  if (dx) map_two("gelu_backward", GeluGradient{form}, dy, x, dx.to, adds(dx), stream_);
}

void CudaBackend::tanh(Tensor x, Tensor y) { map("tanh", Tanh{}, x, y, false, stream_); }

void CudaBackend::tanh_backward(Tensor dy, Tensor y, Gradient dx) {
  if (dx) map_two("tanh_backward", TanhGradient{}, dy, y, dx.to, adds(dx), stream_);
}

void CudaBackend::add(Tensor a, Tensor b, Tensor y) { map_two("add", Sum{}, a, b, y, false, stream_); }

void CudaBackend::copy_gradient(Tensor dy, Gradient dx) {
  if (dx) map("copy_gradient", Same{}, dy, dx.to, adds(dx), stream_);
}

void CudaBackend::fill(Tensor x, double value) {
  for_number_type("fill", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_vector<T>("fill", x.size(), aligned({x.raw()}), stream_, Fill<T>{x.data<T>(), T(value)});
  });
}

void CudaBackend::scale(std::int64_t group, Tensor x, Tensor gain, Tensor y) {
  for_type("scale", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_vector<T>("scale", Parts(x.shape().rows(), x.shape().back()), aligned({x.raw(), gain.raw(), y.raw()}), stream_,
                   Scale<T>{group, x.data<T>(), gain.data<Param<T>>(), y.data<T>()});
  });
}

void CudaBackend::scale_backward(std::int64_t group, Tensor dy, Tensor x, Tensor gain, Gradient dx, Gradient dgain) {
  for_type("scale", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    vector_sums<1, T>(
        "scale_backward", x.shape().rows(), x.shape().back(), aligned({dy.raw(), x.raw(), gain.raw(), dx.to.raw()}),
        ScaleGradient<T>{group, dy.data<T>(), x.data<T>(), gain.data<Param<T>>(), dx.to.data<T>(), adds(dx)}, {dgain},
        partial_, stream_, {group});
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
