// Dense layers. A product adds the bias and the residual itself, and in bf16 makes GELU's tanh form and a bias
// gradient, where cuBLASLt has an algorithm for that. Otherwise what is added (bias, residual) is put in its place
// before, so that it is rounded with the sum, and GELU is a pass behind.
#include "cuda/bias_sums.cuh"
#include "cuda/cuda_backend.h"
#include "cuda/gelu.cuh"

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
  __device__ void operator()(std::int64_t i) const { to[i] = T(from[i]); }
};

/// y = b in each row, V values at once, on top of residual where there is one.
template <class T, int V>
struct Begin {
  std::int64_t cols;
  const T *b, *residual;
  T* y;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t at = i * V, c = at % cols;
    T under[V] = {}, sum[V];
    if (residual) load(residual + at, under);
    for (int k = 0; k < V; ++k) sum[k] = T(Acc<T>(under[k]) + (b ? Acc<T>(b[c + k]) : Acc<T>(0)));
    store(y + at, sum);
  }
};

/// y and what is kept, V values at once, from h = y + b, rounded as linear() rounds it.
template <class T, int V>
struct BiasGelu {
  std::int64_t cols;
  GeluForm form;
  const T* b;
  T *kept, *y;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t at = i * V, c = at % cols;
    T h[V], value[V], keep[V];
    load(y + at, h);
    for (int k = 0; k < V; ++k) {
      if (b) h[k] = T(Acc<T>(h[k]) + Acc<T>(b[c + k]));
      const ValueAndSlope<Acc<T>> g = gelu_of(form, Acc<T>(h[k]));
      value[k] = T(g.value);
      keep[k] = form == GeluForm::tanh ? h[k] : T(g.slope);
    }
    store(y + at, value);
    if (kept) store(kept + at, keep);
  }
};

/// gelu'(h) from what was kept.
template <class T>
__device__ Acc<T> slope_of(GeluForm form, T kept) {
  return form == GeluForm::tanh ? gelu_of(form, Acc<T>(kept)).slope : Acc<T>(kept);
}

/// dh = dy gelu'(h), written on the way to the sums of its columns.
template <class T>
struct GeluGradient {
  GeluForm form;
  const T *dy, *kept;
  T* dh;
  template <int V>
  __device__ void operator()(std::int64_t at, T (&row)[V]) const {
    T up[V], k[V];
    load(dy + at, up);
    load(kept + at, k);
    for (int i = 0; i < V; ++i) row[i] = T(Acc<T>(up[i]) * slope_of(form, k[i]));
    store(dh + at, row);
  }
};

/// dh (+)= da gelu'(h), V values at once.
template <class T, int V>
struct ThroughGelu {
  std::int64_t cols;
  GeluForm form;
  const T *da, *kept;
  T* dh;
  bool add;
  __device__ void operator()(std::int64_t i) const {
    T up[V], k[V], sum[V];
    load(da + i * V, up);
    load(kept + i * V, k);
    if (add) load(dh + i * V, sum);
    for (int j = 0; j < V; ++j) {
      const Acc<T> g = Acc<T>(up[j]) * slope_of(form, k[j]);
      sum[j] = T(add ? Acc<T>(sum[j]) + g : g);
    }
    store(dh + i * V, sum);
  }
};

template <class T>
struct BiasGradient {
  const T* dy;
  template <int V>
  __device__ void operator()(std::int64_t at, T (&row)[V]) const {
    load(dy + at, row);
  }
};

/// Whether cuBLASLt may do this GELU: in bf16 alone, for how exact its tanh is, nobody says.
constexpr bool by_tanh_of_library(GeluForm form, DType dtype) { return dtype == DType::bf16 && form == GeluForm::tanh; }

/// F<T, V> on all of a matrix with `cols` columns, in vectors where `pointers` allow it.
template <class T, template <class, int> class F, class... Arguments>
void each_vector(const char* op, std::int64_t n, std::int64_t cols, std::initializer_list<const T*> pointers,
                 const Stream& stream, Arguments... arguments) {
  if (in_vectors(cols, pointers))
    each_element(op, n / kVector<T>, stream, F<T, kVector<T>>{cols, arguments...});
  else
    each_element(op, n, stream, F<T, 1>{cols, arguments...});
}

}  // namespace

template <class T>
T* CudaBackend::as_read(Tensor parameter, Buffer& to) {
  if (!parameter || parameter.dtype() == Storage<T>::dtype) return parameter.data<T>();
  T* rounded = to.get<T>(parameter.size());
  each_element("round_parameter", parameter.size(), stream_, Round<T>{parameter.data<Param<T>>(), rounded});
  return rounded;
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
  if (dx) multiply(kOp, input_product<T>(d, adds(dx)), dy, as_read<T>(w, rounded_weight_), dx.to.raw());
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
    T *weights = as_read<T>(w, rounded_weight_), *bias = as_read<T>(b, rounded_bias_), *out = y.data<T>();
    if (b && lt_products_("linear", forward_product<T>(d, false, Epilogue::bias), {x.raw(), weights, out, out, bias}))
      return;
    if (b)
      each_vector<T, Begin>("linear", y.size(), d.out, {bias, out}, stream_, bias, static_cast<const T*>(nullptr), out);
    multiply("linear", forward_product<T>(d, bool(b)), x.raw(), weights, out);
  });
}

void CudaBackend::linear_add(LinearDims d, Tensor x, Tensor w, Tensor b, Tensor residual, Tensor y) {
  for_type("linear_add", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T *weights = as_read<T>(w, rounded_weight_), *bias = as_read<T>(b, rounded_bias_), *out = y.data<T>();
    const T* under = residual.data<T>();
    if (lt_products_("linear_add", forward_product<T>(d, true, b ? Epilogue::bias : Epilogue::none),
                     {x.raw(), weights, under, out, bias}))
      return;
    each_vector<T, Begin>("linear_add", y.size(), d.out, {bias, under, out}, stream_, bias, under, out);
    multiply("linear_add", forward_product<T>(d, true), x.raw(), weights, out);
  });
}

void CudaBackend::linear_backward(LinearDims d, Tensor dy, Tensor x, Tensor w, Gradient dx, Gradient dw, Gradient db) {
  for_type("linear", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    input_and_weight_gradients<T>(d, dy.data<T>(), x, w, dx, dw, db);
    if (db)
      bias_sums<T>("linear_backward", d.rows, d.out, in_vectors(d.out, {dy.data<T>()}), BiasGradient<T>{dy.data<T>()},
                   db, partial_, stream_);
  });
}

void CudaBackend::linear_gelu(LinearDims d, GeluForm form, Tensor x, Tensor w, Tensor b, Tensor kept, Tensor y) {
  constexpr const char* kOp = "linear_gelu";
  for_type(kOp, x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T *weights = as_read<T>(w, rounded_weight_), *bias = as_read<T>(b, rounded_bias_);
    T *out = y.data<T>(), *keep = kept.data<T>();
    if (by_tanh_of_library(form, Storage<T>::dtype) && b && kept &&
        lt_products_(kOp, forward_product<T>(d, false, Epilogue::bias_gelu_tanh_aux),
                     {x.raw(), weights, out, out, bias, keep}))
      return;
    multiply(kOp, forward_product<T>(d), x.raw(), weights, out);
    each_vector<T, BiasGelu>(kOp, y.size(), d.out, {bias, out, keep}, stream_, form, bias, keep, out);
  });
}

void CudaBackend::linear_gelu_backward(LinearDims d, GeluForm form, Tensor dy, Tensor x, Tensor w, Tensor kept,
                                       Gradient dx, Gradient dw, Gradient db) {
  for_type("linear_gelu", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T* dh = wide_.get<T>(d.rows * d.out);
    bias_sums<T>("linear_gelu_backward", d.rows, d.out, in_vectors(d.out, {dy.data<T>(), kept.data<T>(), dh}),
                 GeluGradient<T>{form, dy.data<T>(), kept.data<T>(), dh}, db, partial_, stream_);
    Gradient summed;
    input_and_weight_gradients<T>(d, dh, x, w, dx, dw, summed);
  });
}

bool CudaBackend::has_products_through_gelu(GeluForm form, DType dtype) const {
  return by_tanh_of_library(form, dtype);
}

void CudaBackend::linear_backward_through_gelu(LinearDims d, GeluForm form, Tensor dy, Tensor x, Tensor w, Tensor kept,
                                               Gradient dh, Gradient dw, Gradient db) {
  constexpr const char* kOp = "linear_backward_through_gelu";
  for_type(kOp, x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    if (dh) {
      T *to = dh.to.data<T>(), *weights = as_read<T>(w, rounded_weight_);
      LtProduct through = input_product<T>(d, false);
      through.epilogue = Epilogue::dgelu_tanh;
      if (adds(dh) || !by_tanh_of_library(form, Storage<T>::dtype) ||
          !lt_products_(kOp, through, {dy.raw(), weights, to, to, nullptr, kept.raw()})) {
        T* da = wide_.get<T>(kept.size());
        multiply(kOp, input_product<T>(d, false), dy.raw(), weights, da);
        each_vector<T, ThroughGelu>(kOp, kept.size(), d.in, {da, kept.data<T>(), to}, stream_, form, da, kept.data<T>(),
                                    to, adds(dh));
      }
    }
    Gradient left = db;
    input_and_weight_gradients<T>(d, dy.data<T>(), x, w, {}, dw, left);
    if (left)
      bias_sums<T>(kOp, d.rows, d.out, in_vectors(d.out, {dy.data<T>()}), BiasGradient<T>{dy.data<T>()}, left, partial_,
                   stream_);
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
