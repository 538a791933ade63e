// Dense layers. A product adds the bias and the residual itself, and in bf16 makes GELU's tanh form and a bias
// gradient, where cuBLASLt has an algorithm for that. Otherwise what is added (bias, residual) is put in its place
// before, so that it is rounded with the sum, and GELU is a pass behind.
#include "cuda/cuda_backend.h"
#include "cuda/gelu.cuh"
#include "cuda/vector_sums.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

template <class T>
LtProduct forward_product(LinearDims d, bool add = false, Epilogue epilogue = Epilogue::none) {
  constexpr DType kType = Storage<T>::dtype;
  return {.m = d.rows,
          .n = d.out,
          .k = d.in,
          .in = kType,
          .out = kType,
          .vector = kType,
          .transpose_b = true,
          .add = add,
          .epilogue = epilogue};
}
template <class T>
LtProduct input_product(LinearDims d, bool add) {
  constexpr DType kType = Storage<T>::dtype;
  return {.m = d.rows, .n = d.in, .k = d.out, .in = kType, .out = kType, .vector = kType, .add = add};
}
template <class T>
LtProduct weight_product(LinearDims d, bool add, Epilogue epilogue = Epilogue::none) {
  constexpr DType kParam = Storage<Param<T>>::dtype;
  return {.m = d.out,
          .n = d.in,
          .k = d.rows,
          .in = Storage<T>::dtype,
          .out = kParam,
          .vector = kParam,
          .transpose_a = true,
          .add = add,
          .epilogue = epilogue};
}

template <class T>
struct Round {
  const Param<T>* from;
  T* to;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    run.each(
        [&](std::int64_t at, const Param<T>(&values)[V]) {
          Acc<T> out[V];
          for (int k = 0; k < V; ++k) out[k] = values[k];
          put_all(to + at, out);
        },
        from);
  }
};

/// What the columns of a run have of a bias; zeros without one.
template <int V, class P>
__device__ void load_bias(const P* b, std::int64_t column, P (&to)[V]) {
  if (b)
    load(b + column, to);
  else
    for (P& value : to) value = 0;
}

/// y = b in each row.
template <class T>
struct Begin {
  const Param<T>* b;
  T* y;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    Param<T> bias[V];
    load_bias(b, run.column, bias);
    run.each([&](std::int64_t at) {
      Acc<T> sum[V];
      for (int k = 0; k < V; ++k) sum[k] = bias[k];
      put_all(y + at, sum);
    });
  }
};
/// The same on top of the residual.
template <class T>
struct BeginOnResidual {
  const Param<T>* b;
  const T* residual;
  T* y;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    Param<T> bias[V];
    load_bias(b, run.column, bias);
    run.each(
        [&](std::int64_t at, const T(&under)[V]) {
          Acc<T> sum[V];
          for (int k = 0; k < V; ++k) sum[k] = Acc<T>(under[k]) + bias[k];
          put_all(y + at, sum);
        },
        residual);
  }
};

/// y and what is kept from h = y + b, rounded as linear() rounds it.
template <class T>
struct BiasGelu {
  GeluForm form;
  const Param<T>* b;
  T *kept, *y;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    Param<T> bias[V];
    load_bias(b, run.column, bias);
    run.each(
        [&](std::int64_t at, const T(&product)[V]) {
          Acc<T> value[V], keep[V];
          for (int k = 0; k < V; ++k) {
            const T h = T(Acc<T>(product[k]) + bias[k]);
            const ValueAndSlope<Acc<T>> g = gelu_of(form, Acc<T>(h));
            value[k] = g.value;
            keep[k] = form == GeluForm::tanh ? Acc<T>(h) : g.slope;
          }
          put_all(y + at, value);
          if (kept) put_all(kept + at, keep);
        },
        static_cast<const T*>(y));
  }
};

/// dh = dy gelu'(h), written on the way to the sums of its columns.
template <class T>
struct GeluGradient {
  GeluForm form;
  const T *dy, *kept;
  T* dh;
  template <int V>
  __device__ void operator()(SumRun<1, V, Acc<T>>& run) const {
    run.each(
        [&](std::int64_t at, const T(&up)[V], const T(&k)[V], Acc<T>(&terms)[1][V]) {
          Acc<T> out[V];
          for (int i = 0; i < V; ++i) {
            const Acc<T> slope = form == GeluForm::tanh ? gelu_of(form, Acc<T>(k[i])).slope : Acc<T>(k[i]);
            out[i] = Acc<T>(up[i]) * slope;
            terms[0][i] = Acc<T>(T(out[i]));
          }
          put_all(dh + at, out);
        },
        dy, kept);
  }
};

template <class T>
struct BiasGradient {
  const T* dy;
  template <int V>
  __device__ void operator()(SumRun<1, V, Acc<T>>& run) const {
    run.each(
        [&](std::int64_t, const T(&up)[V], Acc<T>(&terms)[1][V]) {
          for (int i = 0; i < V; ++i) terms[0][i] = Acc<T>(up[i]);
        },
        dy);
  }
};

}  // namespace

template <class T>
const T* CudaBackend::weight(Tensor w) {
  if (w.dtype() == Storage<T>::dtype) return w.data<T>();
  T* to = rounded_.get<T>(w.size());
  each_vector<T>("round_weight", w.size(), aligned({w.raw(), to}), stream_, Round<T>{w.data<Param<T>>(), to});
  return to;
}

template <class T>
bool CudaBackend::with_bias(const char* op, LtProduct p, LtOperands with, Tensor b) {
  // A bias must have the type of what it is added to, and ours is float beside bf16.
  if (Storage<Param<T>>::dtype != Storage<T>::dtype) {
    if (!rounds_bias_) return false;
    T* rounded = rounded_bias_.get<T>(b.size());
    each_vector<T>("round_bias", b.size(), aligned({b.raw(), rounded}), stream_, Round<T>{b.data<Param<T>>(), rounded});
    with.vector = rounded;
  } else {
    with.vector = b.raw();
  }
  return lt_products_(op, p, with);
}

void CudaBackend::multiply(const char* op, const LtProduct& p, const void* a, const void* b, void* c) {
  if (lt_products_(op, p, {a, b, c, c})) return;
  products_(op,
            {.m = p.m, .n = p.n, .k = p.k, .transpose_a = p.transpose_a, .transpose_b = p.transpose_b, .add = p.add},
            p.in, a, b, p.out, c);
}

template <class T>
void CudaBackend::input_and_weight_gradients(LinearDims d, const T* dy, Tensor x, Tensor w, Gradient dx, Gradient dw,
                                             Gradient& db) {
  constexpr const char* kOp = "linear_backward";
  if (dx) multiply(kOp, input_product<T>(d, adds(dx)), dy, weight<T>(w), dx.to.raw());
  if (!dw) return;
  const LtProduct plain = weight_product<T>(d, adds(dw)), sums = weight_product<T>(d, adds(dw), Epilogue::bgrad);
  // In bf16 alone: elsewhere the sums are in double. And only where the product then fills as much of the GPU: one with
  // few tiles is cut along k, which cuBLASLt may not do with such an epilogue, and that costs more than a pass.
  const bool beside = Storage<T>::dtype == DType::bf16 && db && !adds(db);
  if (beside && lt_products_.waves(sums) > 0 &&
      lt_products_.waves(sums) >= (lt_products_.waves(plain) < 1 ? lt_products_.waves(plain) : 1) &&
      lt_products_(kOp, sums, {dy, x.raw(), dw.to.raw(), dw.to.raw(), db.to.raw()}))
    db = {};
  else
    multiply(kOp, plain, dy, x.raw(), dw.to.raw());
}

void CudaBackend::linear(LinearDims d, Tensor x, Tensor w, Tensor b, Tensor y) {
  for_type("linear", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T* weights = weight<T>(w);
    if (b &&
        with_bias<T>("linear", forward_product<T>(d, false, Epilogue::bias), {x.raw(), weights, y.raw(), y.raw()}, b))
      return;
    if (b)
      each_vector<T>("linear", Parts(d.rows, d.out), aligned({b.raw(), y.raw()}), stream_,
                     Begin<T>{b.data<Param<T>>(), y.data<T>()});
    multiply("linear", forward_product<T>(d, bool(b)), x.raw(), weights, y.raw());
  });
}

void CudaBackend::linear_add(LinearDims d, Tensor x, Tensor w, Tensor b, Tensor residual, Tensor y) {
  for_type("linear_add", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T* weights = weight<T>(w);
    const LtOperands onto_residual{x.raw(), weights, residual.raw(), y.raw()};
    if (b ? with_bias<T>("linear_add", forward_product<T>(d, true, Epilogue::bias), onto_residual, b)
          : lt_products_("linear_add", forward_product<T>(d, true), onto_residual))
      return;
    each_vector<T>("linear_add", Parts(d.rows, d.out), aligned({b.raw(), residual.raw(), y.raw()}), stream_,
                   BeginOnResidual<T>{b.data<Param<T>>(), residual.data<T>(), y.data<T>()});
    multiply("linear_add", forward_product<T>(d, true), x.raw(), weights, y.raw());
  });
}

void CudaBackend::linear_backward(LinearDims d, Tensor dy, Tensor x, Tensor w, Gradient dx, Gradient dw, Gradient db) {
  for_type("linear", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    input_and_weight_gradients<T>(d, dy.data<T>(), x, w, dx, dw, db);
    if (db)
      vector_sums<1, T>("linear_backward", d.rows, d.out, aligned({dy.raw()}), BiasGradient<T>{dy.data<T>()}, {db},
                        partial_, stream_);
  });
}

void CudaBackend::linear_gelu(LinearDims d, GeluForm form, Tensor x, Tensor w, Tensor b, Tensor kept, Tensor y) {
  constexpr const char* kOp = "linear_gelu";
  for_type(kOp, x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T* weights = weight<T>(w);
    // In bf16 alone: how exact cuBLASLt's tanh is, nobody says.
    if (Storage<T>::dtype == DType::bf16 && form == GeluForm::tanh && b && kept &&
        with_bias<T>(kOp, forward_product<T>(d, false, Epilogue::bias_gelu_tanh_aux),
                     {x.raw(), weights, y.raw(), y.raw(), nullptr, kept.raw()}, b))
      return;
    multiply(kOp, forward_product<T>(d), x.raw(), weights, y.raw());
    each_vector<T>(kOp, Parts(d.rows, d.out), aligned({b.raw(), kept.raw(), y.raw()}), stream_,
                   BiasGelu<T>{form, b.data<Param<T>>(), kept.data<T>(), y.data<T>()});
  });
}

void CudaBackend::linear_gelu_backward(LinearDims d, GeluForm form, Tensor dy, Tensor x, Tensor w, Tensor kept,
                                       Gradient dx, Gradient dw, Gradient db) {
  for_type("linear_gelu", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T* dh = wide_.get<T>(d.rows * d.out);
    vector_sums<1, T>("linear_gelu_backward", d.rows, d.out, aligned({dy.raw(), kept.raw(), dh}),
                      GeluGradient<T>{form, dy.data<T>(), kept.data<T>(), dh}, {db}, partial_, stream_);
    Gradient summed;
    input_and_weight_gradients<T>(d, dh, x, w, dx, dw, summed);
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
