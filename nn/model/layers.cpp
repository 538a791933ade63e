#include "nn/model/layers.h"

#include "core/backend.h"

namespace normlab {

Linear::Linear(ParameterSet& parameters, const Place& place, Role role, std::int64_t in, std::int64_t out,
               bool has_bias)
    : name_(concat(place.prefix(), row_of(role).path)), in_(in), out_(out) {
  ParameterUse use{.role = role, .place = place, .decays = true, .fan_in = in};
  weight_ = parameters.add(name_ + ".weight", {out, in}, use);
  use.decays = false;
  if (has_bias) bias_ = parameters.add(name_ + ".bias", {out}, use);
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

QkvLinear::QkvLinear(ParameterSet& parameters, const Place& place, std::int64_t width, bool has_bias)
    : together_name_(place.prefix() + "attn.qkv"), pair_name_(place.prefix() + "attn.kv"), width_(width) {
  constexpr Role kRoles[] = {Role::q, Role::k, Role::v};
  const auto add = [&](const char* last, const Shape& shape, bool decays) {
    std::vector<int> numbers;
    for (std::size_t i = 0; i < 3; ++i) {
      names_[i] = concat(place.prefix(), row_of(kRoles[i]).path);
      numbers.push_back(
          parameters.add(names_[i] + last, shape,
                         {.role = kRoles[i], .place = place, .decays = decays, .fan_in = width, .stacked = i > 0}));
    }
    return numbers;
  };
  weights_ = add(".weight", {width, width}, true);
  if (has_bias) biases_ = add(".bias", {width}, false);
}

Var QkvLinear::stacked(const std::string& name, std::size_t from, const Var& x, const Context& ctx) const {
  ctx.tape.at(name.c_str());
  const auto of = [from](const std::vector<int>& numbers) { return std::span(numbers).subspan(from); };
  return linear(x, ctx.stacked_weight(of(weights_)), biases_.empty() ? Var() : ctx.stacked_bias(of(biases_)));
}
Var QkvLinear::together(const Var& x, const Context& ctx) const { return stacked(together_name_, 0, x, ctx); }
Var QkvLinear::keys_and_values(const Var& x, const Context& ctx) const { return stacked(pair_name_, 1, x, ctx); }

Var QkvLinear::one(int which, const Var& x, const Context& ctx) const {
  const auto at = static_cast<std::size_t>(which);
  ctx.tape.at(names_[at].c_str());
  return linear(x, ctx.weight(weights_[at]), biases_.empty() ? Var() : ctx.bias(biases_[at]));
}

void QkvLinear::prepare(Backend& backend, std::int64_t rows, DType dtype) const {
  for (const std::int64_t out : {width_, 2 * width_, 3 * width_})
    backend.prepare_linear({rows, width_, out}, dtype, !biases_.empty());
}

Norm::Norm(ParameterSet& parameters, const Place& place, const SiteRow& row, const Placement& placement,
           const BlockSizes& sizes) {
  name_ = concat(place.prefix(), row.path);
  spec_ = norm_at(placement, row, place.layer - 1);
  const NormParts& parts = parts_of(spec_.kind);
  const std::int64_t width = width_of(row, placement, sizes);
  per_head_ = sees_one_head(row, placement);
  const auto add = [&](const char* last, std::int64_t values, double start) {
    return parameters.add(name_ + last, {values}, {.role = Role::norm, .place = place, .site = &row, .start = start});
  };
  if (spec_.kind == NormKind::instance_norm) spec_.groups = width;
  const bool of_width = spec_.kind == NormKind::dyisru && spec_.alpha_init == 0;
  if (parts.alpha)
    alpha_ = add(".alpha", spec_.kind == NormKind::seednorm ? width : 1, of_width ? double(width) : spec_.alpha_init);
  if (spec_.kind == NormKind::derf || (spec_.kind == NormKind::pointwise && spec_.shift))
    shift_ = add(".shift", 1, 0.0);
  if (parts.gamma) gamma_ = add(".gamma", width, spec_.gamma_init);
  if (parts.beta) beta_ = add(".beta", width, parts.has(&NormSpec::beta_init) ? spec_.beta_init : 0.0);
  const bool scaled = row.is(&AttentionSites::pre) || row.is(&MlpSites::pre);
  if (scaled && !is_identity()) factor_ = Factor(parameters, depth_scale(placement, place.layer));
  if (spec_.kind == NormKind::whiten) {
    const auto fixed = [&](const char* last, const Shape& shape) {
      return parameters.add(name_ + last, shape,
                            {.role = Role::norm, .place = place, .site = &row, .start = 0.0, .fixed = true});
    };
    weight_ = fixed(".weight", {width, width});
    bias_ = fixed(".bias", {width});
  }
  if (parts.statistics == Statistics::batch) {
    running_mean_ = parameters.add_buffer(name_ + ".running_mean", place, width, kInitialMean);
    running_var_ = parameters.add_buffer(name_ + ".running_var", place, width, kInitialVariance);
  }
}

ResidualStreams::ResidualStreams(ParameterSet& parameters, const Place& end, const Placement& placement,
                                 const BlockSizes& sizes)
    : x_(parameters, end, kStreamSites[2], placement, sizes), y_(parameters, end, kStreamSites[3], placement, sizes) {}

Var ResidualStreams::begin(const Var& tokens) const {
  return x_.is_identity() ? tokens : concat_tokens(tokens, tokens);
}

Var ResidualStreams::end(const Var& both, const Context& ctx) const {
  return x_.is_identity() ? both : add(x_(one(both, 0), ctx), y_(one(both, 1), ctx));
}

Var ResidualStreams::one(const Var& both, int which) {
  const std::int64_t tokens = both.shape()[1] / 2;
  return reshape(select_tokens(both, which * tokens, tokens), {both.shape()[0], tokens, both.shape()[2]});
}

PointwisePhi Norm::phi() const {
  switch (spec_.kind) {
    case NormKind::derf:
      return PointwisePhi::erf;
    case NormKind::dyisru:
      return PointwisePhi::dyisru;
    default:
      return spec_.phi;
  }
}

Var Norm::operator()(const Var& x, const Context& ctx) const {
  if (is_identity()) return x;  // the next operation still belongs to the previous place
  ctx.tape.at(name_.c_str());
  Var gamma = gamma_ < 0 ? Var() : ctx.parameter(gamma_), beta = beta_ < 0 ? Var() : ctx.parameter(beta_);
  // Gain and bias are smaller than the result, but those of seednorm are not all that its result is linear in.
  const bool after = gamma_ < 0 || spec_.kind == NormKind::seednorm;
  if (!after && !factor_.is_identity()) {
    gamma = factor_(gamma, ctx);
    if (beta) beta = factor_(beta, ctx);
  }
  Var y = normed(x, gamma, beta, ctx);
  if (ctx.observers.norm) ctx.observers.norm(name_, {x, y, gamma, beta});
  return after ? factor_(y, ctx) : y;
}

Var Norm::normed(const Var& x, const Var& gamma, const Var& beta, const Context& ctx) const {
  const auto p = [&](int id) { return id < 0 ? Var() : ctx.parameter(id); };
  switch (spec_.kind) {
    case NormKind::none:
      break;
    case NormKind::layer_norm:
    case NormKind::layer_norm_fixed:
      return layer_norm(x, gamma, beta, spec_.eps);
    case NormKind::rms_norm:
      return rms_norm(x, gamma, spec_.eps);
    case NormKind::affine:
      return affine(x, gamma, beta);
    case NormKind::dyt:
    case NormKind::derf:
    case NormKind::dyisru:
    case NormKind::pointwise:
      return pointwise_norm(phi(), x, p(alpha_), p(shift_), gamma, beta);
    case NormKind::seednorm:
      return seednorm(x, p(alpha_), beta, gamma, spec_.eps);
    case NormKind::bhyt:
      return bhyt(x, p(alpha_), gamma, spec_.kappa, spec_.eps);
    case NormKind::l2:
      return l2_norm(x, gamma, spec_.eps);
    case NormKind::whiten:
      return linear(x, ctx.weight(weight_), ctx.bias(bias_));
    case NormKind::instance_norm:
    case NormKind::group_norm: {  // windows are parts of an image
      const Shape shape = x.shape();
      const std::int64_t images = ctx.slice.images;
      const Var of_images = reshape(x, {images, shape.rows() / images, shape.back()});
      return reshape(group_norm(of_images, gamma, beta, spec_.groups, spec_.eps), shape);
    }
    case NormKind::batch_norm: {
      const Tensor mean = ctx.parameters.buffer(running_mean_), var = ctx.parameters.buffer(running_var_);
      if (!ctx.training || ctx.parameters.is_frozen(gamma_))
        return batch_norm_frozen(x, gamma, beta, mean, var, spec_.eps);
      const bool by_all = spec_.running == RunningFrom::all_groups;
      const std::int64_t step_images = ctx.step_images > 0 ? ctx.step_images : ctx.slice.batch;
      return batch_norm(x, gamma, beta, mean, var, ctx.slice,
                        {spec_.eps, spec_.momentum, spec_.statistics_batch, by_all ? step_images : 0, ctx.part_begin});
    }
  }
  return x;
}

Var Norm::of_heads(const Var& x, std::int64_t heads, const Context& ctx) const {
  if (!per_head_) return (*this)(x, ctx);
  const Shape& s = x.shape();
  return reshape((*this)(reshape(x, {s[0], s[1] * heads, s[2] / heads}), ctx), s);
}

}  // namespace normlab
