#include "nn/vit.h"

#include <cmath>

namespace normlab {
namespace {

GeluForm form_of(Gelu gelu) { return gelu == Gelu::erf ? GeluForm::erf : GeluForm::tanh; }

Gain layer_scale_of(ParameterSet& parameters, const std::string& name, const ViTConfig& c) {
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

AttentionBranch::AttentionBranch(ParameterSet& p, const std::string& block, const ViTConfig& c, std::int64_t index)
    : heads_(c.num_heads),
      head_dim_(c.embed_dim / c.num_heads),
      dropout_(c.dropout),
      attention_dropout_(c.attention_dropout),
      drop_path_(c.drop_path_rate(index)),
      drop_name_(block + ".attn"),
      weights_name_(block + ".weights"),
      path_name_(block + ".attn_path") {
  const std::string name = block + ".attn";
  const AttentionSites& sites = c.placement.attention_sites(index);
  const std::int64_t dim = c.embed_dim, head_dim = dim / c.num_heads;
  pre_ = Norm(p, name + ".pre", sites.pre, dim);
  qkv_ = QkvLinear(p, name, dim, c.qkv_bias);
  query_ = Norm(p, name + ".query", sites.query, head_dim);
  key_ = Norm(p, name + ".key", sites.key, head_dim);
  value_ = Norm(p, name + ".value", sites.value, dim);
  if (c.placement.head_scale == HeadScale::before_proj) before_proj_ = Gain(p, name + ".head_scale", c.num_heads);
  inner_ = Norm(p, name + ".inner", sites.inner, dim);
  proj_ = Linear(p, name + ".proj", dim, dim);
  if (c.placement.head_scale == HeadScale::after_proj) after_proj_ = Gain(p, name + ".head_scale", c.num_heads);
  out_ = Norm(p, name + ".out", sites.out, dim);
  layer_scale_ = layer_scale_of(p, name + ".layer_scale", c);
  post_ = Norm(p, name + ".post", sites.post, dim);
}

Var AttentionBranch::heads(const Var& h, const Context& ctx) const {
  const Tensor keep = ctx.mask({h.shape()[0], heads_, h.shape()[1], h.shape()[1]}, attention_dropout_, weights_name_);
  if (query_.is_identity() && key_.is_identity() && value_.is_identity()) {
    const Var qkv = qkv_.together(h, ctx);
    ctx.tape.at(drop_name_.c_str());
    return attention(qkv, heads_, keep, attention_dropout_);
  }
  const Var q = query_.per_head(qkv_.one(0, h, ctx), heads_, ctx);
  const Var k = key_.per_head(qkv_.one(1, h, ctx), heads_, ctx);
  const Var v = value_(qkv_.one(2, h, ctx), ctx);
  ctx.tape.at(drop_name_.c_str());
  return attention(q, k, v, heads_, keep, attention_dropout_);
}

Var AttentionBranch::operator()(const Var& x, const Context& ctx) const {
  const Var h = pre_(x, ctx);
  const Var joined = heads(h, ctx);
  const Var inner = inner_(before_proj_(joined, ctx), ctx);
  if (ends_with_product(ctx)) {
    ctx.show_branch(drop_name_, [&] { return proj_(inner, ctx); });
    return post_(proj_.added_to(x, inner, ctx), ctx);
  }
  const Var projected = after_proj_(proj_(inner, ctx), ctx);
  const Var branch = layer_scale_(ctx.dropout(out_(projected, ctx), dropout_, drop_name_), ctx);
  ctx.show_branch(drop_name_, [&] { return branch; });
  ctx.tape.at(drop_name_.c_str());
  return post_(ctx.add_drop_path(x, branch, drop_path_, path_name_), ctx);
}

bool AttentionBranch::ends_with_product(const Context& ctx) const {
  return after_proj_.is_identity() && out_.is_identity() && layer_scale_.is_identity() && !ctx.drops(dropout_) &&
         !ctx.drops(drop_path_);
}

void AttentionBranch::prepare(Backend& backend, std::int64_t images, std::int64_t tokens, DType dtype) const {
  qkv_.prepare(backend, images * tokens, dtype);
  proj_.prepare(backend, images * tokens, dtype);
  backend.prepare_attention({images, tokens, heads_, head_dim_, heads_ * head_dim_}, dtype);
}

MlpBranch::MlpBranch(ParameterSet& p, const std::string& block, const ViTConfig& c, std::int64_t index)
    : gelu_(form_of(c.gelu)),
      dropout_(c.dropout),
      drop_path_(c.drop_path_rate(index)),
      drop_name_(block + ".mlp"),
      hidden_name_(block + ".hidden"),
      path_name_(block + ".mlp_path") {
  const std::string name = block + ".mlp";
  const MlpSites& sites = c.placement.mlp_sites(index);
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

Var MlpBranch::operator()(const Var& x, const Context& ctx) const {
  const Var h = pre_(x, ctx);
  // Without a norm between them, GELU runs behind the product.
  const Var activated = hidden_.is_identity() ? fc1_.with_gelu(h, gelu_, ctx) : gelu(hidden_(fc1_(h, ctx), ctx), gelu_);
  const Var inner = ctx.dropout(inner_(activated, ctx), dropout_, hidden_name_);
  const Var shortcut = residual_scale_(x, ctx);
  if (ends_with_product(ctx)) {
    ctx.show_branch(drop_name_, [&] { return fc2_(inner, ctx); });
    return post_(fc2_.added_to(shortcut, inner, ctx), ctx);
  }
  const Var branch = layer_scale_(ctx.dropout(out_(fc2_(inner, ctx), ctx), dropout_, drop_name_), ctx);
  ctx.show_branch(drop_name_, [&] { return branch; });
  ctx.tape.at(drop_name_.c_str());
  return post_(ctx.add_drop_path(shortcut, branch, drop_path_, path_name_), ctx);
}

bool MlpBranch::ends_with_product(const Context& ctx) const {
  return out_.is_identity() && layer_scale_.is_identity() && !ctx.drops(dropout_) && !ctx.drops(drop_path_);
}

void MlpBranch::prepare(Backend& backend, std::int64_t rows, DType dtype) const {
  for (const Linear* layer : {&fc1_, &fc2_}) layer->prepare(backend, rows, dtype);
}

ViT::ViT(ParameterSet& p, const ViTConfig& c) : config_(c) {
  std::string problems;
  for (const ConfigProblem& problem : validate(c))
    problems += concat(problems.empty() ? "" : "\n", "model: ", problem.key, ": ", problem.message);
  if (!problems.empty()) throw InputError(problems);

  const Placement& sites = c.placement;
  patch_in_ = Norm(p, "stem.patch_in", sites.stem.patch_in, c.patch_pixels());
  patch_embed_ = Linear(p, "patch_embed", c.patch_pixels(), c.embed_dim);
  patch_out_ = Norm(p, "stem.patch_out", sites.stem.patch_out, c.embed_dim);
  if (c.pool == Pool::token) cls_token_ = p.add("cls_token", {1, 1, c.embed_dim});
  if (c.pos_embed == PosEmbed::learned) {
    pos_embed_ = p.add("pos_embed", {1, c.patches() + c.class_position(), c.embed_dim});
  } else {
    sincos_ = sincos2d(c.image_size[0] / c.patch_size, c.image_size[1] / c.patch_size, c.embed_dim);
    sincos_float_.assign(sincos_.begin(), sincos_.end());
  }
  posembed_out_ = Norm(p, "stem.posembed_out", sites.stem.posembed_out, c.embed_dim);
  blocks_.reserve(static_cast<std::size_t>(c.depth));
  for (std::int64_t i = 0; i < c.depth; ++i) {
    const std::string name = "blocks." + std::to_string(i);
    blocks_.push_back({AttentionBranch(p, name, c, i), MlpBranch(p, name, c, i), name + ".attn", name + ".mlp"});
  }
  final_ = Norm(p, "final", sites.final, c.embed_dim);
  pooled_ = Norm(p, "pooled", sites.pooled, c.embed_dim);
  if (c.rep_size > 0) rep_ = Linear(p, "rep", c.embed_dim, c.rep_size);
  head_ = Linear(p, "head", c.rep_size > 0 ? c.rep_size : c.embed_dim, c.num_classes);
}

void ViT::prepare(Backend& backend, std::int64_t images, DType dtype) const {
  patch_embed_.prepare(backend, images * config_.patches(), dtype);
  for (const Block& block : blocks_) {
    block.attention.prepare(backend, images, config_.tokens(), dtype);
    block.mlp.prepare(backend, images * config_.tokens(), dtype);
  }
  for (const Linear* layer : {&rep_, &head_}) layer->prepare(backend, images, dtype);
}

Var ViT::positions(const Context& ctx) const {
  if (pos_embed_ >= 0) return ctx.parameter(pos_embed_);
  const Shape shape{1, config_.patches(), config_.embed_dim};
  // The table is fixed, so its view loses nothing by not being const.
  if (ctx.parameters.dtype() == DType::f64)
    return ctx.tape.input(Tensor(const_cast<double*>(sincos_.data()), shape, DType::f64));
  return ctx.tape.input(Tensor(const_cast<float*>(sincos_float_.data()), shape, DType::f32));
}

Var ViT::stem(const Var& images, const Context& ctx) const {
  ctx.tape.at("patch_embed");
  const Var patches = patch_in_(patchify(images, config_.patch_size, config_.patch_size), ctx);
  Var x = patch_out_(patch_embed_(patches, ctx), ctx);
  const bool class_position = config_.class_position();
  ctx.tape.at("pos_embed");
  if (!class_position) x = add_positions(x, positions(ctx));
  if (cls_token_ < 0) return posembed_out_(x, ctx);
  const bool norm_sees_class = config_.placement.stem.posembed_out_includes_class;
  if (!class_position && !norm_sees_class) x = posembed_out_(x, ctx);
  x = concat_token(ctx.parameter(cls_token_), x);
  if (class_position) x = add_positions(x, positions(ctx));
  if (norm_sees_class) return posembed_out_(x, ctx);
  if (!class_position || posembed_out_.is_identity()) return x;
  // The class token has a position but passes the norm by.
  const Var patches_only = posembed_out_(select_tokens(x, 1, config_.patches()), ctx);
  const Shape class_shape{x.shape()[0], 1, config_.embed_dim};
  return concat_tokens(reshape(select_tokens(x, 0, 1), class_shape), patches_only);
}

Var ViT::operator()(const Var& images, const Context& ctx) const {
  const auto seen = [&](const std::string& name, const Var& x) {
    if (ctx.observe) ctx.observe(name, x);
    return x;
  };
  const ViTConfig& c = config_;
  require_shape("vit", "images", images.shape(), {images.shape()[0], c.image_size[0], c.image_size[1], c.channels});
  Var z = ctx.dropout(seen("stem", stem(images, ctx)), c.dropout, "stem");  // [B, N, D]        (1)
  for (const Block& block : blocks_) {
    z = seen(block.attention_name, block.attention(z, ctx));  // (2)
    z = seen(block.mlp_name, block.mlp(z, ctx));              // (3)
  }
  z = final_(z, ctx);
  ctx.tape.at("pool");
  z = pooled_(c.pool == Pool::token ? select_tokens(z, 0, 1) : mean_tokens(z), ctx);  // [B, D]  (4)
  if (c.rep_size > 0) z = tanh(rep_(z, ctx));
  return head_(seen("pre_logits", z), ctx);
}

std::vector<double> sincos2d(std::int64_t height, std::int64_t width, std::int64_t dim) {
  if (dim % 4 != 0 || dim < 8)
    throw InputError(concat("sincos2d: a width of ", dim, " is not a multiple of four from eight on"));
  const std::int64_t quarter = dim / 4;
  std::vector<double> table(static_cast<std::size_t>(height * width * dim));
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x) {
      double* row = table.data() + (y * width + x) * dim;
      for (std::int64_t k = 0; k < quarter; ++k) {
        const double omega = std::pow(10000.0, -double(k) / double(quarter - 1));
        row[k] = std::sin(double(x) * omega);
        row[quarter + k] = std::cos(double(x) * omega);
        row[2 * quarter + k] = std::sin(double(y) * omega);
        row[3 * quarter + k] = std::cos(double(y) * omega);
      }
    }
  return table;
}

}  // namespace normlab
