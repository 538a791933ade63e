#include "nn/model/vit.h"

#include <cmath>

namespace normlab {
namespace {

/// [B, count, D], also for one.
Var some_tokens(const Var& x, std::int64_t first, std::int64_t count) {
  return reshape(select_tokens(x, first, count), {x.shape()[0], count, x.shape()[2]});
}

}  // namespace

ViT::ViT(ParameterSet& p, const ViTConfig& c) : config_(c) {
  throw_if_any(validate(c));
  const BlockSizes sizes = block_sizes(c).front();
  const Place stem{}, end{.layer = c.depth + 1};
  const auto norm = [&](const Place& place, SiteMember site) { return Norm(p, place, site, c.placement, sizes); };
  patch_in_ = norm(stem, &StemSites::patch_in);
  patch_embed_ = Linear(p, stem, Role::patch_embed, c.patch_pixels(), c.embed_dim);
  patch_out_ = norm(stem, &StemSites::patch_out);
  if (c.pool == Pool::token) cls_token_ = p.add("cls_token", {1, 1, c.embed_dim}, {.role = Role::class_token});
  if (c.distill_token) dist_token_ = p.add("dist_token", {1, 1, c.embed_dim}, {.role = Role::distill_token});
  if (c.registers > 0) registers_ = p.add("reg_token", {1, c.registers, c.embed_dim}, {.role = Role::register_tokens});
  if (c.pos_embed == PosEmbed::learned) {
    pos_embed_ = p.add("pos_embed", {1, c.patches() + (c.class_position() ? c.class_tokens() : 0), c.embed_dim},
                       {.role = Role::positions});
  } else if (c.pos_embed == PosEmbed::sincos2d) {
    sincos_ = p.add_constant({1, c.patches(), c.embed_dim},
                             [height = c.image_size[0] / c.patch_size, width = c.image_size[1] / c.patch_size,
                              dim = c.embed_dim] { return sincos2d(height, width, dim); });
  }
  posembed_out_ = norm(stem, &StemSites::posembed_out);
  const Rotary rotary(p, c);
  blocks_.reserve(static_cast<std::size_t>(c.depth));
  for (std::int64_t i = 0; i < c.depth; ++i) {
    BranchConfig block(c, {.block = i, .layer = i + 1}, sizes, c.depth);
    block.rotary = rotary;
    blocks_.emplace_back(p, block);
  }
  streams_ = ResidualStreams(p, end, c.placement, sizes);
  final_ = norm(end, &Placement::final);
  pooled_ = norm(end, &Placement::pooled);
  if (c.rep_size > 0) rep_ = Linear(p, end, Role::rep, c.embed_dim, c.rep_size);
  if (c.task == Task::contrast)
    text_ = std::make_unique<TextTower>(p, c);
  else
    head_ = Linear(p, end, Role::head, c.feature_width(), c.num_classes);
  class_token_alone_ = reads_class_token_alone(c);
  if (c.distill_token) head_dist_ = Linear(p, end, Role::head_dist, c.embed_dim, c.num_classes);
}

void ViT::prepare(Backend& backend, std::int64_t images, DType dtype) const {
  patch_embed_.prepare(backend, images * config_.patches(), dtype);
  for (const Block& block : blocks_) block.prepare(backend, images, config_.tokens(), dtype);
  if (class_token_alone_) blocks_.back().prepare(backend, images, config_.tokens(), dtype, Tokens::first);
  const std::int64_t answers = config_.task == Task::segment ? images * config_.patches() : images;
  for (const Linear* layer : {&rep_, &head_, &head_dist_}) layer->prepare(backend, answers, dtype);
  if (text_) text_->prepare(backend, images, dtype);
}

Var ViT::placed(const Var& x, const Shard& shard) const {
  if (pos_embed_ < 0 && sincos_ < 0) return x;
  const ParameterSet& parameters = shard.step.parameters;
  return add_positions(x,
                       pos_embed_ >= 0 ? shard.parameter(pos_embed_) : shard.tape.input(parameters.constant(sincos_)));
}

Var ViT::stem(const Var& images, const Shard& shard) const {
  shard.tape.at("patch_embed");
  const Var patches = patch_in_(patchify(images, config_.patch_size, config_.patch_size), shard);
  Var x = patch_out_(patch_embed_(patches, shard), shard);
  const bool class_position = config_.class_position();
  shard.tape.at("pos_embed");
  if (!class_position) x = placed(x, shard);
  if (config_.prefix() == 0) return posembed_out_(x, shard);
  const bool norm_sees_class = config_.placement.stem.posembed_out_includes_class;
  const auto normed = [&](const Var& tokens, bool all) {
    return all == norm_sees_class ? posembed_out_(tokens, shard) : tokens;
  };
  const auto with_registers = [&](const Var& tokens) {
    return registers_ < 0 ? tokens : prepend_tokens(shard.parameter(registers_), tokens);
  };
  if (!class_position) x = with_registers(normed(x, /*all=*/false));
  if (dist_token_ >= 0) x = prepend_tokens(shard.parameter(dist_token_), x);
  if (cls_token_ >= 0) x = prepend_tokens(shard.parameter(cls_token_), x);
  if (!class_position) return normed(x, /*all=*/true);
  x = placed(x, shard);
  if (registers_ < 0 && (norm_sees_class || posembed_out_.is_identity())) return normed(x, /*all=*/true);
  // Behind the class token, which has a position: registers without one, and patches that alone may pass the norm.
  const std::int64_t first = config_.class_tokens();
  const Var rest = with_registers(normed(some_tokens(x, first, config_.patches()), /*all=*/false));
  return normed(concat_tokens(some_tokens(x, 0, first), rest), /*all=*/true);
}

Var ViT::embed(const Var& images, const Shard& shard) const {
  return shard.in_part({}, {}, [&](const Shard& here) {
    return here.dropout(here.show("stem", stem(images, here)), config_.dropout.stem, "stem");
  });
}

// Equations (1) to (4) of the paper.
Var ViT::operator()(const Var& images, const Shard& shard) const {
  const ViTConfig& c = config_;
  require_shape("vit", "images", images.shape(), {images.shape()[0], c.image_size[0], c.image_size[1], c.channels});
  Var z = streams_.begin(embed(images, shard));                                                 // (1)  [B, N, D]
  for (const Block& block : std::span(blocks_).first(blocks_.size() - 1)) z = block(z, shard);  // (2), (3)
  z = class_token_alone_ ? blocks_.back().first_token(z, shard) : blocks_.back()(z, shard);
  z = final_(streams_.end(z, shard), shard);  // (4)
  return c.task == Task::segment ? patch_logits(z, shard) : logits(z, shard);
}

Var ViT::patch_logits(const Var& tokens, const Shard& shard) const {
  const ViTConfig& c = config_;
  shard.tape.at("pool");
  const Var z = c.prefix() > 0 ? select_tokens(tokens, c.prefix(), c.patches()) : tokens;
  const std::int64_t images = tokens.shape()[0];
  const Var out = head(reshape(z, {images * c.patches(), c.embed_dim}), shard);
  return reshape(out, {images, c.image_size[0] / c.patch_size, c.image_size[1] / c.patch_size, c.num_classes});
}

Var ViT::logits(const Var& tokens, const Shard& shard) const {
  const ViTConfig& c = config_;
  shard.tape.at("pool");
  const auto mean_patches = [&] {
    return mean_tokens(c.registers == 0 ? tokens : some_tokens(tokens, c.prefix(), c.patches()));
  };
  Var z = pooled_(c.pool == Pool::token ? select_tokens(tokens, 0, 1) : mean_patches(), shard);  // [B, D]
  if (c.rep_size > 0) z = tanh(rep_(z, shard));
  const Var out = head(z, shard);
  if (!c.distill_token) return out;
  // The mean of both heads, also in training, where there is no teacher.
  const Var second = head_dist_(select_tokens(tokens, 1, 1), shard);
  const Shape one{out.shape()[0], 1, c.num_classes};
  return mean_tokens(concat_tokens(reshape(out, one), reshape(second, one)));
}

Var ViT::head(const Var& features, const Shard& shard) const {
  const Var& shown = shard.show("pre_logits", features);
  return text_ ? shown : head_(shown, shard);
}

std::vector<double> sincos2d(std::int64_t height, std::int64_t width, std::int64_t dim) {
  if (!fits_sincos2d(dim))
    throw InputError(concat("sincos2d: a width of ", dim, " is not a multiple of 4 of at least 8"));
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
