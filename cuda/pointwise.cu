// GELU, tanh and fill.
#include "cuda/gelu.cuh"
#include "cuda/map.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

struct Gelu {
  GeluForm form;
  template <class A>
  __device__ A operator()(A x) const {
    return gelu_of(form, x).value;
  }
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

}  // namespace

void CudaBackend::gelu(GeluForm form, Tensor x, Tensor y) {
  map("gelu", 1, x.size(), Gelu{form}, Operands<1>{.in = {x}, .y = {y}});
}

void CudaBackend::gelu_backward(GeluForm form, Tensor dy, Tensor x, Gradient dx) {
  if (dx) map("gelu_backward", 1, x.size(), Gelu{form}, Operands<2>{.in = {dy, x}, .y = dx});
}

void CudaBackend::tanh(Tensor x, Tensor y) { map("tanh", 1, x.size(), Tanh(), Operands<1>{.in = {x}, .y = {y}}); }

void CudaBackend::fill(Tensor x, double value) {
  for_number_type("fill", x.dtype(), [&]<class T>(Type<T>) {
    each_vector<T>("fill", x.size(), aligned({x.raw()}), stream_, Fill<T>{x.data<T>(), T(value)});
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
