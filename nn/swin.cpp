#include "nn/swin.h"

namespace normlab {

Swin::Swin(ParameterSet& p, const SwinConfig& c) : config_(c) {
  throw_if_any(validate(c));
  const Placement& sites = c.placement;
  patch_in_ = Norm(p, "stem.patch_in", sites.stem.patch_in, c.patch_pixels());
  patch_embed_ = Linear(p, "patch_embed", c.patch_pixels(), c.embed_dim);
  patch_out_ = Norm(p, "stem.patch_out", sites.stem.patch_out, c.embed_dim);
  for (const SwinStage& sizes : swin_stages(c)) {
    Stage& stage = stages_.emplace_back();
    stage.sizes = sizes;
    stage.name = "stages." + std::to_string(stages_.size() - 1);
    const std::int64_t dim = sizes.embed_dim;
    if (stages_.size() > 1) {
      stage.merge = Norm(p, stage.name + ".merge", sites.merge, 2 * dim);
      stage.reduction = Linear(p, stage.name + ".reduction", 2 * dim, dim, c.reduction_bias);
    }
    stage.blocks.reserve(std::size_t(sizes.depth));
    for (std::int64_t i = 0; i < sizes.depth; ++i)
      stage.blocks.emplace_back(
          p, concat(stage.name, ".blocks.", i),
          BranchConfig{sizes.first_block + i, dim, sizes.num_heads, sizes.mlp_dim, c.qkv_bias, c.gelu, c.dropout,
                       c.attention_dropout, c.drop_path_rate(sizes.first_block + i), c.placement},
          Windows{sizes.height, sizes.width, sizes.window, sizes.shift(i)});
  }
  const std::int64_t dim = stages_.back().sizes.embed_dim;
  final_ = Norm(p, "final", sites.final, dim);
  pooled_ = Norm(p, "pooled", sites.pooled, dim);
  head_ = Linear(p, "head", dim, c.num_classes);
}

void Swin::prepare(Backend& backend, std::int64_t images, DType dtype) const {
  patch_embed_.prepare(backend, images * stages_.front().sizes.tokens(), dtype);
  for (const Stage& stage : stages_) {
    stage.reduction.prepare(backend, images * stage.sizes.tokens(), dtype);
    for (const Block& block : stage.blocks) block.prepare(backend, images, stage.sizes.tokens(), dtype);
  }
  head_.prepare(backend, images, dtype);
}

Var Swin::operator()(const Var& images, const Context& ctx) const {
  const SwinConfig& c = config_;
  require_shape("swin", "images", images.shape(), {images.shape()[0], c.image_size[0], c.image_size[1], c.channels});
  ctx.tape.at("patch_embed");
  const Var patches = patch_in_(patchify(images, c.patch_size, c.patch_size), ctx);
  const Var embedded = ctx.seen("stem", patch_out_(patch_embed_(patches, ctx), ctx));
  Stream z = ctx.dropout(embedded, c.dropout, "stem");  // [B, N, D]
  const SwinStage* before = nullptr;
  for (const Stage& stage : stages_) {
    if (before) {
      ctx.tape.at(stage.name.c_str());
      const Var merged = merge_patches(z.value(), before->height, before->width);  // [B, N/4, 4 C]
      z = stage.reduction(stage.merge(merged, ctx), ctx);                          // [B, N/4, 2 C]
    }
    for (const Block& block : stage.blocks) z = block(z, ctx);
    before = &stage.sizes;
  }
  const Var tokens = final_(z, ctx);
  ctx.tape.at("pool");
  return head_(ctx.seen("pre_logits", pooled_(mean_tokens(tokens), ctx)), ctx);
}

}  // namespace normlab
