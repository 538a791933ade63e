#include "nn/layers.h"

namespace normlab {

Linear::Linear(ParameterSet& parameters, std::string name, std::int64_t in, std::int64_t out, bool has_bias)
    : name_(std::move(name)), in_(in), out_(out), weight_(parameters.add(name_ + ".weight", {out, in})) {
  if (has_bias) bias_ = parameters.add(name_ + ".bias", {out});
}

Var Linear::with_gelu(const Var& x, GeluForm form, const Context& ctx) const {
  ctx.tape.at(name_.c_str());
  return linear_gelu(x, ctx.weight(weight_), bias(ctx), form);
}

Activation Linear::activation(const Var& x, GeluForm form, const Context& ctx) const {
  ctx.tape.at(name_.c_str());
  return {x, ctx.weight(weight_), bias(ctx), form};
}

void Linear::prepare(Backend& backend, std::int64_t rows, DType dtype) const {
  if (weight_ >= 0) backend.prepare_linear({rows, in_, out_}, dtype, bias_ >= 0);
}

QkvLinear::QkvLinear(ParameterSet& parameters, const std::string& name, std::int64_t width, bool has_bias)
    : names_{name + ".q", name + ".k", name + ".v"}, together_name_(name + ".qkv"), width_(width) {
  const auto ending = [&](const char* last) {
    return std::vector<std::string>{names_[0] + last, names_[1] + last, names_[2] + last};
  };
  weights_ = parameters.add_stacked(ending(".weight"), {width, width});
  if (has_bias) biases_ = parameters.add_stacked(ending(".bias"), {width});
}

Var QkvLinear::together(const Var& x, const Context& ctx) const {
  ctx.tape.at(together_name_.c_str());
  return linear(x, ctx.stacked_weight(weights_), biases_.empty() ? Var() : ctx.stacked_bias(biases_));
}

Var QkvLinear::one(int which, const Var& x, const Context& ctx) const {
  const auto at = static_cast<std::size_t>(which);
  ctx.tape.at(names_[at].c_str());
  return linear(x, ctx.weight(weights_[at]), biases_.empty() ? Var() : ctx.bias(biases_[at]));
}

void QkvLinear::prepare(Backend& backend, std::int64_t rows, DType dtype) const {
  for (const std::int64_t out : {width_, 3 * width_})
    backend.prepare_linear({rows, width_, out}, dtype, !biases_.empty());
}

Norm::Norm(ParameterSet& parameters, std::string site, const NormSpec& spec, std::int64_t width)
    : site_(std::move(site)), spec_(spec) {
  const NormParts& parts = parts_of(spec.kind);
  if (parts.alpha) alpha_ = parameters.add(site_ + ".alpha", {1});
  if (parts.gamma) gamma_ = parameters.add(site_ + ".gamma", {width});
  if (parts.beta) beta_ = parameters.add(site_ + ".beta", {width});
  if (parts.running) {
    running_mean_ = parameters.add_buffer(site_ + ".running_mean", width, 0.0);
    running_var_ = parameters.add_buffer(site_ + ".running_var", width, 1.0);
  }
}

Var Norm::operator()(const Var& x, const Context& ctx) const {
  if (is_identity()) return x;  // what comes next is still at the place before
  const auto p = [&](int id) { return ctx.parameter(id); };
  ctx.tape.at(site_.c_str());
  switch (spec_.kind) {
    case NormKind::none:
      return x;
    case NormKind::layer_norm:
      return layer_norm(x, p(gamma_), p(beta_), spec_.eps);
    case NormKind::layer_norm_fixed:
      return layer_norm(x, Var(), Var(), spec_.eps);
    case NormKind::affine:
      return affine(x, p(gamma_), p(beta_));
    case NormKind::rms_norm:
      return rms_norm(x, p(gamma_), spec_.eps);
    case NormKind::dyt:
      return dyt(x, p(alpha_), p(gamma_), p(beta_));
    case NormKind::batch_norm: {
      const Tensor mean = ctx.parameters.buffer(running_mean_), var = ctx.parameters.buffer(running_var_);
      if (!ctx.training) return batch_norm_frozen(x, p(gamma_), p(beta_), mean, var, spec_.eps);
      return batch_norm(x, p(gamma_), p(beta_), mean, var, ctx.slice,
                        {spec_.eps, spec_.momentum, spec_.statistics_batch});
    }
  }
  return x;
}

Var Norm::operator()(Stream& x, const Context& ctx) const {
  if (x.made() || is_identity()) return (*this)(x.value(), ctx);
  const auto p = [&](int id) { return ctx.parameter(id); };
  ctx.tape.at(site_.c_str());
  switch (spec_.kind) {
    case NormKind::layer_norm:
      return x.normed([&](const ResidualSum& s) { return layer_norm(s, p(gamma_), p(beta_), spec_.eps); });
    case NormKind::layer_norm_fixed:
      return x.normed([&](const ResidualSum& s) { return layer_norm(s, Var(), Var(), spec_.eps); });
    case NormKind::rms_norm:
      return x.normed([&](const ResidualSum& s) { return rms_norm(s, p(gamma_), spec_.eps); });
    default:
      return (*this)(x.value(), ctx);
  }
}

Var Norm::per_head(const Var& x, std::int64_t heads, const Context& ctx) const {
  if (is_identity()) return x;
  const Shape& s = x.shape();
  return reshape((*this)(reshape(x, {s[0], s[1] * heads, s[2] / heads}), ctx), s);
}

}  // namespace normlab
