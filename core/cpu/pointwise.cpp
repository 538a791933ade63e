// GELU (Hendrycks and Gimpel 2016), tanh, sums, gains and softmax.
#include <algorithm>

#include "core/cpu/gelu.h"
#include "core/cpu/kernel.h"
#include "core/cpu/vector_math.h"

namespace normlab {
using namespace cpu;

void CpuBackend::gelu(GeluForm form, Tensor x, Tensor y) {
  for_type("gelu", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    gelu_forward<T>(form, x.size(), x.data<T>(), y.data<T>());
  });
}

void CpuBackend::gelu_backward(GeluForm form, Tensor dy, Tensor x, Gradient dx) {
  if (!dx) return;
  for_type("gelu", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    gelu_gradient<T>(form, x.size(), dy.data<T>(), x.data<T>(), dx.to.data<T>(), adds(dx));
  });
}

void CpuBackend::tanh(Tensor x, Tensor y) {
  for_type("tanh", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t n = x.size();
    T* out = y.data<T>();
    if constexpr (std::is_same_v<T, Acc<T>>) {
      vector_tanh(n, x.data<T>(), out);
    } else {
      const Acc<T>* wide = widen<T>(Slot::a, x.data<T>(), n);
      Acc<T>* t = scratch<Acc<T>>(Slot::b, n);
      vector_tanh(n, wide, t);
      for (std::int64_t i = 0; i < n; ++i) out[i] = T(t[i]);
    }
  });
}

void CpuBackend::tanh_backward(Tensor dy, Tensor y, Gradient dx) {
  if (!dx) return;
  for_type("tanh", y.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Acc<T>;
    const T *g = dy.data<T>(), *t = y.data<T>();
    T* out = dx.to.data<T>();
    for (std::int64_t i = 0; i < y.size(); ++i) put(out[i], A(g[i]) * (1 - A(t[i]) * A(t[i])), adds(dx));
  });
}

void CpuBackend::add(Tensor a, Tensor b, Tensor y) {
  for_type("add", a.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T *pa = a.data<T>(), *pb = b.data<T>();
    T* out = y.data<T>();
    for (std::int64_t i = 0, n = y.size(); i < n; ++i) out[i] = T(Acc<T>(pa[i]) + Acc<T>(pb[i]));
  });
}

void CpuBackend::copy_gradient(Tensor dy, Gradient dx) {
  if (!dx) return;
  for_type("add", dy.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T* g = dy.data<T>();
    T* out = dx.to.data<T>();
    for (std::int64_t i = 0, n = dy.size(); i < n; ++i) put(out[i], Acc<T>(g[i]), adds(dx));
  });
}

void CpuBackend::fill(Tensor x, double value) {
  for_number_type("fill", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    std::fill_n(x.data<T>(), x.size(), T(value));
  });
}

namespace {

/// gain[c / group] expanded to all columns, so that the loops below need no division.
template <class P>
const P* spread(std::int64_t group, std::int64_t cols, const P* gain) {
  if (group == 1) return gain;
  P* wide = scratch<P>(Slot::c, cols);
  for (std::int64_t c = 0; c < cols; ++c) wide[c] = gain[c / group];
  return wide;
}

template <class T>
void softmax_rows(std::int64_t rows, std::int64_t cols, const T* x, T* y) {
  using A = Acc<T>;
  A* e = scratch<A>(Slot::a, cols);
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* xr = x + r * cols;
    A top = A(xr[0]);
    for (std::int64_t c = 1; c < cols; ++c) top = std::max(top, A(xr[c]));
    for (std::int64_t c = 0; c < cols; ++c) e[c] = A(xr[c]) - top;
    vector_exp(cols, e, e);
    const A inverse = 1 / sum<A>(cols, [&](auto c) { return e[c]; });
    for (std::int64_t c = 0; c < cols; ++c) y[r * cols + c] = T(e[c] * inverse);
  }
}

}  // namespace

void CpuBackend::scale(std::int64_t group, Tensor x, Tensor gain, Tensor y) {
  for_type("scale", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t rows = x.shape().rows(), cols = x.shape().back();
    const Param<T>* g = spread(group, cols, gain.data<Param<T>>());
    const T* in = x.data<T>();
    T* out = y.data<T>();
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) out[r * cols + c] = T(Acc<T>(in[r * cols + c]) * g[c]);
  });
}

void CpuBackend::scale_backward(std::int64_t group, Tensor dy, Tensor x, Tensor gain, Gradient dx, Gradient dgain) {
  for_type("scale", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Acc<T>;
    const std::int64_t rows = x.shape().rows(), cols = x.shape().back();
    const T *in = x.data<T>(), *up = dy.data<T>();
    if (dx) {
      const Param<T>* g = spread(group, cols, gain.data<Param<T>>());
      T* out = dx.to.data<T>();
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < cols; ++c) put(out[r * cols + c], A(up[r * cols + c]) * g[c], adds(dx));
    }
    if (dgain) {
      const double* total = column_sums<A>(rows, cols, Slot::b,
                                           [&](auto r, auto c) { return A(up[r * cols + c]) * A(in[r * cols + c]); });
      Param<T>* out = dgain.to.data<Param<T>>();
      for (std::int64_t g = 0; g < cols / group; ++g)
        put(out[g], Param<T>(sum<double>(group, [&](auto c) { return total[g * group + c]; })), adds(dgain));
    }
  });
}

void CpuBackend::softmax(Tensor x, Tensor y) {
  for_type("softmax", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    softmax_rows<T>(x.shape().rows(), x.shape().back(), x.data<T>(), y.data<T>());
  });
}

void CpuBackend::softmax_backward(Tensor dy, Tensor y, Gradient dx) {
  if (!dx) return;
  for_type("softmax", y.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Acc<T>;
    const std::int64_t cols = y.shape().back();
    for (std::int64_t r = 0; r < y.shape().rows(); ++r) {
      const T *g = dy.data<T>() + r * cols, *p = y.data<T>() + r * cols;
      // A shift of dy does not change the result. Shifted by the entry of the largest weight, the sum has no cancelling
      // terms when this weight is nearly 1 and its gradient is what the small weights leave.
      const A top = A(g[std::max_element(p, p + cols, [](T a, T b) { return A(a) < A(b); }) - p]);
      const A inner = sum<A>(cols, [&](auto c) { return (A(g[c]) - top) * A(p[c]); });
      T* out = dx.to.data<T>() + r * cols;
      for (std::int64_t c = 0; c < cols; ++c) put(out[c], A(p[c]) * ((A(g[c]) - top) - inner), adds(dx));
    }
  });
}

}  // namespace normlab
