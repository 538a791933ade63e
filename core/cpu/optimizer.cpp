// One block of the flat parameter buffer: sum of the lanes, AdamW (Loshchilov and Hutter 2019) and SGD as PyTorch has
// them, an average of weights. The other optimisers are in files of their own.
#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;

double CpuBackend::sum_lanes(std::int64_t lanes, std::int64_t lane_stride, Tensor lane0) {
  double square = 0.0;
  for_param_type("sum_lanes", lane0.dtype(), [&](auto type) {
    using P = typename decltype(type)::type;
    P* g = lane0.data<P>();
    const std::int64_t n = lane0.size();
    for (std::int64_t l = 1; l < lanes; ++l)
      for (std::int64_t i = 0; i < n; ++i) g[i] += g[l * lane_stride + i];
    square = sum<double>(n, [&](auto i) { return double(g[i]) * double(g[i]); });
  });
  return square;
}

void CpuBackend::adamw(AdamWSettings s, UpdateFactors factors, const StepState* state, Tensor gradient, Tensor decay,
                       Tensor p, Tensor m, Tensor v) {
  if (state->nonfinite) return;
  for_param_type("adamw", p.dtype(), [&](auto type) {
    using P = typename decltype(type)::type;
    const std::int64_t n = p.size();
    P *g = gradient.data<P>(), *weight = p.data<P>(), *first = m.data<P>(), *second = v.data<P>();
    const std::uint8_t* decays = decay.data<std::uint8_t>();
    const P clip = P(state->clip_factor), b1 = P(s.beta1), b2 = P(s.beta2), eps = P(s.eps);
    // 1 - beta is rounded once: in float, 1 - 0.999f is off by 1e-5, and the bias correction would not make up for
    // it.
    const P new1 = P(1 - s.beta1), new2 = P(1 - s.beta2);
    const double lr = state->lr * factors.lr;
    const P shrink = P(1 - lr * (s.weight_decay * factors.weight_decay)), rate = P(lr / state->bias_correction1);
    const P inverse_root = P(1 / std::sqrt(state->bias_correction2));
    for (std::int64_t i = 0; i < n; ++i) {
      const P grad = g[i] * clip;
      first[i] = b1 * first[i] + new1 * grad;
      second[i] = b2 * second[i] + new2 * grad * grad;
      const P kept = decays[i] ? weight[i] * shrink : weight[i];
      weight[i] = kept - rate * first[i] / (std::sqrt(second[i]) * inverse_root + eps);
    }
  });
}

void CpuBackend::sgd(SgdSettings s, UpdateFactors factors, const StepState* state, Tensor gradient, Tensor decay,
                     Tensor p, Tensor m) {
  if (state->nonfinite) return;
  for_param_type("sgd", p.dtype(), [&](auto type) {
    using P = typename decltype(type)::type;
    const std::int64_t n = p.size();
    P *g = gradient.data<P>(), *weight = p.data<P>(), *velocity = m.data<P>();
    const std::uint8_t* decays = decay.data<std::uint8_t>();
    const P clip = P(state->clip_factor), momentum = P(s.momentum), lr = P(state->lr * factors.lr);
    const P wd = P(s.weight_decay * factors.weight_decay);
    for (std::int64_t i = 0; i < n; ++i) {
      const P grad = g[i] * clip + (decays[i] ? wd * weight[i] : P(0));
      velocity[i] = momentum * velocity[i] + grad;
      weight[i] -= lr * (s.nesterov ? grad + momentum * velocity[i] : velocity[i]);
    }
  });
}

void CpuBackend::average(double decay, const StepState* state, Tensor x, Tensor to) {
  if (state->nonfinite) return;
  for_param_type("average", x.dtype(), [&](auto type) {
    using P = typename decltype(type)::type;
    const P *from = x.data<P>(), kept = P(decay), taken = P(1 - decay);
    P* mean = to.data<P>();
    for (std::int64_t i = 0, n = x.size(); i < n; ++i) mean[i] = kept * mean[i] + taken * from[i];
  });
}

void CpuBackend::round_to_bf16(Tensor p, Tensor to) {
  const float* from = p.data<float>();
  bf16* out = to.data<bf16>();
  for (std::int64_t i = 0, n = p.size(); i < n; ++i) out[i] = bf16(from[i]);
}

}  // namespace normlab
