#include "nn/model/branches.h"

#include "core/backend.h"

namespace normlab {

AttentionBranch::AttentionBranch(ParameterSet& p, BranchConfig c, const std::optional<Windows>& windows)
    : heads_(c.sizes.num_heads),
      head_dim_(c.sizes.embed_dim / c.sizes.num_heads),
      dropout_(c.attention_dropout),
      windows_(windows),
      weights_name_(c.place.prefix() + "weights") {
  c.place.branch = "attn";
  const std::int64_t dim = c.sizes.embed_dim;
  norm_ = BranchInput(p, c, true);
  qkv_ = QkvLinear(p, c.place, dim, c.qkv_bias);
  rotary_ = c.rotary;
  query_ = c.norm(p, &AttentionSites::query);
  key_ = c.norm(p, &AttentionSites::key);
  value_ = c.norm(p, &AttentionSites::value);
  if (windows)
    bias_table_ = p.add(c.place.prefix() + "attn.bias_table", {windows->dims(1, dim).offsets(), heads_},
                        {.role = Role::bias_table, .place = c.place});
  scale_ = LearnedScale(p, c);
  exclusive_ = ExclusiveHeads(c);
  gate_ = HeadGate(p, c);
  if (c.placement.head_scale == HeadScale::before_proj) before_proj_ = Gain(p, c.place, "attn.head_scale", heads_);
  inner_ = c.norm(p, &AttentionSites::inner);
  residual_ = Residual(p, c, dim, windows, true);
}

Var AttentionBranch::heads(const Var& h, std::int64_t images, const Shard& shard) const {
  // Drawn by image, so that the cut into shards changes nothing.
  const std::int64_t sequences = h.shape()[0], tokens = h.shape()[1];
  Tensor mask = shard.mask({images, sequences / images * heads_, tokens, tokens}, dropout_, weights_name_);
  if (mask) mask = mask.reshape({sequences, heads_, tokens, tokens});
  const auto attend = [&](const auto&... qkv) {
    shard.tape.at(residual_.name().c_str());
    if (windows_) return window_attention(qkv..., shard.parameter(bias_table_), heads_, *windows_, mask, dropout_);
    return attention(qkv..., heads_, mask, dropout_);
  };
  if (query_.is_identity() && key_.is_identity() && value_.is_identity() && scale_.is_identity() &&
      exclusive_.is_identity()) {
    const Var qkv = rotary_(qkv_(0, 3, h, shard), 2, shard);  // not v
    show(qkv, qkv, shard);
    return attend(qkv);
  }
  const Var q = rotary_(scale_(query_.of_heads(qkv_(0, 1, h, shard), heads_, shard), shard), 1, shard);
  const Var k = rotary_(key_.of_heads(qkv_(1, 1, h, shard), heads_, shard), 1, shard);
  const Var v = value_.of_heads(qkv_(2, 1, h, shard), heads_, shard);
  show(q, k, shard);
  return exclusive_(attend(q, k, v), v, shard);
}

void AttentionBranch::show(const Var& q, const Var& k, const Shard& shard) const {
  shard.show(&Observers::attention, residual_.name(), [&] {
    const Tensor table = windows_ ? shard.step.parameters.read(bias_table_) : Tensor();
    return AttentionSeen{q, k, heads_, windows_ ? &*windows_ : nullptr, table};
  });
}

Var AttentionBranch::inner(const Var& x, const Shard& shard, Tokens tokens) const {
  Var h = norm_(x, shard);
  if (cuts()) {
    shard.tape.at(residual_.name().c_str());
    const Var whole = h;
    h = cut_windows(whole, *windows_);
    shard.done_with(whole, x);
  }
  const Var attended = tokens == Tokens::all ? heads(h, x.shape()[0], shard) : first_heads(h, shard);
  const Var gated = gate_(attended, continuing(h, tokens), shard);
  shard.done_with(h, x);
  return inner_(before_proj_(gated, shard), shard);
}

Var AttentionBranch::operator()(const Var& x, const Shard& shard, Tokens tokens) const {
  return residual_(x, shard, tokens, [&](const Var& images, const Shard& some) { return inner(images, some, tokens); });
}

void AttentionBranch::prepare(Backend& backend, std::int64_t images, std::int64_t tokens, DType dtype,
                              Tokens form) const {
  std::int64_t sequences = images;
  if (windows_) {
    const WindowDims dims = windows_->dims(images, heads_ * head_dim_);
    sequences = images * dims.windows();
    tokens = dims.tokens();
  }
  const std::int64_t rows = sequences * tokens;
  if (form == Tokens::first) qkv_.prepare(backend, images, dtype);
  qkv_.prepare(backend, rows, dtype);
  gate_.prepare(backend, form == Tokens::first ? images : rows, dtype);
  residual_.prepare(backend, form == Tokens::first ? images : rows, dtype);
  if (form == Tokens::all) backend.prepare_attention({sequences, tokens, heads_, head_dim_, heads_ * head_dim_}, dtype);
}

MlpBranch::MlpBranch(ParameterSet& p, BranchConfig c)
    : gelu_(c.gelu),
      function_(function_of(c.activation, c.mlp, c.gelu), c.place.prefix() + "mlp.activation", c.sizes.mlp_dim, c.sizes,
                c.place.layer),
      dropout_(c.dropout.hidden),
      hidden_name_(c.place.prefix() + "hidden") {
  c.place.branch = "mlp";
  norm_ = BranchInput(p, c, false);
  fc1_ = Linear(p, c.place, Role::fc1, c.sizes.embed_dim, c.sizes.mlp_dim);
  if (c.mlp == MlpForm::gated) fc3_ = Linear(p, c.place, Role::fc3, c.sizes.embed_dim, c.sizes.mlp_dim);
  hidden_ = c.norm(p, &MlpSites::hidden);
  inner_ = c.norm(p, &MlpSites::inner);
  residual_ = Residual(p, c, c.sizes.mlp_dim, {}, false);
}

Activation MlpBranch::inner(const Var& x, const Shard& shard) const {
  const Var h = norm_(x, shard);
  const bool fuses_gelu = !function_ && hidden_.is_identity() && !shard.step.spare_memory;
  if (fuses_gelu && inner_.is_identity() && !shard.step.drops(dropout_) &&
      shard.tape.backend().has_products_through_gelu(gelu_, h.value().dtype()))
    return fc1_.activation(h, gelu_, shard);
  Var activated;
  if (fuses_gelu) {
    activated = fc1_.with_gelu(h, gelu_, shard);
  } else {
    const Var hidden = hidden_(fc1_(h, shard), shard), gate = fc3_ ? (*fc3_)(h, shard) : Var();
    shard.done_with(h, x);
    activated = function_ ? function_(hidden, gate, shard) : gelu(hidden, gelu_);
    shard.done_with(hidden, activated);
  }
  const Var z = shard.dropout(inner_(activated, shard), dropout_, hidden_name_);
  shard.done_with(activated, z);
  return z;
}

Var MlpBranch::operator()(const Var& x, const Shard& shard) const {
  return residual_(x, shard, Tokens::all, [&](const Var& images, const Shard& some) { return inner(images, some); });
}

void MlpBranch::prepare(Backend& backend, std::int64_t rows, DType dtype) const {
  fc1_.prepare(backend, rows, dtype);
  if (fc3_) fc3_->prepare(backend, rows, dtype);
  residual_.prepare(backend, rows, dtype);
}

Var Block::operator()(const Var& x, const Shard& shard) const {
  if (shard.step.without_layer == place.layer) return x;
  return shard.in_part(place, x, [&](const Shard& here) {
    const auto both = [&] {
      const Var z = attention(x, here);  // z' = MSA(LN(z)) + z  (2)
      return mlp(z, here);               // z = MLP(LN(z')) + z'  (3)
    };
    const bool seen = here.tape.recording() || here.step.observers;
    return seen ? both() : here.tape.value_alone(x, both);
  });
}

void Block::prepare(Backend& backend, std::int64_t images, std::int64_t tokens, DType dtype, Tokens form) const {
  for (std::int64_t some = skips_dropped(backend) ? 1 : images; some <= images; ++some) {
    attention.prepare(backend, some, tokens, dtype, form);
    mlp.prepare(backend, form == Tokens::first ? some : some * tokens, dtype);
  }
}

}  // namespace normlab
