// Dropout and drop-path with a given mask, the drawing of masks, and the search for NaN.
#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;

void CpuBackend::dropout(std::int64_t group, double rate, Tensor x, Tensor keep, Tensor residual, Tensor y) {
  for_type("dropout", x.dtype(), [&]<class T>(Type<T>) {
    using A = Acc<T>;
    const A factor = A(1 / (1 - rate));
    const std::uint8_t* mask = keep.data<std::uint8_t>();
    const T *in = x.data<T>(), *under = residual.data<T>();
    T* out = y.data<T>();
    choose(bool(residual), [&](auto sums) {
      const auto put_masked = [&](std::int64_t i, A value) {
        out[i] = T(decltype(sums)::value ? A(under[i]) + value : value);
      };
      if (group == 1) {
        for (std::int64_t i = 0, n = x.size(); i < n; ++i) put_masked(i, mask[i] ? A(in[i]) * factor : 0);
        return;
      }
      for (std::int64_t g = 0; g < x.size() / group; ++g) {
        const A f = mask[g] ? factor : 0;
        for (std::int64_t i = g * group; i < (g + 1) * group; ++i) put_masked(i, A(in[i]) * f);
      }
    });
  });
}

void CpuBackend::dropout_backward(std::int64_t group, double rate, Tensor dy, Tensor keep, Gradient dx) {
  if (!dx) return;
  for_type("dropout", dy.dtype(), [&]<class T>(Type<T>) {
    const Acc<T> factor = Acc<T>(1 / (1 - rate));
    const std::uint8_t* mask = keep.data<std::uint8_t>();
    const T* up = dy.data<T>();
    T* out = dx.to.data<T>();
    for (std::int64_t g = 0; g < dy.size() / group; ++g) {
      const Acc<T> f = mask[g] ? factor : 0;
      for (std::int64_t i = g * group; i < (g + 1) * group; ++i) put(out[i], Acc<T>(up[i]) * f, adds(dx));
    }
  });
}

void CpuBackend::draw_mask(MaskDraw d, const StepState* state, Tensor keep_mask) {
  const std::uint32_t threshold = drop_threshold(d.rate);
  const auto step = static_cast<std::uint64_t>(state->step);
  std::uint8_t* out = keep_mask.data<std::uint8_t>();
  for (std::int64_t i = 0, n = keep_mask.size(); i < n; ++i)
    out[i] = keep(draw(d.key, static_cast<std::uint64_t>(d.first + i), step)[0], threshold);
}

void CpuBackend::check_finite(Tensor x, std::int32_t code, Tensor flag) {
  for_type("check_finite", x.dtype(), [&]<class T>(Type<T>) {
    const T* in = x.data<T>();
    // A sum of x * 0 is NaN exactly if some x is not finite, and needs no branch per element.
    const Acc<T> zero = sum<Acc<T>>(x.size(), [&](auto i) { return Acc<T>(in[i]) * 0; });
    std::int32_t* seen = flag.data<std::int32_t>();
    if (!(zero == 0) && *seen == 0) *seen = code;
  });
}

}  // namespace normlab
