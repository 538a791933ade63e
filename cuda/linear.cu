// Dense layers. The product itself adds bias and residual and, in bf16, computes the tanh form of GELU and a bias
// gradient, if cuBLASLt has an algorithm for that. Otherwise bias and residual are written to the result beforehand, so
// that they are rounded with the sum, and GELU is a separate pass afterwards, for which h is kept, not the slope: the
// backward pass waits for memory, so it has time to compute the slope again.
#include "core/shared/maps.h"
#include "cuda/gelu.cuh"
#include "cuda/map.cuh"

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

/// The bias for the columns of a run; zeros without a bias.
template <int V, class T>
__device__ void load_bias(const T* b, std::int64_t column, T (&to)[V]) {
  if (b)
    load(b + column, to);
  else
    for (T& value : to) value = T(0.0f);
}

/// y = b in each row.
template <class T>
struct Begin {
  const T* b;
  T* y;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    T bias[V];
    load_bias(b, run.column, bias);
    run.each([&](std::int64_t at) {
      Acc<T> sum[V];
      for (int k = 0; k < V; ++k) sum[k] = Acc<T>(bias[k]);
      put_all(y + at, sum);
    });
  }
};
/// The same plus the residual.
template <class T>
struct BeginOnResidual {
  const T* b;
  const T* residual;
  T* y;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    T bias[V];
    load_bias(b, run.column, bias);
    run.each(
        [&](std::int64_t at, const T(&under)[V]) {
          Acc<T> sum[V];
          for (int k = 0; k < V; ++k) sum[k] = Acc<T>(under[k]) + Acc<T>(bias[k]);
          put_all(y + at, sum);
        },
        residual);
  }
};

/// Both from one h, rounded as the storage type T needs.
template <class T>
__device__ ValueAndSlope<Acc<T>> gelu_at(GeluForm form, T h) {
  if constexpr (std::is_same_v<T, bf16>)
    if (form == GeluForm::erf) return gelu_near(float(h));
  return gelu_of(form, Acc<T>(h));
}
template <class T>
struct Gelu {
  GeluForm form;
  const T* h;
  T* y;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    run.each(
        [&](std::int64_t at, const T(&values)[V]) {
          Acc<T> out[V];
          for (int k = 0; k < V; ++k) out[k] = gelu_at(form, values[k]).value;
          put_all(y + at, out);
        },
        h);
  }
};

/// dh = dy gelu'(h), alone and written while its columns are summed.
template <class T>
struct GeluGradient {
  GeluForm form;
  __device__ Acc<T> operator()(Acc<T> dy, Acc<T> h) const { return dy * gelu_at(form, T(h)).slope; }
  __device__ Acc<T> operator()(Acc<T> (&terms)[1], Acc<T> dy, Acc<T> h) const {
    const Acc<T> dh = (*this)(dy, h);
    terms[0] = Acc<T>(T(dh));
    return dh;
  }
};

/// Whether cuBLASLt may compute this GELU: only in bf16, since the accuracy of its tanh is not documented.
constexpr bool by_tanh_of_library(GeluForm form, DType dtype) { return dtype == DType::bf16 && form == GeluForm::tanh; }

}  // namespace

template <class T>
T* CudaBackend::as_read(Tensor parameter, Buffer& to) {
  if (!parameter || parameter.dtype() == Storage<T>::dtype) return parameter.data<T>();
  T* rounded = to.get<T>(parameter.size());
  round_to_bf16(parameter, Tensor(rounded, parameter.shape(), DType::bf16));
  return rounded;
}

void CudaBackend::sum_rows(const char* op, std::int64_t rows, std::int64_t cols, Tensor x, Gradient to) {
  map(op, rows, cols, shared::SameAndSum(), Operands<1, 0, 1>{.in = {x}, .sums = {to}});
}

bool CudaBackend::multiply_lt(const char* op, LtProduct p, const LtOperands& with) {
  p.tf32 = tf32_;
  StackPlace* const place = device_->place;
  return place != nullptr && place->records() ? place->product(lt_products_, op, p, with) : lt_products_(op, p, with);
}

void CudaBackend::multiply(const char* op, LtProduct p, const LtOperands& with) {
  if (multiply_lt(op, p, with)) return;
  p.tf32 = tf32_;
  device_->products(op, p, with);
}

template <class T>
void CudaBackend::input_and_weight_gradients(LinearDims d, const LinearBackward& args, const T* dy,
                                             const Gradient& dx) {
  constexpr const char* kOp = "linear_backward";
  const Gradient& dw = args.dw;
  if (dx)
    multiply(kOp, input_product<T>(d, adds(dx)), {dy, as_read<T>(args.w, rounded_weight_), dx.to.raw(), dx.to.raw()});
  if (dw) multiply(kOp, weight_product<T>(d, adds(dw)), {dy, args.x.raw(), dw.to.raw(), dw.to.raw()});
}

template <class T>
void CudaBackend::multiply_forward(const char* op, LinearDims d, Tensor x, const T* weights, T* bias, const T* residual,
                                   T* y) {
  const bool adds_to = bias || residual;
  if (adds_to && multiply_lt(op, forward_product<T>(d, residual != nullptr, bias ? Epilogue::bias : Epilogue::none),
                             {x.raw(), weights, residual ? residual : y, y, bias}))
    return;
  if (residual)
    each_vector<T>(op, Parts(d.rows, d.out), aligned({bias, residual, y}), stream_,
                   BeginOnResidual<T>{bias, residual, y});
  else if (bias)
    each_vector<T>(op, Parts(d.rows, d.out), aligned({bias, y}), stream_, Begin<T>{bias, y});
  multiply(op, forward_product<T>(d, adds_to), {x.raw(), weights, y, y});
}

void CudaBackend::linear(LinearDims d, Tensor x, Tensor w, Tensor b, Tensor residual, Tensor y) {
  const char* op = residual ? "linear_add" : "linear";
  for_type(op, x.dtype(), [&]<class T>(Type<T>) {
    multiply_forward(op, d, x, as_read<T>(w, rounded_weight_), as_read<T>(b, rounded_bias_), residual.data<T>(),
                     y.data<T>());
  });
}

void CudaBackend::linear_backward(LinearDims d, const LinearBackward& args) {
  for_type("linear", args.x.dtype(), [&]<class T>(Type<T>) {
    const T* dy = args.dy.data<T>();
    input_and_weight_gradients<T>(d, args, dy, args.dx);
    if (args.db) sum_rows("linear_backward", d.rows, d.out, args.dy, args.db);
  });
}

void CudaBackend::linear_gelu(LinearDims d, GeluForm form, Tensor x, Tensor w, Tensor b, Tensor saved, Tensor y) {
  constexpr const char* kOp = "linear_gelu";
  for_type(kOp, x.dtype(), [&]<class T>(Type<T>) {
    T *weights = as_read<T>(w, rounded_weight_), *bias = as_read<T>(b, rounded_bias_);
    T *out = y.data<T>(), *h = saved ? saved.data<T>() : out;
    if (by_tanh_of_library(form, Storage<T>::dtype) && b && saved &&
        multiply_lt(kOp, forward_product<T>(d, false, Epilogue::bias_gelu_tanh_aux),
                    {x.raw(), weights, out, out, bias, h}))
      return;
    multiply_forward<T>(kOp, d, x, weights, bias, nullptr, h);
    each_vector<T>(kOp, d.rows * d.out, aligned({h, out}), stream_, Gelu<T>{form, h, out});
  });
}

void CudaBackend::linear_gelu_backward(LinearDims d, GeluForm form, const LinearBackward& args) {
  for_type("linear_gelu", args.x.dtype(), [&]<class T>(Type<T>) {
    T* dh = wide_.get<T>(d.rows * d.out);
    map_values<T>(
        "linear_gelu_backward", d.rows, d.out, GeluGradient<T>{form},
        Operands<2, 0, 1>{
            .in = {args.dy, args.saved}, .y = {Tensor(dh, args.dy.shape(), args.dy.dtype())}, .sums = {args.db}},
        sums_, stream_);
    input_and_weight_gradients<T>(d, args, dh, args.dx);
  });
}

bool CudaBackend::has_products_through_gelu(GeluForm form, DType dtype) const {
  return by_tanh_of_library(form, dtype);
}

void CudaBackend::linear_backward_through_gelu(LinearDims d, GeluForm form, const LinearBackward& args) {
  constexpr const char* kOp = "linear_backward_through_gelu";
  for_type(kOp, args.x.dtype(), [&]<class T>(Type<T>) {
    const T* dy = args.dy.data<T>();
    if (const Gradient& dh = args.dx) {
      T *to = dh.to.data<T>(), *weights = as_read<T>(args.w, rounded_weight_);
      LtProduct through = input_product<T>(d, false);
      through.epilogue = Epilogue::dgelu_tanh;
      if (adds(dh) || !by_tanh_of_library(form, Storage<T>::dtype) ||
          !multiply_lt(kOp, through, {dy, weights, to, to, nullptr, args.saved.raw()})) {
        T* da = wide_.get<T>(args.saved.size());
        multiply(kOp, input_product<T>(d, false), {dy, weights, da, da});
        map_values<T>(kOp, 1, args.saved.size(), GeluGradient<T>{form},
                      Operands<2>{.in = {Tensor(da, args.saved.shape(), args.saved.dtype()), args.saved}, .y = dh},
                      sums_, stream_);
      }
    }
    input_and_weight_gradients<T>(d, args, dy, {});
    if (args.db) sum_rows(kOp, d.rows, d.out, args.dy, args.db);
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
