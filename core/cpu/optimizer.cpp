// One chunk of the flat parameter buffer: sum of the lanes, clipping, each optimiser's rule, an average of weights.
#include "core/cpu/kernel.h"
#include "core/update_rules.h"

namespace normlab {
using namespace cpu;

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

void CpuBackend::clip(ClipForm form, std::int64_t chunks, const double* squares, StepState* state) {
  double total = 0.0;
  for (std::int64_t b = 0; b < chunks; ++b) total += squares[b];
  set_clipping(form, total, state);
}

void CpuBackend::update(const UpdateRule& rule, const ParameterUpdate& u) {
  if (u.state->nonfinite) return;
  for_rule(rule, u, [&](auto type, const auto& settings, const auto& buffers) {
    const typename decltype(type)::type each(settings, u.factors, *u.state, buffers);
    for (std::int64_t i = 0, n = u.p.size(); i < n; ++i) each(i);
  });
}

void CpuBackend::lamb_moments(const LambSettings& s, const ParameterUpdate& u, LambSquares* squares) {
  *squares = {};
  if (u.state->nonfinite) return;
  for_param_type("lamb_moments", u.p.dtype(), [&](auto type) {
    using P = typename decltype(type)::type;
    const LambMoments<P> of(s, u.factors, *u.state, buffers_of<P, P>(u));
    const std::int64_t n = u.p.size();
    for (std::int64_t i = 0; i < n; ++i) of(i);
    squares->parameters = sum<double>(n, [&](auto i) { return double(of.parameter(i)) * double(of.parameter(i)); });
    squares->direction = sum<double>(n, [&](auto i) {
      const double r = double(of.direction(i));
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
