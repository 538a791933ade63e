// Adam and momentum as Big Vision has them (its optax.py): the decay is multiplied by the schedule and not by the peak
// rate, and the first moment may be stored in bf16.
#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;

namespace {

/// Calls f(Type<M>{}, rounded) for the storage type M of a moment beside parameters of type P; rounded is a
/// std::bool_constant.
template <class P, class F>
void for_moment(DType dtype, MomentProduct product, F&& f) {
  if (dtype != DType::bf16)
    f(Type<P>{}, std::false_type{});
  else if (product == MomentProduct::rounded)
    f(Type<bf16>{}, std::true_type{});
  else
    f(Type<bf16>{}, std::false_type{});
}

/// The constant that a stored moment is multiplied by.
template <class P, class M>
P moment_decay(double beta, MomentProduct product) {
  const bool narrow = std::is_same_v<M, bf16> && product != MomentProduct::wide;
  return narrow ? P(float(bf16(beta))) : P(beta);
}

template <bool kRounded, class P, class M>
P decayed(P beta, M moment) {
  const P product = beta * P(moment);
  if constexpr (kRounded)
    return P(float(bf16(product)));
  else
    return product;
}

}  // namespace

void CpuBackend::big_vision_adam(BigVisionAdamSettings s, UpdateFactors factors, const StepState* state,
                                 Tensor gradient, Tensor decay, Tensor p, Tensor m, Tensor v) {
  if (state->nonfinite) return;
  for_param_type("big_vision_adam", p.dtype(), [&](auto type) {
    using P = typename decltype(type)::type;
    for_moment<P>(m.dtype(), s.product, [&](auto moment, auto rounded) {
      using M = typename decltype(moment)::type;
      const std::int64_t n = p.size();
      P *g = gradient.data<P>(), *weight = p.data<P>(), *second = v.data<P>();
      M* first = m.data<M>();
      const std::uint8_t* decays = decay.data<std::uint8_t>();
      const P clip = P(state->clip_factor), b2 = P(s.beta2), eps = P(s.eps);
      const P b1 = moment_decay<P, M>(s.beta1, s.product), new1 = P(1 - s.beta1), new2 = P(1 - s.beta2);
      const P rate = P(state->lr * factors.lr / state->bias_correction1);
      const P shrink = P(state->schedule * (s.weight_decay * factors.weight_decay));
      const P inverse_root = P(1 / std::sqrt(state->bias_correction2));
      for (std::int64_t i = 0; i < n; ++i) {
        const P grad = g[i] * clip;
        const P mean = new1 * grad + decayed<rounded.value>(b1, first[i]);
        second[i] = b2 * second[i] + new2 * grad * grad;
        first[i] = M(mean);
        const P update = rate * mean / (std::sqrt(second[i]) * inverse_root + eps);
        weight[i] -= update + (decays[i] ? shrink * weight[i] : P(0));
      }
    });
  });
}

void CpuBackend::momentum_hp(MomentumSettings s, UpdateFactors factors, const StepState* state, Tensor gradient,
                             Tensor decay, Tensor p, Tensor m) {
  if (state->nonfinite) return;
  for_param_type("momentum_hp", p.dtype(), [&](auto type) {
    using P = typename decltype(type)::type;
    for_moment<P>(m.dtype(), s.product, [&](auto moment, auto rounded) {
      using M = typename decltype(moment)::type;
      const std::int64_t n = p.size();
      P *g = gradient.data<P>(), *weight = p.data<P>();
      M* trace = m.data<M>();
      const std::uint8_t* decays = decay.data<std::uint8_t>();
      const P clip = P(state->clip_factor), lr = P(state->lr * factors.lr);
      const P kept = moment_decay<P, M>(s.momentum, s.product);
      const P ahead = s.nesterov ? P(s.momentum) : P(1), now = s.nesterov ? P(1) : P(0);
      const P shrink = P(state->schedule * (s.weight_decay * factors.weight_decay));
      for (std::int64_t i = 0; i < n; ++i) {
        const P grad = g[i] * clip;
        const P sum = grad + decayed<rounded.value>(kept, trace[i]);
        trace[i] = M(sum);
        weight[i] -= lr * (now * grad + ahead * sum) + (decays[i] ? shrink * weight[i] : P(0));
      }
    });
  });
}

}  // namespace normlab
