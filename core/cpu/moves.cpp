// Values that only change their place (core/places.h).
#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;
namespace {

/// Calls f(first of `count` adjacent pieces, its place or kPadding, count).
template <class F>
void each_run(const MoveDims& place, std::int64_t pieces, std::int64_t whole, F&& f) {
  with_place(place, pieces, whole, [&]<class I>(const auto& places, I) {
    const std::int64_t run = places.together();
    for (std::int64_t i = 0; i < pieces; i += run) {
      const I at = places.place(I(i));
      f(i, at == I(kPadding) ? kPadding : std::int64_t(at), run);
    }
  });
}

template <class T>
void move(std::int64_t n, const T* from, T* to, bool add) {
  if (!add) return void(std::copy_n(from, n, to));
  for (std::int64_t c = 0; c < n; ++c) put(to[c], Acc<T>(from[c]), true);
}

}  // namespace

void CpuBackend::gather(const MoveDims& place, Tensor whole, Gradient y) {
  if (!y) return;
  for_type("gather", whole.dtype(), [&]<class T>(Type<T>) {
    each_run(place, y.to.size(), whole.size(), [&](std::int64_t i, std::int64_t at, std::int64_t n) {
      T* const to = y.to.data<T>() + i;
      if (at != kPadding)
        move(n, whole.data<T>() + at, to, adds(y));
      else if (!adds(y))
        std::fill_n(to, n, T(0.0f));
    });
  });
}

void CpuBackend::scatter(const MoveDims& place, Tensor pieces, Gradient whole) {
  if (!whole) return;
  for_type("scatter", pieces.dtype(), [&]<class T>(Type<T>) {
    each_run(place, pieces.size(), whole.to.size(), [&](std::int64_t i, std::int64_t at, std::int64_t n) {
      if (at != kPadding) move(n, pieces.data<T>() + i, whole.to.data<T>() + at, adds(whole));
    });
  });
}

}  // namespace normlab
