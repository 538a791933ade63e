// What an optimiser does to one parameter value: the same arithmetic on every device. A rule is made from its settings
// and the numbers of the step, then called for each index, in any order. AdamW (Loshchilov and Hutter 2019), Adam and
// SGD follow PyTorch; other sources are given at each rule.
#pragma once

#include <cmath>
#include <type_traits>

#include "core/dtype.h"
#include "core/for_type.h"
#include "core/host_device.h"
#include "core/update_settings.h"

namespace normlab {

/// Parallel arrays: gradient, parameter, first and second moment, and where weight decay applies. P is float or double,
/// M is P or bf16. Arrays that a rule does not use are null.
template <class P, class M = P>
struct UpdateBuffers {
  const P* gradient;
  P* p;
  M* m;
  P* v;
  const std::uint8_t* decays;
};

template <class P, class M>
UpdateBuffers<P, M> buffers_of(const ParameterUpdate& u) {
  return {u.gradient.data<P>(), u.p.data<P>(), u.m.data<M>(), u.v ? u.v.data<P>() : nullptr,
          u.decay ? u.decay.data<std::uint8_t>() : nullptr};
}

/// The rule for these settings, with parameters of type P and a first moment of type M.
/// kRounded: MomentProduct::rounded.
template <class Settings, class P, class M = P, bool kRounded = false>
class Rule;

/// Both moments of Adam and the divisor of a step, for AdamW, Adam and LAMB.
template <class P>
class AdamMoments {
 public:
  // 1 - beta is computed in double and rounded once: in float, 1 - 0.999f is off by 1e-5, which the bias correction
  // would not cancel.
  NORMLAB_HOST_DEVICE AdamMoments(const AdamWSettings& s, const StepState& state)
      : clip_(P(state.clip_factor)),
        b1_(P(s.beta1)),
        b2_(P(s.beta2)),
        new1_(P(1 - s.beta1)),
        new2_(P(1 - s.beta2)),
        eps_(P(s.eps)),
        inverse_root_(P(1 / std::sqrt(state.bias_correction2))) {}
  NORMLAB_HOST_DEVICE void update(const UpdateBuffers<P>& buffers, std::int64_t i) const {
    add(buffers, i, buffers.gradient[i] * clip_);
  }
  /// With `decay` times the parameter in the gradient.
  NORMLAB_HOST_DEVICE void update(const UpdateBuffers<P>& buffers, std::int64_t i, P decay) const {
    add(buffers, i, buffers.gradient[i] * clip_ + decay * buffers.p[i]);
  }
  NORMLAB_HOST_DEVICE P divisor(const UpdateBuffers<P>& buffers, std::int64_t i) const {
    return std::sqrt(buffers.v[i]) * inverse_root_ + eps_;
  }

 private:
  NORMLAB_HOST_DEVICE void add(const UpdateBuffers<P>& buffers, std::int64_t i, P grad) const {
    buffers.m[i] = b1_ * buffers.m[i] + new1_ * grad;
    buffers.v[i] = b2_ * buffers.v[i] + new2_ * grad * grad;
  }
  P clip_, b1_, b2_, new1_, new2_, eps_, inverse_root_;
};

template <class P>
class Rule<AdamWSettings, P> {
 public:
  NORMLAB_HOST_DEVICE Rule(const AdamWSettings& s, const UpdateFactors& factors, const StepState& state,
                           const UpdateBuffers<P>& buffers)
      : buffers_(buffers),
        moments_(s, state),
        lr_((s.peak < 0 ? state.lr : state.schedule * s.peak) * factors.lr),
        shrink_(P(1 - lr_ * (s.weight_decay * factors.weight_decay))),
        rate_(P(lr_ / state.bias_correction1)) {}
  NORMLAB_HOST_DEVICE void operator()(std::int64_t i) const {
    moments_.update(buffers_, i);
    const P decayed = buffers_.decays[i] ? buffers_.p[i] * shrink_ : buffers_.p[i];
    buffers_.p[i] = decayed - rate_ * buffers_.m[i] / moments_.divisor(buffers_, i);
  }

 private:
  UpdateBuffers<P> buffers_;
  AdamMoments<P> moments_;
  double lr_;
  P shrink_, rate_;
};

/// Adam (Kingma and Ba 2015) with L2 regularisation, as torch.optim.Adam.
template <class P>
class Rule<AdamSettings, P> {
 public:
  NORMLAB_HOST_DEVICE Rule(const AdamSettings& s, const UpdateFactors& factors, const StepState& state,
                           const UpdateBuffers<P>& buffers)
      : buffers_(buffers),
        moments_({s.beta1, s.beta2, s.eps, 0}, state),
        wd_(P(s.weight_decay * factors.weight_decay)),
        rate_(P(state.lr * factors.lr / state.bias_correction1)) {}
  NORMLAB_HOST_DEVICE void operator()(std::int64_t i) const {
    moments_.update(buffers_, i, buffers_.decays[i] ? wd_ : P(0));
    buffers_.p[i] -= rate_ * buffers_.m[i] / moments_.divisor(buffers_, i);
  }

 private:
  UpdateBuffers<P> buffers_;
  AdamMoments<P> moments_;
  P wd_, rate_;
};

template <class P>
class Rule<SgdSettings, P> {
 public:
  NORMLAB_HOST_DEVICE Rule(const SgdSettings& s, const UpdateFactors& factors, const StepState& state,
                           const UpdateBuffers<P>& buffers)
      : buffers_(buffers),
        clip_(P(state.clip_factor)),
        momentum_(P(s.momentum)),
        lr_(P(state.lr * factors.lr)),
        wd_(P(s.weight_decay * factors.weight_decay)),
        nesterov_(s.nesterov) {}
  NORMLAB_HOST_DEVICE void operator()(std::int64_t i) const {
    const P grad = buffers_.gradient[i] * clip_ + (buffers_.decays[i] ? wd_ * buffers_.p[i] : P(0));
    buffers_.m[i] = momentum_ * buffers_.m[i] + grad;
    buffers_.p[i] -= lr_ * (nesterov_ ? grad + momentum_ * buffers_.m[i] : buffers_.m[i]);
  }

 private:
  UpdateBuffers<P> buffers_;
  P clip_, momentum_, lr_, wd_;
  bool nesterov_;
};

/// Lion (Chen et al. 2023, algorithm 2): steps by a sign.
template <class P>
class Rule<LionSettings, P> {
 public:
  NORMLAB_HOST_DEVICE Rule(const LionSettings& s, const UpdateFactors& factors, const StepState& state,
                           const UpdateBuffers<P>& buffers)
      : buffers_(buffers),
        clip_(P(state.clip_factor)),
        b1_(P(s.beta1)),
        b2_(P(s.beta2)),
        new1_(P(1 - s.beta1)),
        new2_(P(1 - s.beta2)),
        shrink_(P(1 - state.lr * factors.lr * (s.weight_decay * factors.weight_decay))),
        lr_(P(state.lr * factors.lr)) {}
  NORMLAB_HOST_DEVICE void operator()(std::int64_t i) const {
    const P grad = buffers_.gradient[i] * clip_, direction = b1_ * buffers_.m[i] + new1_ * grad;
    const P decayed = buffers_.decays[i] ? buffers_.p[i] * shrink_ : buffers_.p[i];
    // No step where the direction is exactly 0, as with sign().
    const P step = direction == P(0) ? P(0) : std::copysign(lr_, direction);
    buffers_.p[i] = decayed - step;
    buffers_.m[i] = b2_ * buffers_.m[i] + new2_ * grad;
  }

 private:
  UpdateBuffers<P> buffers_;
  P clip_, b1_, b2_, new1_, new2_, shrink_, lr_;
};

/// The first pass of LAMB (You et al. 2020, algorithm 2): updates the moments, from which direction() follows.
template <class P>
class LambMoments {
 public:
  NORMLAB_HOST_DEVICE LambMoments(const LambSettings& s, const UpdateFactors& factors, const StepState& state,
                                  const UpdateBuffers<P>& buffers)
      : buffers_(buffers),
        moments_(s.adamw, state),
        scale_(P(1 / state.bias_correction1)),
        wd_(s.decays ? P(s.adamw.weight_decay * factors.weight_decay) : P(0)) {}
  NORMLAB_HOST_DEVICE void operator()(std::int64_t i) const { moments_.update(buffers_, i); }
  NORMLAB_HOST_DEVICE P direction(std::int64_t i) const {
    return scale_ * buffers_.m[i] / moments_.divisor(buffers_, i) + wd_ * buffers_.p[i];
  }
  NORMLAB_HOST_DEVICE P& parameter(std::int64_t i) const { return buffers_.p[i]; }

 private:
  UpdateBuffers<P> buffers_;
  AdamMoments<P> moments_;
  P scale_, wd_;
};

/// LAMB's update: a step in proportion to each tensor's norm.
template <class P>
class Rule<LambSettings, P> {
 public:
  NORMLAB_HOST_DEVICE Rule(const LambSettings& s, const UpdateFactors& factors, const StepState& state,
                           const UpdateBuffers<P>& buffers)
      : moments_(s, factors, state, buffers), rate_(P(state.lr * factors.lr * *s.trust_ratio)) {}
  NORMLAB_HOST_DEVICE void operator()(std::int64_t i) const { moments_.parameter(i) -= rate_ * moments_.direction(i); }

 private:
  LambMoments<P> moments_;
  P rate_;
};

/// Muon's direction before orthogonalisation, and its step along X. Computing the direction updates the moment.
template <class P>
class MuonDirection {
 public:
  NORMLAB_HOST_DEVICE MuonDirection(const MuonSettings& s, const StepState& state, const UpdateBuffers<P>& buffers)
      : buffers_(buffers),
        clip_(P(state.clip_factor)),
        momentum_(P(s.momentum)),
        new_(P(1 - s.momentum)),
        nesterov_(s.nesterov) {}
  NORMLAB_HOST_DEVICE P operator()(std::int64_t i) const {
    const P grad = buffers_.gradient[i] * clip_;
    buffers_.m[i] = momentum_ * buffers_.m[i] + new_ * grad;
    return nesterov_ ? new_ * grad + momentum_ * buffers_.m[i] : buffers_.m[i];
  }

 private:
  UpdateBuffers<P> buffers_;
  P clip_, momentum_, new_;
  bool nesterov_;
};
template <class P>
class MuonStep {
 public:
  NORMLAB_HOST_DEVICE MuonStep(const MuonSettings& s, std::int64_t rows, std::int64_t cols,
                               const UpdateFactors& factors, const StepState& state)
      : shrink_(P(1 - state.lr * factors.lr * (s.weight_decay * factors.weight_decay))),
        rate_(P(state.lr * factors.lr * scale(s.scale, double(rows), double(cols)))) {}
  NORMLAB_HOST_DEVICE P operator()(P p, bool decays, P x) const { return (decays ? p * shrink_ : p) - rate_ * x; }

 private:
  NORMLAB_HOST_DEVICE static double scale(MuonScale convention, double rows, double cols) {
    if (convention == MuonScale::match_rms_adamw) return 0.2 * std::sqrt(rows > cols ? rows : cols);
    return rows > cols ? std::sqrt(rows / cols) : 1.0;
  }
  P shrink_, rate_;
};

/// A moment of Big Vision's optimisers (its optax.py), possibly stored in bf16.
template <class P, class M, bool kRounded>
class StoredMoment {
 public:
  NORMLAB_HOST_DEVICE StoredMoment(double beta, MomentProduct product)
      : beta_(std::is_same_v<M, bf16> && product != MomentProduct::wide ? P(float(bf16(beta))) : P(beta)) {}
  NORMLAB_HOST_DEVICE P decayed(M moment) const {
    const P product = beta_ * P(moment);
    if constexpr (kRounded)
      return P(float(bf16(product)));
    else
      return product;
  }

 private:
  P beta_;
};

/// Adam as in Big Vision: the decay is multiplied by the schedule, not by the peak rate.
template <class P, class M, bool kRounded>
class Rule<BigVisionAdamSettings, P, M, kRounded> {
 public:
  NORMLAB_HOST_DEVICE Rule(const BigVisionAdamSettings& s, const UpdateFactors& factors, const StepState& state,
                           const UpdateBuffers<P, M>& buffers)
      : buffers_(buffers),
        stored_(s.beta1, s.product),
        clip_(P(state.clip_factor)),
        b2_(P(s.beta2)),
        new1_(P(1 - s.beta1)),
        new2_(P(1 - s.beta2)),
        eps_(P(s.eps)),
        rate_(P(state.lr * factors.lr / state.bias_correction1)),
        shrink_(P(state.schedule * (s.weight_decay * factors.weight_decay))),
        inverse_root_(P(1 / std::sqrt(state.bias_correction2))) {}
  NORMLAB_HOST_DEVICE void operator()(std::int64_t i) const {
    const P grad = buffers_.gradient[i] * clip_;
    const P mean = new1_ * grad + stored_.decayed(buffers_.m[i]);
    buffers_.v[i] = b2_ * buffers_.v[i] + new2_ * grad * grad;
    buffers_.m[i] = M(mean);
    const P update = rate_ * mean / (std::sqrt(buffers_.v[i]) * inverse_root_ + eps_);
    buffers_.p[i] -= update + (buffers_.decays[i] ? shrink_ * buffers_.p[i] : P(0));
  }

 private:
  UpdateBuffers<P, M> buffers_;
  StoredMoment<P, M, kRounded> stored_;
  P clip_, b2_, new1_, new2_, eps_, rate_, shrink_, inverse_root_;
};

/// Momentum as in Big Vision.
template <class P, class M, bool kRounded>
class Rule<MomentumSettings, P, M, kRounded> {
 public:
  NORMLAB_HOST_DEVICE Rule(const MomentumSettings& s, const UpdateFactors& factors, const StepState& state,
                           const UpdateBuffers<P, M>& buffers)
      : buffers_(buffers),
        stored_(s.momentum, s.product),
        clip_(P(state.clip_factor)),
        lr_(P(state.lr * factors.lr)),
        ahead_(s.nesterov ? P(s.momentum) : P(1)),
        now_(s.nesterov ? P(1) : P(0)),
        shrink_(P(state.schedule * (s.weight_decay * factors.weight_decay))) {}
  NORMLAB_HOST_DEVICE void operator()(std::int64_t i) const {
    const P grad = buffers_.gradient[i] * clip_;
    const P sum = grad + stored_.decayed(buffers_.m[i]);
    buffers_.m[i] = M(sum);
    buffers_.p[i] -= lr_ * (now_ * grad + ahead_ * sum) + (buffers_.decays[i] ? shrink_ * buffers_.p[i] : P(0));
  }

 private:
  UpdateBuffers<P, M> buffers_;
  StoredMoment<P, M, kRounded> stored_;
  P clip_, lr_, ahead_, now_, shrink_;
};

/// Calls f(Type<R>{}, settings, buffers) with the Rule R for these settings and types.
template <class F>
void for_rule(const UpdateRule& rule, const ParameterUpdate& u, F&& f) {
  const auto with = [&](const auto& settings, auto parameter, auto moment, auto rounded) {
    using P = typename decltype(parameter)::type;
    using M = typename decltype(moment)::type;
    f(Type<Rule<std::decay_t<decltype(settings)>, P, M, rounded.value>>{}, settings, buffers_of<P, M>(u));
  };
  for_param_type("update", u.p.dtype(), [&](auto type) {
    const auto of_type = [&](const auto& settings) {
      if constexpr (requires { settings.product; }) {
        if (u.m.dtype() != DType::bf16) return with(settings, type, type, std::false_type{});
        if (settings.product == MomentProduct::rounded) return with(settings, type, Type<bf16>{}, std::true_type{});
        return with(settings, type, Type<bf16>{}, std::false_type{});
      } else {
        with(settings, type, type, std::false_type{});
      }
    };
    std::visit(of_type, rule.settings);
  });
}

/// Sets the factor on gradients from the clip form and state->clip_norm, and whether the update is skipped.
NORMLAB_HOST_DEVICE inline void set_clipping(ClipForm form, double square, StepState* state) {
  const double norm = std::sqrt(square), limit = state->clip_norm;
  state->grad_norm = norm;
  state->nonfinite = !(norm - norm == 0);  // NaN and infinity minus themselves are not 0
  state->clip_factor = 1.0;
  if (limit <= 0) return;
  if (form == ClipForm::optax)
    state->clip_factor = norm < limit ? 1.0 : limit / norm;
  else if (limit < norm + 1e-6)
    state->clip_factor = limit / (norm + 1e-6);
}

/// LAMB's ratio |p| / |r|; 1 if either is zero.
NORMLAB_HOST_DEVICE inline double trust_ratio(const LambSquares& sum) {
  return sum.parameters > 0 && sum.direction > 0 ? std::sqrt(sum.parameters / sum.direction) : 1.0;
}

}  // namespace normlab
