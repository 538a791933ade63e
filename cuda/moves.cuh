// Values that only change their place: patches, windows, parts of an image's tokens.
#pragma once

#include <limits>

#include "cuda/each_vector.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// What a Place returns for a value without a source. A Place is a struct with a device function
/// template <class I> I operator()(I) for unsigned integers I, since 32-bit divisions cost a fraction of longer ones.
/// Its together() is the length of aligned runs of values that are adjacent at both ends.
inline constexpr int kPadding = -1;

template <class T, class Place, class I>
struct Gather {
  Place place;
  const T* from;
  T* to;
  bool add;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    run.each([&](std::int64_t i) {
      const I at = place(static_cast<I>(i));
      T values[V];
      Acc<T> moved[V] = {};
      if (at != I(kPadding)) {
        load(from + at, values);
        for (int k = 0; k < V; ++k) moved[k] = Acc<T>(values[k]);
      } else if (add) {
        return;
      }
      put_all(to + i, moved, add);
    });
  }
};
template <class T, class Place, class I>
struct Scatter {
  Place place;
  const T* from;
  T* to;
  bool add;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    run.each([&](std::int64_t i) {
      const I at = place(static_cast<I>(i));
      if (at == I(kPadding)) return;
      T values[V];
      Acc<T> moved[V];
      load(from + i, values);
      for (int k = 0; k < V; ++k) moved[k] = Acc<T>(values[k]);
      put_all(to + at, moved, add);
    });
  }
};

/// Runs Move<T, Place, I> over n values of one end.
template <template <class, class, class> class Move, class Place>
void move_all(const char* op, std::int64_t n, Place place, Tensor from, Tensor to, bool add, const Stream& stream) {
  for_type(op, from.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const bool whole = aligned({from.raw(), to.raw()}) && place.together() % kVector<T> == 0;
    const auto start = [&](auto index) {
      using I = decltype(index);
      each_vector<T>(op, n, whole, stream, Move<T, Place, I>{place, from.data<T>(), to.data<T>(), add});
    };
    if (from.size() < std::numeric_limits<std::int32_t>::max() && to.size() < std::numeric_limits<std::int32_t>::max())
      start(std::uint32_t{});
    else
      start(std::uint64_t{});
  });
}

/// to[i] (+)= from[place(i)], zero if that is kPadding.
template <class Place>
void gather(const char* op, Place place, Tensor from, Tensor to, bool add, const Stream& stream) {
  move_all<Gather>(op, to.size(), place, from, to, add, stream);
}
/// to[place(i)] (+)= from[i]. Different i have different places, so that every value is written by one thread.
template <class Place>
void scatter(const char* op, Place place, Tensor from, Tensor to, bool add, const Stream& stream) {
  move_all<Scatter>(op, from.size(), place, from, to, add, stream);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
