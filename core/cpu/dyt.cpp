// Dynamic Tanh, "Transformers without Normalization" section 4: y = gamma tanh(alpha x) + beta.
#include "core/cpu/kernel.h"
#include "core/cpu/vector_math.h"

namespace normlab {
using namespace cpu;

void CpuBackend::dyt(Tensor x, Tensor alpha, Tensor gamma, Tensor beta, Tensor t, Tensor y) {
  for_type("dyt", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Acc<T>;
    const std::int64_t rows = x.shape().rows(), cols = x.shape().back();
    const A a = alpha.data<Param<T>>()[0];
    const Param<T>*g = gamma.data<Param<T>>(), *b = beta.data<Param<T>>();
    A* row = scratch<A>(Slot::a, cols);
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* xr = x.data<T>() + r * cols;
      T *tr = t.data<T>() + r * cols, *yr = y.data<T>() + r * cols;
      for (std::int64_t c = 0; c < cols; ++c) row[c] = a * A(xr[c]);
      vector_tanh(cols, row, row);
      for (std::int64_t c = 0; c < cols; ++c) {
        tr[c] = T(row[c]);
        yr[c] = T(g[c] * row[c] + b[c]);
      }
    }
  });
}

void CpuBackend::dyt_backward(Tensor dy, Tensor x, Tensor alpha, Tensor gamma, Tensor t, Gradient dx, Gradient dalpha,
                              Gradient dgamma, Gradient dbeta) {
  for_type("dyt", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Acc<T>;
    const std::int64_t rows = x.shape().rows(), cols = x.shape().back();
    const A a = alpha.data<Param<T>>()[0];
    const Param<T>* g = gamma.data<Param<T>>();
    const T *up = dy.data<T>(), *in = x.data<T>(), *th = t.data<T>();
    // du = dy gamma (1 - t^2) is the gradient of u = alpha x.
    const auto du = [&](std::int64_t i, std::int64_t c) { return A(up[i]) * g[c] * (1 - A(th[i]) * A(th[i])); };
    if (dx)
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < cols; ++c) put(dx.to.data<T>()[r * cols + c], a * du(r * cols + c, c), adds(dx));
    if (dalpha) {
      A total = 0;
      for (std::int64_t r = 0; r < rows; ++r)
        total += sum<A>(cols, [&](auto c) { return du(r * cols + c, c) * A(in[r * cols + c]); });
      put(dalpha.to.data<Param<T>>()[0], total, adds(dalpha));
    }
    sum_columns<Param<T>>(rows, cols, Slot::c, dgamma,
                          [&](auto r, auto c) { return A(up[r * cols + c]) * A(th[r * cols + c]); });
    sum_columns<Param<T>>(rows, cols, Slot::c, dbeta, [&](auto r, auto c) { return A(up[r * cols + c]); });
  });
}

}  // namespace normlab
