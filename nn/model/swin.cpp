#include "nn/model/swin.h"

namespace normlab {

Swin::Swin(ParameterSet& p, const SwinConfig& c) : config_(c) {
  throw_if_any(validate(c));
  const std::vector<BlockSizes> sizes = block_sizes(c);
  const Place stem{}, end{.layer = c.depth() + 1};
  const auto norm = [&](const Place& place, SiteMember site, const BlockSizes& block) {
    return Norm(p, place, site, c.placement, block);
  };
  patch_in_ = norm(stem, &StemSites::patch_in, sizes.front());
  patch_embed_ = Linear(p, stem, Role::patch_embed, c.patch_pixels(), c.embed_dim);
  patch_out_ = norm(stem, &StemSites::patch_out, sizes.front());
  for (const SwinStage& s : swin_stages(c)) {
    Stage& stage = stages_.emplace_back();
    stage.sizes = s;
    stage.name = "stages." + std::to_string(stages_.size() - 1);
    const BlockSizes& stage_sizes = sizes[std::size_t(s.first_block)];
    Place place{.stage = stage.name + ".", .layer = s.first_block};
    if (stages_.size() > 1) {
      stage.merge = norm(place, &Placement::merge, stage_sizes);
      stage.reduction = Linear(p, place, Role::reduction, 2 * s.embed_dim, s.embed_dim, c.reduction_bias);
    }
    stage.blocks.reserve(std::size_t(s.depth));
    for (std::int64_t i = 0; i < s.depth; ++i) {
      const auto [rows, columns] = s.shift(i);
      place.block = i;
      ++place.layer;
      stage.blocks.emplace_back(p, BranchConfig(c, place, stage_sizes, c.depth()),
                                Windows{.height = s.height,
                                        .width = s.width,
                                        .window = s.window,
                                        .shift_y = rows,
                                        .shift_x = columns,
                                        .padding = c.window_padding});
    }
  }
  final_ = norm(end, &Placement::final, sizes.back());
  pooled_ = norm(end, &Placement::pooled, sizes.back());
  head_ = Linear(p, end, Role::head, sizes.back().embed_dim, c.num_classes);
}

void Swin::prepare(Backend& backend, std::int64_t images, DType dtype) const {
  patch_embed_.prepare(backend, images * stages_.front().sizes.tokens(), dtype);
  for (const Stage& stage : stages_) {
    stage.reduction.prepare(backend, images * stage.sizes.tokens(), dtype);
    for (const Block& block : stage.blocks) block.prepare(backend, images, stage.sizes.tokens(), dtype);
  }
  head_.prepare(backend, images, dtype);
}

Var Swin::operator()(const Var& images, const Shard& shard) const {
  const SwinConfig& c = config_;
  require_shape("swin", "images", images.shape(), {images.shape()[0], c.image_size[0], c.image_size[1], c.channels});
  Var z = shard.in_part({}, {}, [&](const Shard& here) {  // [B, N, D]
    here.tape.at("patch_embed");
    const Var patches = patch_in_(patchify(images, c.patch_size, c.patch_size), here);
    const Var embedded = here.show("stem", patch_out_(patch_embed_(patches, here), here));
    return here.dropout(embedded, c.dropout.stem, "stem");
  });
  const SwinStage* before = nullptr;
  for (const Stage& stage : stages_) {
    if (before) {
      shard.tape.at(stage.name.c_str());
      const Var merged = merge_patches(z, before->height, before->width);  // [B, N/4, 4 C]
      z = stage.reduction(stage.merge(merged, shard), shard);              // [B, N/4, 2 C]
    }
    for (const Block& block : stage.blocks) z = block(z, shard);
    before = &stage.sizes;
  }
  const Var tokens = final_(z, shard);
  shard.tape.at("pool");
  return head(pooled_(mean_tokens(tokens), shard), shard);
}

Var Swin::head(const Var& features, const Shard& shard) const {
  return head_(shard.show("pre_logits", features), shard);
}

}  // namespace normlab
