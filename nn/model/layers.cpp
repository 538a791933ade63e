#include "nn/model/layers.h"

#include <charconv>

#include "core/backend.h"
#include "core/formula/program.h"
#include "nn/model/norm_formula.h"

namespace normlab {

Linear::Linear(ParameterSet& parameters, const Place& place, Role role, std::int64_t in, std::int64_t out,
               bool has_bias)
    : name_(concat(place.prefix(), row_of(role).path)), in_(in), out_(out) {
  ParameterUse use{.role = role, .place = place, .decays = true, .fan_in = in};
  weight_ = parameters.add(name_ + ".weight", {out, in}, use);
  use.decays = false;
  if (has_bias) bias_ = parameters.add(name_ + ".bias", {out}, use);
}

Var Linear::operator()(const Activation& x, const Shard& shard) const {
  shard.tape.at(name_.c_str());
  return linear(x, shard.weight(weight_), bias(shard));
}

Var Linear::added_to(const Var& residual, const Activation& x, const Shard& shard) const {
  shard.tape.at(name_.c_str());
  return linear_add(x, shard.weight(weight_), bias(shard), residual);
}

Var Linear::with_gelu(const Var& x, GeluForm form, const Shard& shard) const {
  shard.tape.at(name_.c_str());
  return linear_gelu(x, shard.weight(weight_), bias(shard), form);
}

Activation Linear::activation(const Var& x, GeluForm form, const Shard& shard) const {
  shard.tape.at(name_.c_str());
  return {x, shard.weight(weight_), bias(shard), form};
}

void Linear::prepare(Backend& backend, std::int64_t rows, DType dtype) const {
  if (weight_ >= 0) backend.prepare_linear({rows, in_, out_}, dtype, bias_ >= 0);
}

QkvLinear::QkvLinear(ParameterSet& parameters, const Place& place, std::int64_t width, bool has_bias)
    : together_name_(place.prefix() + "attn.qkv"), pair_name_(place.prefix() + "attn.kv"), width_(width) {
  constexpr Role kRoles[] = {Role::q, Role::k, Role::v};
  const auto add = [&](const char* last, const Shape& shape, bool decays) {
    int number = -1;
    for (std::size_t i = 0; i < 3; ++i) {
      names_[i] = concat(place.prefix(), row_of(kRoles[i]).path);
      number = parameters.add(names_[i] + last, shape,
                              {.role = kRoles[i], .place = place, .decays = decays, .fan_in = width, .stacked = i > 0});
    }
    return number - 2;
  };
  weight_ = add(".weight", {width, width}, true);
  if (has_bias) bias_ = add(".bias", {width}, false);
}

Var QkvLinear::operator()(int first, int count, const Var& x, const Shard& shard) const {
  const std::string& name = count == 3 ? together_name_ : count == 2 ? pair_name_ : names_[std::size_t(first)];
  shard.tape.at(name.c_str());
  return linear(x, shard.weight(weight_ + first, count), bias_ < 0 ? Var() : shard.bias(bias_ + first, count));
}

void QkvLinear::prepare(Backend& backend, std::int64_t rows, DType dtype) const {
  for (const std::int64_t out : {width_, 2 * width_, 3 * width_})
    backend.prepare_linear({rows, width_, out}, dtype, bias_ >= 0);
}

namespace {

/// [1], in the type of sums over x.
Tensor progress_of(const Var& x, const Shard& shard) {
  const Tensor progress = shard.tape.empty_acc(x.value(), {1});
  if (shard.step.training && shard.step.state)  // a recorded step reads that of its turn
    shard.tape.backend().put_progress(shard.step.state, progress);
  else
    shard.tape.backend().fill(progress, shard.step.progress);
  return progress;
}

/// l x + (1 - l) g, where l falls from 1 to 0 in this share of the training.
std::string falling_mix(double share) {
  char digits[32];
  const std::string_view text(digits, std::to_chars(digits, digits + sizeof digits, share).ptr);
  return concat("max(1 - progress / ", text, ", 0) * x + min(progress / ", text, ", 1) * g");
}

}  // namespace

Norm::Norm(ParameterSet& parameters, const Place& place, const SiteRow& row, const Placement& placement,
           const BlockSizes& sizes) {
  name_ = concat(place.prefix(), row.path);
  spec_ = norm_at(placement, row, place.layer - 1);
  const NormParts& parts = parts_of(spec_.kind);
  width_ = width_of(row, placement, sizes);
  per_head_ = sees_one_head(row, placement);
  const auto add = [&](const char* last, const Shape& shape, double start, bool fixed = false, bool decays = false) {
    return parameters.add(
        name_ + last, shape,
        {.role = Role::norm, .place = place, .site = &row, .decays = decays, .start = start, .fixed = fixed});
  };
  const double alpha = setting(spec_, &NormSpec::alpha_init);
  if (parts.learns.alpha != Alpha::none)
    alpha_ = add(".alpha", {parts.learns.alpha == Alpha::one ? 1 : width_},
                 alpha == 0 && applies(spec_, PointwisePhi::dyisru) ? double(width_) : alpha);
  if (has_shift(spec_)) shift_ = add(".shift", {1}, 0.0);
  if (parts.learns.gamma) gamma_ = add(".gamma", {width_}, setting(spec_, &NormSpec::gamma_init));
  if (parts.learns.beta) beta_ = add(".beta", {width_}, setting(spec_, &NormSpec::beta_init));
  if (parts.op == NormOp::gated_norm) {
    const auto matrix = [&](const char* last, std::int64_t out, std::int64_t in) {
      return parameters.add(name_ + last, {out, in},
                            {.role = Role::norm, .place = place, .site = &row, .decays = true, .fan_in = in});
    };
    down_ = matrix(".down", spec_.rank, width_);
    up_ = matrix(".up", width_, spec_.rank);
    hidden_ = Elementwise(rows_formula("silu(x)"), name_, spec_.rank, sizes, place.layer);
    mixed_ = Elementwise(rows_formula("x * sigmoid(g)"), name_, width_, sizes, place.layer);
  }
  if (parts.op == NormOp::prep_bn) {
    eta_ = add(".eta", {1}, 1.0);
    row_gamma_ = add(".row_gamma", {width_}, 1.0);
    row_beta_ = add(".row_beta", {width_}, 0.0);
    mixed_ = Elementwise(rows_formula(falling_mix(spec_.decay_share)), name_, width_, sizes, place.layer);
  }
  const bool scaled = row.is(&AttentionSites::pre) || row.is(&MlpSites::pre);
  if (scaled && !is_identity()) factor_ = Factor(parameters, depth_scale(placement, place.layer));
  if (parts.op == NormOp::product) {
    weight_ = add(".weight", {width_, width_}, 0.0, true);
    bias_ = add(".bias", {width_}, 0.0, true);
  }
  if (spec_.formula) {
    const formula::Site at = formula_site(*spec_.formula, spec_.eps, width_, sizes, place.layer);
    const std::vector<formula::Parameter> named = spec_.formula->parameters_at(at);
    for (std::size_t p = 0; p < named.size(); ++p) {
      const bool is_own = named[p].learned && named[p].name != kProgress;
      parameters_.push_back(is_own ? add(("." + named[p].name).c_str(), {named[p].per_channel ? width_ : 1},
                                         named[p].value, false, spec_.formula->parameters[p].decay)
                                   : -1);
    }
    formula_ = std::make_shared<formula::Programs>(spec_.formula->tree, at, named);
  }
  if (parts.over == Statistics::batch) {
    running_mean_ = parameters.add_buffer(name_ + ".running_mean", place, width_, kInitialMean);
    running_var_ = parameters.add_buffer(name_ + ".running_var", place, width_, kInitialVariance);
  }
}

Elementwise::Elementwise(const NormFormula* formula, std::string name, std::int64_t width, const BlockSizes& sizes,
                         std::int64_t layer, const char* op)
    : name_(std::move(name)), op_(op) {
  if (formula == nullptr) return;
  const formula::Site at = formula_site(*formula, formula::Site{}.eps, width, sizes, layer);
  programs_ = std::make_shared<formula::Programs>(formula->tree, at, formula->parameters_at(at));
}

Var Elementwise::operator()(const Var& x, const Var& gate, const Shard& shard) const {
  shard.tape.at(name_.c_str());
  return elementwise(*programs_, x, gate, programs_->parameters.empty() ? Tensor() : progress_of(x, shard), op_);
}

ResidualStreams::ResidualStreams(ParameterSet& parameters, const Place& end, const Placement& placement,
                                 const BlockSizes& sizes)
    : x_(parameters, end, kStreamSites[2], placement, sizes), y_(parameters, end, kStreamSites[3], placement, sizes) {}

Var ResidualStreams::begin(const Var& tokens) const {
  return x_.is_identity() ? tokens : concat_tokens(tokens, tokens);
}

Var ResidualStreams::end(const Var& both, const Shard& shard) const {
  return x_.is_identity() ? both : add(x_(one(both, 0), shard), y_(one(both, 1), shard));
}

Var ResidualStreams::one(const Var& both, int which) {
  const std::int64_t tokens = both.shape()[1] / 2;
  return reshape(select_tokens(both, which * tokens, tokens), {both.shape()[0], tokens, both.shape()[2]});
}

Var Norm::operator()(const Var& x, const Shard& shard) const {
  if (is_identity()) return x;  // the next operation still belongs to the previous place
  shard.tape.at(name_.c_str());
  Var gamma = gamma_ < 0 ? Var() : shard.parameter(gamma_), beta = beta_ < 0 ? Var() : shard.parameter(beta_);
  // Gain and bias are smaller than the result. A gain per channel in alpha is a third thing that it is linear in, and a
  // norm of several operations is not gain and bias alone.
  const NormParts& parts = parts_of(spec_.kind);
  const bool after = gamma_ < 0 || parts.learns.alpha == Alpha::channels || parts.inner > 0;
  if (!after && !factor_.is_identity()) {
    gamma = factor_(gamma, shard);
    if (beta) beta = factor_(beta, shard);
  }
  const Var y = normed(x, gamma, beta, shard);
  const Var none;
  shard.show(&Observers::norm, name_, [&] {
    return parts.inner > 0 ? NormSeen{x, y, none, none} : NormSeen{x, y, gamma, beta};
  });
  return after ? factor_(y, shard) : y;
}

Var Norm::normed(const Var& x, const Var& gamma, const Var& beta, const Shard& shard) const {
  const Var alpha = alpha_ < 0 ? Var() : shard.parameter(alpha_), shift = shift_ < 0 ? Var() : shard.parameter(shift_);
  switch (parts_of(spec_.kind).op) {
    case NormOp::identity:
      break;
    case NormOp::layer_norm:
      return layer_norm(x, gamma, beta, spec_.eps);
    case NormOp::rms_norm:
      return rms_norm(x, gamma, spec_.eps);
    case NormOp::affine:
      return affine(x, gamma, beta);
    case NormOp::pointwise:
      return pointwise_norm(setting(spec_, &NormSpec::phi), x, alpha, shift, gamma, beta);
    case NormOp::seednorm:
      return seednorm(x, alpha, beta, gamma, spec_.eps);
    case NormOp::bhyt:
      return bhyt(x, alpha, gamma, spec_.kappa, spec_.eps);
    case NormOp::l2:
      return l2_norm(x, gamma, spec_.eps);
    case NormOp::product:
      return linear(x, shard.weight(weight_), shard.bias(bias_));
    case NormOp::formula: {
      std::array<Var, kMostFormulaParameters> values;
      for (std::size_t p = 0; p < parameters_.size(); ++p)
        if (parameters_[p] >= 0)
          values[p] = shard.parameter(parameters_[p]);
        else if (formula_->parameters[p].name == kProgress)
          values[p] = shard.tape.input(progress_of(x, shard));
      return formula_norm(*formula_, x, shard.slice.images, std::span(values).first(parameters_.size()));
    }
    case NormOp::group_norm: {  // windows are parts of an image
      const Shape shape = x.shape();
      const std::int64_t images = shard.slice.images, groups = setting(spec_, &NormSpec::groups);
      const Var by_image = reshape(x, {images, shape.rows() / images, shape.back()});
      return reshape(group_norm(by_image, gamma, beta, groups > 0 ? groups : width_, spec_.eps), shape);
    }
    case NormOp::batch_norm:
      return batch_normed(x, gamma, beta, shard);
    case NormOp::gated_norm: {
      const Var y = rms_norm(x, gamma, spec_.eps), down = linear(y, shard.weight(down_), Var());
      const Var up = linear(hidden_(down, Var(), shard), shard.weight(up_), Var()), out = mixed_(y, up, shard);
      shard.done_with(y, out);
      return out;
    }
    case NormOp::prep_bn: {
      const Var normed = batch_normed(x, gamma, beta, shard), batch = add(normed, scale(x, shard.parameter(eta_)));
      shard.done_with(normed, batch);
      if (!takes_batch_statistics(shard)) return batch;
      const Var row = layer_norm(x, shard.parameter(row_gamma_), shard.parameter(row_beta_), spec_.eps);
      const Var out = mixed_(row, batch, shard);
      shard.done_with(row, out);
      return out;
    }
  }
  return x;
}

bool Norm::takes_batch_statistics(const Shard& shard) const {
  return shard.step.training && !shard.step.parameters.is_frozen(gamma_);
}

Var Norm::batch_normed(const Var& x, const Var& gamma, const Var& beta, const Shard& shard) const {
  const ParameterSet& parameters = shard.step.parameters;
  const Tensor mean = parameters.buffer(running_mean_), var = parameters.buffer(running_var_);
  if (!takes_batch_statistics(shard)) return batch_norm_frozen(x, gamma, beta, mean, var, spec_.eps);
  const bool moves = spec_.running != RunningFrom::first_group_of_step || shard.step.part_begin == 0;
  return batch_norm(x, gamma, beta, mean, var, shard.slice,
                    {.eps = spec_.eps,
                     .momentum = moves ? spec_.momentum : 0,
                     .statistics_batch = spec_.statistics_batch,
                     .step_images = spec_.running == RunningFrom::all_groups ? shard.step_images() : 0,
                     .part_begin = shard.step.part_begin});
}

Var Norm::of_heads(const Var& x, std::int64_t heads, const Shard& shard) const {
  if (!per_head_) return (*this)(x, shard);
  const Shape& s = x.shape();
  return reshape((*this)(reshape(x, {s[0], s[1] * heads, s[2] / heads}), shard), s);
}

}  // namespace normlab
