#include "nn/model/residual.h"

#include <cmath>

#include "core/backend.h"

namespace normlab {

BranchInput::BranchInput(ParameterSet& p, const BranchConfig& c, bool attention)
    : input_(p, c.place, kStreamSites[attention ? 0 : 1], c.placement, c.sizes),
      pre_(attention ? c.norm(p, &AttentionSites::pre) : c.norm(p, &MlpSites::pre)) {}

Var BranchInput::operator()(const Var& x, const Shard& shard) const {
  if (input_.is_identity()) return pre_(x, shard);
  return input_(add(ResidualStreams::one(x, 0), pre_(ResidualStreams::one(x, 1), shard)), shard);
}

Residual::Residual(ParameterSet& p, const BranchConfig& c, std::int64_t width, const std::optional<Windows>& windows,
                   bool attention)
    : dropout_(attention ? c.dropout.attn : c.dropout.mlp),
      drop_path_(c.drop_path),
      // Batch norm needs all images.
      short_forms_(c.short_forms && !uses_batch_norm(c.placement)),
      two_streams_(c.placement.has_two_streams()),
      name_(c.place.prefix() + std::string(c.place.branch)),
      path_name_(name_ + "_path"),
      residual_factor_(p, residual_factor(c.placement.residual_factor, c.depth)) {
  const Place& place = c.place;
  if (windows && !windows->whole()) windows_ = windows;
  if (two_streams_) to_x_ = Factor(p, 1 / std::sqrt(2 * double(place.layer)));
  last_ = Linear(p, place, attention ? Role::proj : Role::fc2, width, c.sizes.embed_dim);
  if (attention && c.placement.head_scale == HeadScale::after_proj)
    head_scale_ = Gain(p, place, "attn.head_scale", c.sizes.num_heads);
  out_ = attention ? c.norm(p, &AttentionSites::out) : c.norm(p, &MlpSites::out);
  const LayerScaleKind kind = c.placement.layer_scale.kind;
  if (kind != LayerScaleKind::none)
    layer_scale_ = Gain(p, place, concat(place.branch, ".layer_scale"),
                        kind == LayerScaleKind::channel ? c.sizes.embed_dim : 1, Role::layer_scale);
  if (!attention && c.placement.residual_scale)
    residual_scale_ = Gain(p, place, "mlp.residual_scale", c.sizes.embed_dim);
  post_ = attention ? c.norm(p, &AttentionSites::post) : c.norm(p, &MlpSites::post);
}

bool Residual::adds_in_product(const Shard& shard) const {
  return head_scale_.is_identity() && !windows_ && out_.is_identity() && !shard.step.drops(dropout_) &&
         layer_scale_.is_identity() && !shard.step.drops(drop_path_) && !two_streams_;
}

Var Residual::shortcut(const Var& x, const Shard& shard, Tokens tokens) const {
  return residual_factor_(residual_scale_(continuing(x, tokens), shard), shard);
}

Var Residual::path(const Activation& inner, const Shard& shard) const {
  const Var product = last_(inner, shard);
  shard.done_with(inner.value(), product);
  const Var branch = head_scale_(product, shard), joined = windows_ ? join_windows(branch, *windows_) : branch;
  const Var z = layer_scale_(shard.dropout(out_(joined, shard), dropout_, name_), shard);
  return two_streams_ ? concat_tokens(to_x_(z, shard), z) : z;
}

Var Residual::sum(const Var& x, const Shard& shard, Tokens tokens, Inner inner, const Tensor& mask) const {
  const Activation z = inner(x, shard);
  const Var residual = shortcut(x, shard, tokens);
  if (adds_in_product(shard)) {
    shard.show(&Observers::branch, name_, [&] { return last_(z, shard); });
    const Var all = last_.added_to(residual, z, shard);
    shard.done_with(z.value(), all);
    return all;
  }
  const Var branch = path(z, shard);
  shard.show(&Observers::branch, name_, [&] { return branch; });
  shard.tape.at(name_.c_str());
  return mask ? dropout_add(branch, mask, drop_path_, residual) : add(residual, branch);
}

Var Residual::operator()(const Var& before, const Shard& shard, Tokens tokens, Inner inner) const {
  const bool begins_with_post = two_streams_ && !post_.is_identity();
  const Var x = !begins_with_post
                    ? before
                    : concat_tokens(post_(ResidualStreams::one(before, 0), shard), ResidualStreams::one(before, 1));
  const Tensor mask = shard.mask({x.shape()[0]}, drop_path_, path_name_);
  const Var y = mask && skips_dropped(shard.tape.backend()) ? sum_of_passing(x, shard, tokens, inner, mask)
                                                            : sum(x, shard, tokens, inner, mask);
  return shard.show(name_, two_streams_ ? y : post_(y, shard));
}

}  // namespace normlab
