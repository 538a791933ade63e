// Optimisers whose step has a size of its own: Lion (Chen et al. 2023, algorithm 2) steps by a sign, LAMB (You et al.
// 2020, algorithm 2) by a share of each tensor's norm.
#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;

void CpuBackend::lion(LionSettings s, UpdateFactors factors, const StepState* state, Tensor gradient, Tensor decay,
                      Tensor p, Tensor m) {
  if (state->nonfinite) return;
  for_param_type("lion", p.dtype(), [&](auto type) {
    using P = typename decltype(type)::type;
    const std::int64_t n = p.size();
    P *g = gradient.data<P>(), *weight = p.data<P>(), *moment = m.data<P>();
    const std::uint8_t* decays = decay.data<std::uint8_t>();
    const P clip = P(state->clip_factor), b1 = P(s.beta1), b2 = P(s.beta2), new1 = P(1 - s.beta1),
            new2 = P(1 - s.beta2);
    const double rate = state->lr * factors.lr;
    const P shrink = P(1 - rate * (s.weight_decay * factors.weight_decay)), lr = P(rate);
    for (std::int64_t i = 0; i < n; ++i) {
      const P grad = g[i] * clip, direction = b1 * moment[i] + new1 * grad;
      const P kept = decays[i] ? weight[i] * shrink : weight[i];
      // No step where the direction is exactly 0, as sign() has it.
      const P step = direction == P(0) ? P(0) : std::copysign(lr, direction);
      weight[i] = kept - step;
      moment[i] = b2 * moment[i] + new2 * grad;
    }
  });
}

namespace {

/// r_i of LAMB from moments that are up to date.
template <class P>
struct LambDirection {
  const P *weight, *first, *second;
  P scale, inverse_root, eps, wd;
  LambDirection(const AdamWSettings& s, const UpdateFactors& factors, const StepState* state, bool decays, Tensor p,
                Tensor m, Tensor v)
      : weight(p.data<P>()),
        first(m.data<P>()),
        second(v.data<P>()),
        scale(P(1 / state->bias_correction1)),
        inverse_root(P(1 / std::sqrt(state->bias_correction2))),
        eps(P(s.eps)),
        wd(decays ? P(s.weight_decay * factors.weight_decay) : P(0)) {}
  P operator()(std::int64_t i) const {
    return scale * first[i] / (std::sqrt(second[i]) * inverse_root + eps) + wd * weight[i];
  }
};

}  // namespace

LambSquares CpuBackend::lamb_moments(AdamWSettings s, UpdateFactors factors, const StepState* state, Tensor gradient,
                                     bool decays, Tensor p, Tensor m, Tensor v) {
  LambSquares squares;
  if (state->nonfinite) return squares;
  for_param_type("lamb_moments", p.dtype(), [&](auto type) {
    using P = typename decltype(type)::type;
    const std::int64_t n = p.size();
    P *g = gradient.data<P>(), *weight = p.data<P>(), *first = m.data<P>(), *second = v.data<P>();
    const P clip = P(state->clip_factor), b1 = P(s.beta1), b2 = P(s.beta2), new1 = P(1 - s.beta1),
            new2 = P(1 - s.beta2);
    for (std::int64_t i = 0; i < n; ++i) {
      const P grad = g[i] * clip;
      first[i] = b1 * first[i] + new1 * grad;
      second[i] = b2 * second[i] + new2 * grad * grad;
    }
    const LambDirection<P> direction(s, factors, state, decays, p, m, v);
    squares.parameters = sum<double>(n, [&](auto i) { return double(weight[i]) * double(weight[i]); });
    squares.direction = sum<double>(n, [&](auto i) {
      const double r = double(direction(i));
      return r * r;
    });
  });
  return squares;
}

void CpuBackend::lamb(AdamWSettings s, UpdateFactors factors, const StepState* state, const double* trust_ratio,
                      bool decays, Tensor p, Tensor m, Tensor v) {
  if (state->nonfinite) return;
  for_param_type("lamb", p.dtype(), [&](auto type) {
    using P = typename decltype(type)::type;
    P* weight = p.data<P>();
    const P rate = P(state->lr * factors.lr * *trust_ratio);
    const LambDirection<P> direction(s, factors, state, decays, p, m, v);
    for (std::int64_t i = 0, n = p.size(); i < n; ++i) weight[i] -= rate * direction(i);
  });
}

}  // namespace normlab
