#include "nn/model/branches.h"

#include <cmath>

#include "autograd/image_runs.h"
#include "core/backend.h"

namespace normlab {
namespace {

Gain layer_scale_of(ParameterSet& parameters, const Place& place, const char* path, const BranchConfig& c) {
  const LayerScaleKind kind = c.placement.layer_scale.kind;
  if (kind == LayerScaleKind::none) return {};
  return Gain(parameters, place, path, kind == LayerScaleKind::channel ? c.sizes.embed_dim : 1, Role::layer_scale);
}

/// The place of the block's branch with that name.
Place branch_of(const BranchConfig& c, std::string_view branch) {
  Place place = c.place;
  place.branch = branch;
  return place;
}

void done_with(const Var& x, const Context& ctx) { ctx.done_with(x); }
void done_with(const Activation&, const Context&) {}  // it keeps its slope in place of its argument

}  // namespace

Branch::Branch(ParameterSet& p, const std::string& name, const BranchConfig& c, double hidden, double end)
    : gelu_(c.gelu),
      hidden_dropout_(hidden),
      dropout_(end),
      drop_path_(c.drop_path),
      short_forms_(c.short_forms && !uses_batch_norm(c.placement)),
      name_(name),
      path_name_(name + "_path"),
      residual_factor_(p, residual_factor(c.placement.residual_factor, c.depth)) {
  if (c.placement.has_two_streams()) to_x_ = Factor(p, 1 / std::sqrt(2 * double(c.place.layer)));
}

Var Branch::begun(const Var& x, const Context& ctx) const {
  if (!two_streams() || post_.is_identity()) return x;
  return concat_tokens(post_(ResidualStreams::one(x, 0), ctx), ResidualStreams::one(x, 1));
}

Var Branch::entered(const Var& x, const Context& ctx) const {
  if (!two_streams()) return pre_(x, ctx);
  return input_(add(ResidualStreams::one(x, 0), pre_(ResidualStreams::one(x, 1), ctx)), ctx);
}

bool Branch::skips_dropped(Backend& backend) const {
  return short_forms_ && drop_path_ > 0 && backend.memory().on_host();
}

Branch::Fused Branch::fused(DType dtype, const Context& ctx) const {
  const bool gelu = hidden_.is_identity() && !ctx.spare_memory;
  return {.gelu = gelu,
          .through_gelu = gelu && inner_.is_identity() && !ctx.drops(hidden_dropout_) &&
                          ctx.tape.backend().has_products_through_gelu(gelu_, dtype),
          .sum = head_scale_.is_identity() && !cuts() && out_.is_identity() && !ctx.drops(dropout_) &&
                 layer_scale_.is_identity() && !ctx.drops(drop_path_) && !two_streams()};
}

Var Branch::scaled(const Var& x, const Context& ctx) const { return residual_factor_(residual_scale_(x, ctx), ctx); }

template <class Applied>
Var Branch::path(const Applied& inner, const Context& ctx) const {
  const Var product = last_(inner, ctx);
  done_with(inner, ctx);
  Var branch = head_scale_(product, ctx);
  if (cuts()) branch = join_windows(branch, *windows_);
  const Var z = layer_scale_(ctx.dropout(out_(branch, ctx), dropout_, name_), ctx);
  return two_streams() ? concat_tokens(to_x_(z, ctx), z) : z;
}

template <class Shortcut, class Inner>
Var Branch::sum(const Var& x, const Context& ctx, const Shortcut& shortcut, const Inner& inner) const {
  const std::int64_t images = x.shape()[0];
  const Tensor keep = ctx.mask({images}, drop_path_, path_name_);
  if (keep && skips_dropped(ctx.tape.backend())) {
    if (ctx.rehearses) std::fill_n(keep.data<std::uint8_t>(), images, std::uint8_t{1});
    const std::int64_t kept = kept_images(keep);
    if (kept < images || ctx.rehearses) return ended(sum_of_kept(keep, kept, x, ctx, shortcut, inner), ctx);
  }
  const auto applied = inner(x, ctx);
  const Var residual = scaled(shortcut(), ctx);
  if (fused(x.value().dtype(), ctx).sum) {
    ctx.show_branch(name_, [&] { return last_(applied, ctx); });
    const Var all = last_.added_to(residual, applied, ctx);
    done_with(applied, ctx);
    return ended(all, ctx);
  }
  const Var branch = path(applied, ctx);
  ctx.show_branch(name_, [&] { return branch; });
  ctx.tape.at(name_.c_str());
  return ended(keep ? dropout_add(branch, keep, drop_path_, residual) : add(residual, branch), ctx);
}

template <class Shortcut, class Inner>
Var Branch::sum_of_kept(const Tensor& keep, std::int64_t kept, const Var& x, const Context& ctx,
                        const Shortcut& shortcut, const Inner& inner) const {
  Context some = ctx;
  if (ctx.observers) {
    const Tape::Unrecorded values_alone(ctx.tape);
    some.observers.branch = nullptr;
    const Var all = path(inner(x, some), some);
    if (ctx.observers.branch) ctx.observers.branch(name_, all);
    some.observers = {};
  }
  if (kept == 0) return scaled(shortcut(), ctx);
  some.kept = keep;
  some.slice.images = kept;
  Var branch;
  {
    const Tape::RoomForAll room(ctx.tape, {kept, keep.size()});
    ctx.tape.at(name_.c_str());
    branch = path(inner(gather_images(x, keep), some), some);
  }
  const Var residual = scaled(shortcut(), ctx);
  ctx.tape.at(name_.c_str());
  return scatter_add_images(branch, keep, drop_path_, residual);
}

AttentionBranch::AttentionBranch(ParameterSet& p, const BranchConfig& c, const std::optional<Windows>& windows)
    : Branch(p, c.place.prefix() + "attn", c, 0, c.dropout.attn),
      heads_(c.sizes.num_heads),
      head_dim_(c.sizes.embed_dim / c.sizes.num_heads),
      attention_dropout_(c.attention_dropout),
      weights_name_(c.place.prefix() + "weights") {
  windows_ = windows;
  const Place place = branch_of(c, "attn");
  const std::int64_t dim = c.sizes.embed_dim;
  const auto norm = [&](SiteMember site) { return Norm(p, place, site, c.placement, c.sizes); };
  input_ = Norm(p, place, kStreamSites[0], c.placement, c.sizes);
  pre_ = norm(&AttentionSites::pre);
  qkv_ = QkvLinear(p, place, dim, c.qkv_bias);
  query_ = norm(&AttentionSites::query);
  key_ = norm(&AttentionSites::key);
  value_ = norm(&AttentionSites::value);
  if (windows_)
    bias_table_ = p.add(name_ + ".bias_table", {windows_->dims(1, dim).offsets(), heads_},
                        {.role = Role::bias_table, .place = place});
  if (c.placement.head_scale == HeadScale::before_proj) before_proj_ = Gain(p, place, "attn.head_scale", heads_);
  inner_ = norm(&AttentionSites::inner);
  last_ = Linear(p, place, Role::proj, dim, dim);
  if (c.placement.head_scale == HeadScale::after_proj) head_scale_ = Gain(p, place, "attn.head_scale", heads_);
  out_ = norm(&AttentionSites::out);
  layer_scale_ = layer_scale_of(p, place, "attn.layer_scale", c);
  post_ = norm(&AttentionSites::post);
}

Var AttentionBranch::heads(const Var& h, std::int64_t images, const Context& ctx) const {
  // Drawn by image, so that the cut into shards changes nothing.
  const std::int64_t sequences = h.shape()[0], tokens = h.shape()[1];
  Tensor keep = ctx.mask({images, sequences / images * heads_, tokens, tokens}, attention_dropout_, weights_name_);
  if (keep) keep = keep.reshape({sequences, heads_, tokens, tokens});
  if (query_.is_identity() && key_.is_identity() && value_.is_identity()) {
    const Var qkv = qkv_.together(h, ctx);
    show(qkv, qkv, images, ctx);
    ctx.tape.at(name_.c_str());
    if (windows_) return window_attention(qkv, ctx.parameter(bias_table_), heads_, *windows_, keep, attention_dropout_);
    return attention(qkv, heads_, keep, attention_dropout_);
  }
  const Var q = query_.of_heads(qkv_.one(0, h, ctx), heads_, ctx);
  const Var k = key_.of_heads(qkv_.one(1, h, ctx), heads_, ctx);
  const Var v = value_.of_heads(qkv_.one(2, h, ctx), heads_, ctx);
  show(q, k, images, ctx);
  ctx.tape.at(name_.c_str());
  if (windows_)
    return window_attention(q, k, v, ctx.parameter(bias_table_), heads_, *windows_, keep, attention_dropout_);
  return attention(q, k, v, heads_, keep, attention_dropout_);
}

void AttentionBranch::show(const Var& q, const Var& k, std::int64_t images, const Context& ctx) const {
  if (!ctx.observers.attention) return;
  const Tensor table = windows_ ? ctx.parameters.read(bias_table_) : Tensor();
  ctx.observers.attention(name_, {q, k, images, heads_, windows_ ? &*windows_ : nullptr, table});
}

Var AttentionBranch::operator()(const Var& before, const Context& of_all) const {
  const Var all = begun(before, of_all);
  const auto inner = [&](const Var& x, const Context& ctx) {
    const bool normed = !pre_.is_identity() || two_streams();  // otherwise h is x, which the sum still needs
    Var h = entered(x, ctx);
    if (cuts()) {
      ctx.tape.at(name_.c_str());
      const Var whole = h;
      h = cut_windows(whole, *windows_);
      if (normed) ctx.done_with(whole);
    }
    const Var attended = heads(h, x.shape()[0], ctx);
    if (normed || cuts()) ctx.done_with(h);
    return inner_(before_proj_(attended, ctx), ctx);
  };
  const auto shortcut = [&] { return all; };
  return sum(all, of_all, shortcut, inner);
}

Var AttentionBranch::first_token(const Var& all, const Context& of_all) const {
  const auto first = [](const Var& x) { return reshape(select_tokens(x, 0, 1), {x.shape()[0], 1, x.shape()[2]}); };
  const auto inner = [&](const Var& x, const Context& ctx) {
    const Var h = pre_(x, ctx);
    const Var q = query_.of_heads(qkv_.one(0, first(h), ctx), heads_, ctx);
    Var attended;
    if (key_.is_identity() && value_.is_identity()) {
      const Var kv = qkv_.keys_and_values(h, ctx);
      ctx.tape.at(name_.c_str());
      attended = token_attention(q, kv, heads_);
    } else {
      const Var k = key_.of_heads(qkv_.one(1, h, ctx), heads_, ctx);
      const Var v = value_.of_heads(qkv_.one(2, h, ctx), heads_, ctx);
      ctx.tape.at(name_.c_str());
      attended = token_attention(q, k, v, heads_);
    }
    return inner_(before_proj_(attended, ctx), ctx);
  };
  const auto shortcut = [&] { return first(all); };
  return sum(all, of_all, shortcut, inner);
}

void AttentionBranch::prepare_first_token(Backend& backend, std::int64_t images, std::int64_t tokens,
                                          DType dtype) const {
  qkv_.prepare(backend, images, dtype);
  qkv_.prepare(backend, images * tokens, dtype);
  last_.prepare(backend, images, dtype);
}

void AttentionBranch::prepare(Backend& backend, std::int64_t images, std::int64_t tokens, DType dtype) const {
  std::int64_t sequences = images;
  if (windows_) {
    const WindowDims dims = windows_->dims(images, heads_ * head_dim_);
    sequences = images * dims.windows();
    tokens = dims.tokens();
  }
  qkv_.prepare(backend, sequences * tokens, dtype);
  last_.prepare(backend, sequences * tokens, dtype);
  backend.prepare_attention({sequences, tokens, heads_, head_dim_, heads_ * head_dim_}, dtype);
}

MlpBranch::MlpBranch(ParameterSet& p, const BranchConfig& c)
    : Branch(p, c.place.prefix() + "mlp", c, c.dropout.hidden, c.dropout.mlp),
      hidden_name_(c.place.prefix() + "hidden") {
  const Place place = branch_of(c, "mlp");
  const auto norm = [&](SiteMember site) { return Norm(p, place, site, c.placement, c.sizes); };
  input_ = Norm(p, place, kStreamSites[1], c.placement, c.sizes);
  pre_ = norm(&MlpSites::pre);
  fc1_ = Linear(p, place, Role::fc1, c.sizes.embed_dim, c.sizes.mlp_dim);
  hidden_ = norm(&MlpSites::hidden);
  inner_ = norm(&MlpSites::inner);
  last_ = Linear(p, place, Role::fc2, c.sizes.mlp_dim, c.sizes.embed_dim);
  out_ = norm(&MlpSites::out);
  layer_scale_ = layer_scale_of(p, place, "mlp.layer_scale", c);
  if (c.placement.residual_scale) residual_scale_ = Gain(p, place, "mlp.residual_scale", c.sizes.embed_dim);
  post_ = norm(&MlpSites::post);
}

Var MlpBranch::operator()(const Var& before, const Context& of_all) const {
  const Var all = begun(before, of_all);
  const auto shortcut = [&] { return all; };
  const Fused as_one = fused(all.value().dtype(), of_all);
  if (as_one.through_gelu)
    return sum(all, of_all, shortcut,
               [&](const Var& x, const Context& ctx) { return fc1_.activation(entered(x, ctx), gelu_, ctx); });
  return sum(all, of_all, shortcut, [&](const Var& x, const Context& ctx) {
    const Var h = entered(x, ctx);
    Var activated;
    if (as_one.gelu) {
      activated = fc1_.with_gelu(h, gelu_, ctx);
    } else {
      const Var hidden = hidden_(fc1_(h, ctx), ctx);
      if (!pre_.is_identity() || two_streams()) ctx.done_with(h);
      activated = gelu(hidden, gelu_);
      ctx.done_with(hidden);
    }
    const Var inner = ctx.dropout(inner_(activated, ctx), hidden_dropout_, hidden_name_);
    if (!inner_.is_identity()) ctx.done_with(activated);
    return inner;
  });
}

void MlpBranch::prepare(Backend& backend, std::int64_t rows, DType dtype) const {
  for (const Linear* layer : {&fc1_, &last_}) layer->prepare(backend, rows, dtype);
}

Var Block::first_token(const Var& x, const Context& ctx) const {
  if (ctx.without_layer == place.layer) return reshape(select_tokens(x, 0, 1), {x.shape()[0], 1, x.shape()[2]});
  if (ctx.observers) {
    const Tape::Unrecorded values_alone(ctx.tape);
    (*this)(x, ctx);
  }
  return ctx.in_part(place, x, [&](Context quiet) {
    quiet.observers = {};
    return mlp(attention.first_token(x, quiet), quiet);
  });
}

void Block::prepare(Backend& backend, std::int64_t images, std::int64_t tokens, DType dtype) const {
  for (std::int64_t some = skips_dropped(backend) ? 1 : images; some <= images; ++some) {
    attention.prepare(backend, some, tokens, dtype);
    mlp.prepare(backend, some * tokens, dtype);
  }
}

void Block::prepare_first_token(Backend& backend, std::int64_t images, std::int64_t tokens, DType dtype) const {
  for (std::int64_t some = skips_dropped(backend) ? 1 : images; some <= images; ++some) {
    attention.prepare_first_token(backend, some, tokens, dtype);
    mlp.prepare(backend, some, dtype);
  }
}

}  // namespace normlab
