// Values that change their place and nothing else: patches, windows, parts of an image's tokens.
#pragma once

#include "cuda/kernel.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// What a Place, a struct with std::int64_t operator()(std::int64_t) in device code, gives for a value that lies
/// nowhere.
inline constexpr std::int64_t kPadding = -1;

template <class T, class Place>
struct Gather {
  Place place;
  const T* from;
  T* to;
  bool add;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t at = place(i);
    if (at != kPadding)
      put(to[i], Acc<T>(from[at]), add);
    else if (!add)
      to[i] = T(Acc<T>(0));
  }
};
template <class T, class Place>
struct Scatter {
  Place place;
  const T* from;
  T* to;
  bool add;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t at = place(i);
    if (at != kPadding) put(to[at], Acc<T>(from[i]), add);
  }
};

/// to[i] (+)= from[place(i)], zero where that is kPadding.
template <class Place>
void gather(const char* op, Place place, Tensor from, Tensor to, bool add, const Stream& stream) {
  for_type(op, from.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_element(op, to.size(), stream, Gather<T, Place>{place, from.data<T>(), to.data<T>(), add});
  });
}
/// to[place(i)] (+)= from[i]. The places of different i are different, so that every value is written by one thread.
template <class Place>
void scatter(const char* op, Place place, Tensor from, Tensor to, bool add, const Stream& stream) {
  for_type(op, from.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_element(op, from.size(), stream, Scatter<T, Place>{place, from.data<T>(), to.data<T>(), add});
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
