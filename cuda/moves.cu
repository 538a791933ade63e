// Values that only change their place (core/places.h).
#include "cuda/cuda_backend.h"
#include "cuda/each_vector.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// Gathers pieces from their places in the whole, or scatters them there. A gathered piece without a place is zero.
template <class T, class P, class I, bool kGather>
struct Move {
  P place;
  const T* from;
  T* to;
  bool add;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    run.each([&](std::int64_t i) {
      const I at = place.place(static_cast<I>(i));
      const bool padding = at == I(kPadding);
      if (padding && (add || !kGather)) return;
      T values[V];
      Acc<T> moved[V] = {};
      if (!padding) {
        load(from + (kGather ? at : i), values);
        for (int k = 0; k < V; ++k) moved[k] = Acc<T>(values[k]);
      }
      put_all(to + (kGather ? i : at), moved, add);
    });
  }
};

template <bool kGather>
void move_all(const char* op, const MoveDims& place, const Tensor& pieces, const Tensor& whole, const Tensor& from,
              const Gradient& to, const Stream& stream) {
  for_type(op, from.dtype(), [&]<class T>(Type<T>) {
    with_place(place, pieces.size(), whole.size(), [&]<class P, class I>(const P& places, I) {
      const bool vectors = aligned({from.raw(), to.to.raw()}) && places.together() % kVector<T> == 0;
      each_vector<T>(op, pieces.size(), vectors, stream,
                     Move<T, P, I, kGather>{places, from.data<T>(), to.to.template data<T>(), adds(to)});
    });
  });
}

}  // namespace

void CudaBackend::gather(const MoveDims& place, Tensor whole, Gradient y) {
  if (y) move_all<true>("gather", place, y.to, whole, whole, y, stream_);
}

void CudaBackend::scatter(const MoveDims& place, Tensor pieces, Gradient whole) {
  if (whole) move_all<false>("scatter", place, pieces, whole.to, pieces, whole, stream_);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
