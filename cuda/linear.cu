// Dense layers: one product each way. What is added to it (bias, residual) is put in its place before, so that it is
// rounded with the sum; GELU is a pass behind it.
#include "cuda/column_sums.cuh"
#include "cuda/cuda_backend.h"
#include "cuda/gelu.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

Product forward_product(LinearDims d, bool add) {
  return {.m = d.rows, .n = d.out, .k = d.in, .transpose_b = true, .add = add};
}
Product input_product(LinearDims d, bool add) { return {.m = d.rows, .n = d.in, .k = d.out, .add = add}; }
Product weight_product(LinearDims d, bool add) {
  return {.m = d.out, .n = d.in, .k = d.rows, .transpose_a = true, .add = add};
}

template <class T>
struct Round {
  const Param<T>* from;
  T* to;
  __device__ void operator()(std::int64_t i) const { to[i] = T(from[i]); }
};

/// y = b in each row, on top of residual where there is one.
template <class T>
struct Begin {
  std::int64_t cols;
  const Param<T>* b;
  const T* residual;
  T* y;
  __device__ void operator()(std::int64_t i) const {
    const Acc<T> bias = b ? b[i % cols] : Param<T>(0);
    y[i] = T(residual ? Acc<T>(residual[i]) + bias : bias);
  }
};

/// y and slope from h = y + b, rounded as linear() rounds it.
template <class T>
struct BiasGelu {
  std::int64_t cols;
  GeluForm form;
  const Param<T>* b;
  T *slope, *y;
  __device__ void operator()(std::int64_t i) const {
    const T h = b ? T(Acc<T>(y[i]) + b[i % cols]) : y[i];
    const ValueAndSlope<Acc<T>> g = gelu_of(form, Acc<T>(h));
    y[i] = T(g.value);
    if (slope) slope[i] = T(g.slope);
  }
};

template <class T>
struct TimesSlope {
  const T *dy, *slope;
  T* dh;
  __device__ void operator()(std::int64_t i) const { dh[i] = T(Acc<T>(dy[i]) * Acc<T>(slope[i])); }
};

template <class T>
struct BiasTerms {
  std::int64_t cols;
  const T* dy;
  __device__ void operator()(std::int64_t r, std::int64_t c, Acc<T> (&terms)[1]) const {
    terms[0] = Acc<T>(dy[r * cols + c]);
  }
};

}  // namespace

template <class T>
const T* CudaBackend::weight(Tensor w) {
  if (w.dtype() == Storage<T>::dtype) return w.data<T>();
  T* to = rounded_.get<T>(w.size());
  each_element("round_weight", w.size(), stream_, Round<T>{w.data<Param<T>>(), to});
  return to;
}

template <class T>
void CudaBackend::linear_gradients(LinearDims d, const T* dy, Tensor x, Tensor w, Gradient dx, Gradient dw,
                                   Gradient db) {
  if (dx) products_("linear_backward", input_product(d, adds(dx)), dy, weight<T>(w), dx.to.data<T>());
  if (dw) products_("linear_backward", weight_product(d, adds(dw)), dy, x.data<T>(), dw.to.data<Param<T>>());
  column_sums<1, Acc<T>, Param<T>>("linear_backward", d.rows, d.out, BiasTerms<T>{d.out, dy}, {db}, partial_, stream_);
}

void CudaBackend::linear(LinearDims d, Tensor x, Tensor w, Tensor b, Tensor y) {
  for_type("linear", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    if (b) each_element("linear", y.size(), stream_, Begin<T>{d.out, b.data<Param<T>>(), nullptr, y.data<T>()});
    products_("linear", forward_product(d, bool(b)), x.data<T>(), weight<T>(w), y.data<T>());
  });
}

void CudaBackend::linear_add(LinearDims d, Tensor x, Tensor w, Tensor b, Tensor residual, Tensor y) {
  for_type("linear_add", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_element("linear_add", y.size(), stream_, Begin<T>{d.out, b.data<Param<T>>(), residual.data<T>(), y.data<T>()});
    products_("linear_add", forward_product(d, true), x.data<T>(), weight<T>(w), y.data<T>());
  });
}

void CudaBackend::linear_backward(LinearDims d, Tensor dy, Tensor x, Tensor w, Gradient dx, Gradient dw, Gradient db) {
  for_type("linear", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    linear_gradients<T>(d, dy.data<T>(), x, w, dx, dw, db);
  });
}

void CudaBackend::linear_gelu(LinearDims d, GeluForm form, Tensor x, Tensor w, Tensor b, Tensor slope, Tensor y) {
  for_type("linear_gelu", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    products_("linear_gelu", forward_product(d, false), x.data<T>(), weight<T>(w), y.data<T>());
    each_element("linear_gelu", y.size(), stream_,
                 BiasGelu<T>{d.out, form, b.data<Param<T>>(), slope.data<T>(), y.data<T>()});
  });
}

void CudaBackend::linear_gelu_backward(LinearDims d, Tensor dy, Tensor x, Tensor w, Tensor slope, Gradient dx,
                                       Gradient dw, Gradient db) {
  for_type("linear_gelu", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T* dh = wide_.get<T>(d.rows * d.out);
    each_element("linear_gelu_backward", d.rows * d.out, stream_, TimesSlope<T>{dy.data<T>(), slope.data<T>(), dh});
    linear_gradients<T>(d, dh, x, w, dx, dw, db);
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
