// GELU (Hendrycks and Gimpel 2016), tanh and fill.
#include "core/cpu/gelu.h"
#include "core/cpu/kernel.h"
#include "core/cpu/vector_math.h"

namespace normlab {
using namespace cpu;

void CpuBackend::gelu(GeluForm form, Tensor x, Tensor y) {
  for_type("gelu", x.dtype(), [&]<class T>(Type<T>) { gelu_forward<T>(form, x.size(), x.data<T>(), y.data<T>()); });
}

void CpuBackend::gelu_backward(GeluForm form, Tensor dy, Tensor x, Gradient dx) {
  if (!dx) return;
  for_type("gelu", x.dtype(), [&]<class T>(Type<T>) {
    gelu_gradient<T>(form, x.size(), dy.data<T>(), x.data<T>(), dx.to.data<T>(), adds(dx));
  });
}

void CpuBackend::tanh(Tensor x, Tensor y) {
  for_type("tanh", x.dtype(), [&]<class T>(Type<T>) {
    const std::int64_t n = x.size();
    T* out = y.data<T>();
    if constexpr (std::is_same_v<T, Acc<T>>) {
      vector_tanh(n, x.data<T>(), out);
    } else {
      const Scratch<Acc<T>> wide(n);
      widen(x.data<T>(), n, &wide[0]);
      const Scratch<Acc<T>> t(n);
      vector_tanh(n, wide, t);
      for (std::int64_t i = 0; i < n; ++i) out[i] = T(t[i]);
    }
  });
}

void CpuBackend::fill(Tensor x, double value) {
  for_number_type("fill", x.dtype(), [&]<class T>(Type<T>) { std::fill_n(x.data<T>(), x.size(), T(value)); });
}

}  // namespace normlab
