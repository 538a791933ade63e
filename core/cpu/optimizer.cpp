// One block of the flat parameter buffer: sum of the lanes, clipping, each optimiser's rule, an average of weights.
#include "core/cpu/kernel.h"
#include "core/update_rules.h"

namespace normlab {
using namespace cpu;

namespace {

template <template <class> class Rule, class Settings>
void update(const char* op, const Settings& settings, const ParameterUpdate& u) {
  if (u.state->nonfinite) return;
  for_param_type(op, u.p.dtype(), [&](auto type) {
    using P = typename decltype(type)::type;
    const Rule<P> rule(settings, u.factors, *u.state, buffers_of<P, P>(u));
    for (std::int64_t i = 0, n = u.p.size(); i < n; ++i) rule(i);
  });
}

/// The same for optimisers whose moment has a type of its own.
template <template <class, class, bool> class Rule, class Settings>
void update_with_moment(const char* op, const Settings& settings, const ParameterUpdate& u) {
  if (u.state->nonfinite) return;
  for_param_type(op, u.p.dtype(), [&](auto type) {
    using P = typename decltype(type)::type;
    for_moment<P>(u.m.dtype(), settings.product, [&](auto moment, auto rounded) {
      using M = typename decltype(moment)::type;
      const Rule<P, M, rounded.value> rule(settings, u.factors, *u.state, buffers_of<P, M>(u));
      for (std::int64_t i = 0, n = u.p.size(); i < n; ++i) rule(i);
    });
  });
}

}  // namespace

void CpuBackend::sum_lanes(std::int64_t lanes, std::int64_t lane_stride, Tensor lane0, double* square) {
  for_param_type("sum_lanes", lane0.dtype(), [&](auto type) {
    using P = typename decltype(type)::type;
    P* g = lane0.data<P>();
    const std::int64_t n = lane0.size();
    for (std::int64_t l = 1; l < lanes; ++l)
      for (std::int64_t i = 0; i < n; ++i) g[i] += g[l * lane_stride + i];
    *square = sum<double>(n, [&](auto i) { return double(g[i]) * double(g[i]); });
  });
}

void CpuBackend::clip(ClipForm form, std::int64_t blocks, const double* squares, StepState* state) {
  double total = 0.0;
  for (std::int64_t b = 0; b < blocks; ++b) total += squares[b];
  set_clipping(form, total, state);
}

void CpuBackend::adamw(AdamWSettings s, const ParameterUpdate& u) { update<AdamWRule>("adamw", s, u); }
void CpuBackend::sgd(SgdSettings s, const ParameterUpdate& u) { update<SgdRule>("sgd", s, u); }
void CpuBackend::lion(LionSettings s, const ParameterUpdate& u) { update<LionRule>("lion", s, u); }
void CpuBackend::big_vision_adam(BigVisionAdamSettings s, const ParameterUpdate& u) {
  update_with_moment<BigVisionAdamRule>("big_vision_adam", s, u);
}
void CpuBackend::momentum_hp(MomentumSettings s, const ParameterUpdate& u) {
  update_with_moment<MomentumHpRule>("momentum_hp", s, u);
}

void CpuBackend::lamb_moments(AdamWSettings s, const ParameterUpdate& u, bool decays, LambSquares* squares) {
  *squares = {};
  if (u.state->nonfinite) return;
  for_param_type("lamb_moments", u.p.dtype(), [&](auto type) {
    using P = typename decltype(type)::type;
    const LambRule<P> rule(s, u.factors, *u.state, buffers_of<P, P>(u), decays);
    const std::int64_t n = u.p.size();
    for (std::int64_t i = 0; i < n; ++i) rule.update_moments(i);
    squares->parameters = sum<double>(n, [&](auto i) { return double(rule.parameter(i)) * double(rule.parameter(i)); });
    squares->direction = sum<double>(n, [&](auto i) {
      const double r = double(rule.direction(i));
      return r * r;
    });
  });
}

void CpuBackend::lamb_ratio(std::int64_t pieces, const LambSquares* squares, double* ratio) {
  LambSquares sum;
  for (std::int64_t i = 0; i < pieces; ++i) {
    sum.parameters += squares[i].parameters;
    sum.direction += squares[i].direction;
  }
  *ratio = trust_ratio(sum);
}

void CpuBackend::lamb(AdamWSettings s, const ParameterUpdate& u, bool decays, const double* ratio) {
  if (u.state->nonfinite) return;
  for_param_type("lamb", u.p.dtype(), [&](auto type) {
    using P = typename decltype(type)::type;
    const LambRule<P> rule(s, u.factors, *u.state, buffers_of<P, P>(u), decays);
    const P rate = rule.rate(*ratio);
    for (std::int64_t i = 0, n = u.p.size(); i < n; ++i) rule.step(i, rate);
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
