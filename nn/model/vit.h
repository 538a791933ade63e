// The Vision Transformer, "An Image is Worth 16x16 Words" (Dosovitskiy et al. 2021), with a norm of any kind at
// every site. With `distill_token` it is DeiT's ("Training data-efficient image transformers", Touvron et al. 2021,
// section 4).
#pragma once

#include <memory>
#include <vector>

#include "nn/model/any_model.h"
#include "nn/model/text_tower.h"
#include "nn/model/vit_config.h"

namespace normlab {

class ViT final : public Model {
 public:
  /// Declares all parameters, in the order in which data passes them. Throws InputError with every problem of `config`.
  ViT(ParameterSet& parameters, const ViTConfig& config);
  ViT(const ViT&) = delete;
  ViT& operator=(const ViT&) = delete;

  /// images [B, H, W, C] to logits [B, num_classes], or of each patch for task segment.
  Var operator()(const Var& images, const Shard& shard) const override;
  Var head(const Var& features, const Shard& shard) const override;
  void prepare(Backend& backend, std::int64_t images, DType dtype) const override;
  bool skips_dropped(Backend& backend) const override { return blocks_.back().skips_dropped(backend); }
  const TextTower* text() const override { return text_.get(); }
  const ViTConfig& config() const { return config_; }

 private:
  Var embed(const Var& images, const Shard& shard) const;
  Var stem(const Var& images, const Shard& shard) const;
  Var logits(const Var& z, const Shard& shard) const;        // [B, N, D] to [B, num_classes]
  Var patch_logits(const Var& z, const Shard& shard) const;  // [B, N, D] to [B, rows, columns, num_classes]
  Var placed(const Var& x, const Shard& shard) const;        // with positions added

  ViTConfig config_;
  Norm patch_in_, patch_out_, posembed_out_, final_, pooled_;
  ResidualStreams streams_;
  Linear patch_embed_, rep_, head_, head_dist_;
  int pos_embed_ = -1, sincos_ = -1, cls_token_ = -1, dist_token_ = -1, registers_ = -1;
  std::vector<Block> blocks_;
  std::unique_ptr<TextTower> text_;
  bool class_token_alone_ = false;  // see reads_class_token_alone()
};

/// Fixed positions [height * width, dim], token = y width + x, rows (sin x w, cos x w, sin y w, cos y w) with
/// w_k = 10000^(-k / (dim/4 - 1)) (Big Vision's sincos2d, "Better plain ViT baselines"). dim must be a multiple of
/// four, at least eight.
constexpr bool fits_sincos2d(std::int64_t dim) { return dim % 4 == 0 && dim >= 8; }
std::vector<double> sincos2d(std::int64_t height, std::int64_t width, std::int64_t dim);

}  // namespace normlab
