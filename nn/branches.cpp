#include "nn/branches.h"

namespace normlab {
namespace {

GeluForm form_of(Gelu gelu) { return gelu == Gelu::erf ? GeluForm::erf : GeluForm::tanh; }

Gain layer_scale_of(ParameterSet& parameters, const std::string& name, const BranchConfig& c) {
  switch (c.placement.layer_scale.kind) {
    case LayerScaleKind::channel:
      return Gain(parameters, name, c.embed_dim);
    case LayerScaleKind::scalar:
      return Gain(parameters, name, 1);
    case LayerScaleKind::none:
      break;
  }
  return {};
}

}  // namespace

AttentionBranch::AttentionBranch(ParameterSet& p, const std::string& block, const BranchConfig& c,
                                 const std::optional<Windows>& windows)
    : heads_(c.num_heads),
      head_dim_(c.embed_dim / c.num_heads),
      dropout_(c.dropout),
      attention_dropout_(c.attention_dropout),
      drop_path_(c.drop_path),
      windows_(windows),
      drop_name_(block + ".attn"),
      weights_name_(block + ".weights"),
      path_name_(block + ".attn_path") {
  const std::string name = block + ".attn";
  const AttentionSites& sites = c.placement.attention_sites(c.index);
  const std::int64_t dim = c.embed_dim, head_dim = dim / c.num_heads;
  pre_ = Norm(p, name + ".pre", sites.pre, dim);
  qkv_ = QkvLinear(p, name, dim, c.qkv_bias);
  query_ = Norm(p, name + ".query", sites.query, head_dim);
  key_ = Norm(p, name + ".key", sites.key, head_dim);
  value_ = Norm(p, name + ".value", sites.value, dim);
  if (windows_) bias_table_ = p.add(name + ".bias_table", {windows_->dims(1, dim).offsets(), heads_});
  if (c.placement.head_scale == HeadScale::before_proj) before_proj_ = Gain(p, name + ".head_scale", c.num_heads);
  inner_ = Norm(p, name + ".inner", sites.inner, dim);
  proj_ = Linear(p, name + ".proj", dim, dim);
  if (c.placement.head_scale == HeadScale::after_proj) after_proj_ = Gain(p, name + ".head_scale", c.num_heads);
  out_ = Norm(p, name + ".out", sites.out, dim);
  layer_scale_ = layer_scale_of(p, name + ".layer_scale", c);
  post_ = Norm(p, name + ".post", sites.post, dim);
}

Var AttentionBranch::heads(const Var& h, std::int64_t images, const Context& ctx) const {
  // Drawn by image, so that the cut into shards changes nothing.
  const std::int64_t sequences = h.shape()[0], tokens = h.shape()[1];
  Tensor keep = ctx.mask({images, sequences / images * heads_, tokens, tokens}, attention_dropout_, weights_name_);
  if (keep) keep = keep.reshape({sequences, heads_, tokens, tokens});
  if (query_.is_identity() && key_.is_identity() && value_.is_identity()) {
    const Var qkv = qkv_.together(h, ctx);
    ctx.tape.at(drop_name_.c_str());
    if (windows_) return window_attention(qkv, ctx.parameter(bias_table_), heads_, *windows_, keep, attention_dropout_);
    return attention(qkv, heads_, keep, attention_dropout_);
  }
  const Var q = query_.per_head(qkv_.one(0, h, ctx), heads_, ctx);
  const Var k = key_.per_head(qkv_.one(1, h, ctx), heads_, ctx);
  const Var v = value_(qkv_.one(2, h, ctx), ctx);
  ctx.tape.at(drop_name_.c_str());
  if (windows_)
    return window_attention(q, k, v, ctx.parameter(bias_table_), heads_, *windows_, keep, attention_dropout_);
  return attention(q, k, v, heads_, keep, attention_dropout_);
}

Stream AttentionBranch::operator()(Stream stream, const Context& ctx) const {
  Var h = pre_(stream, ctx);
  const Var x = stream.value();
  if (cuts()) {
    ctx.tape.at(drop_name_.c_str());
    h = cut_windows(h, *windows_);
  }
  const Var joined = heads(h, x.shape()[0], ctx);
  const Var inner = inner_(before_proj_(joined, ctx), ctx);
  if (ends_with_product(ctx)) {
    ctx.show_branch(drop_name_, [&] { return proj_(inner, ctx); });
    return post_(proj_.added_to(x, inner, ctx), ctx);
  }
  Var projected = after_proj_(proj_(inner, ctx), ctx);
  if (cuts()) projected = join_windows(projected, *windows_);
  const Var branch = layer_scale_(ctx.dropout(out_(projected, ctx), dropout_, drop_name_), ctx);
  ctx.show_branch(drop_name_, [&] { return branch; });
  ctx.tape.at(drop_name_.c_str());
  Stream sum = ctx.add_drop_path(x, branch, drop_path_, path_name_);
  return post_.is_identity() ? sum : post_(sum, ctx);
}

bool AttentionBranch::ends_with_product(const Context& ctx) const {
  return !cuts() && after_proj_.is_identity() && out_.is_identity() && layer_scale_.is_identity() &&
         !ctx.drops(dropout_) && !ctx.drops(drop_path_);
}

void AttentionBranch::prepare(Backend& backend, std::int64_t images, std::int64_t tokens, DType dtype) const {
  std::int64_t sequences = images;
  if (windows_) {
    const WindowDims dims = windows_->dims(images, heads_ * head_dim_);
    sequences = images * dims.windows();
    tokens = dims.tokens();
  }
  qkv_.prepare(backend, sequences * tokens, dtype);
  proj_.prepare(backend, sequences * tokens, dtype);
  backend.prepare_attention({sequences, tokens, heads_, head_dim_, heads_ * head_dim_}, dtype);
}

MlpBranch::MlpBranch(ParameterSet& p, const std::string& block, const BranchConfig& c)
    : gelu_(form_of(c.gelu)),
      dropout_(c.dropout),
      drop_path_(c.drop_path),
      drop_name_(block + ".mlp"),
      hidden_name_(block + ".hidden"),
      path_name_(block + ".mlp_path") {
  const std::string name = block + ".mlp";
  const MlpSites& sites = c.placement.mlp_sites(c.index);
  pre_ = Norm(p, name + ".pre", sites.pre, c.embed_dim);
  fc1_ = Linear(p, name + ".fc1", c.embed_dim, c.mlp_dim);
  hidden_ = Norm(p, name + ".hidden", sites.hidden, c.mlp_dim);
  inner_ = Norm(p, name + ".inner", sites.inner, c.mlp_dim);
  fc2_ = Linear(p, name + ".fc2", c.mlp_dim, c.embed_dim);
  out_ = Norm(p, name + ".out", sites.out, c.embed_dim);
  layer_scale_ = layer_scale_of(p, name + ".layer_scale", c);
  if (c.placement.residual_scale) residual_scale_ = Gain(p, name + ".residual_scale", c.embed_dim);
  post_ = Norm(p, name + ".post", sites.post, c.embed_dim);
}

Stream MlpBranch::operator()(Stream stream, const Context& ctx) const {
  const Var h = pre_(stream, ctx);
  const Var x = stream.value();
  // Without a norm between them, GELU runs behind the product, and its gradient behind that of the next one.
  if (hidden_.is_identity() && inner_.is_identity() && !ctx.drops(dropout_) &&
      ctx.tape.backend().has_products_through_gelu(gelu_, h.value().dtype()))
    return end(x, fc1_.activation(h, gelu_, ctx), ctx);
  const Var activated = hidden_.is_identity() ? fc1_.with_gelu(h, gelu_, ctx) : gelu(hidden_(fc1_(h, ctx), ctx), gelu_);
  return end(x, ctx.dropout(inner_(activated, ctx), dropout_, hidden_name_), ctx);
}

template <class Inner>
Stream MlpBranch::end(const Var& x, const Inner& inner, const Context& ctx) const {
  const Var shortcut = residual_scale_(x, ctx);
  if (ends_with_product(ctx)) {
    ctx.show_branch(drop_name_, [&] { return fc2_(inner, ctx); });
    return post_(fc2_.added_to(shortcut, inner, ctx), ctx);
  }
  const Var branch = layer_scale_(ctx.dropout(out_(fc2_(inner, ctx), ctx), dropout_, drop_name_), ctx);
  ctx.show_branch(drop_name_, [&] { return branch; });
  ctx.tape.at(drop_name_.c_str());
  Stream sum = ctx.add_drop_path(shortcut, branch, drop_path_, path_name_);
  return post_.is_identity() ? sum : post_(sum, ctx);
}

bool MlpBranch::ends_with_product(const Context& ctx) const {
  return out_.is_identity() && layer_scale_.is_identity() && !ctx.drops(dropout_) && !ctx.drops(drop_path_);
}

void MlpBranch::prepare(Backend& backend, std::int64_t rows, DType dtype) const {
  for (const Linear* layer : {&fc1_, &fc2_}) layer->prepare(backend, rows, dtype);
}

}  // namespace normlab
