// The Vision Transformer, "An Image is Worth 16x16 Words" (Dosovitskiy et al. 2021), with a norm of any kind at every
// site.
#pragma once

#include <vector>

#include "nn/layers.h"
#include "nn/vit_config.h"

namespace normlab {

/// y = post(x + path(layer_scale * drop(out(after_proj(proj(inner(before_proj(heads))))))))
class AttentionBranch {
 public:
  AttentionBranch(ParameterSet& parameters, const std::string& block, const ViTConfig& config, std::int64_t index);
  Var operator()(const Var& x, const Context& ctx) const;  // [B, N, D] to the same
  void prepare(Backend& backend, std::int64_t images, std::int64_t tokens, DType dtype) const;

 private:
  Var heads(const Var& h, const Context& ctx) const;  // [B, N, D], heads joined
  bool ends_with_product(const Context& ctx) const;   // nothing lies between the projection and the sum
  std::int64_t heads_, head_dim_;
  double dropout_, attention_dropout_, drop_path_;
  std::string drop_name_, weights_name_, path_name_;
  Norm pre_, query_, key_, value_, inner_, out_, post_;
  QkvLinear qkv_;
  Linear proj_;
  Gain before_proj_, after_proj_, layer_scale_;
};

/// y = post(residual_scale * x + path(layer_scale * drop(out(fc2(drop(inner(gelu(hidden(fc1(pre(x)))))))))))
class MlpBranch {
 public:
  MlpBranch(ParameterSet& parameters, const std::string& block, const ViTConfig& config, std::int64_t index);
  Var operator()(const Var& x, const Context& ctx) const;
  void prepare(Backend& backend, std::int64_t rows, DType dtype) const;

 private:
  bool ends_with_product(const Context& ctx) const;
  GeluForm gelu_;
  double dropout_, drop_path_;
  std::string drop_name_, hidden_name_, path_name_;
  Norm pre_, hidden_, inner_, out_, post_;
  Linear fc1_, fc2_;
  Gain residual_scale_, layer_scale_;
};

class ViT {
 public:
  /// Declares all parameters, in the order data meets them. Throws InputError with every problem of `config`.
  ViT(ParameterSet& parameters, const ViTConfig& config);
  ViT(const ViT&) = delete;
  ViT& operator=(const ViT&) = delete;

  /// images [B, H, W, C] to logits [B, num_classes].
  Var operator()(const Var& images, const Context& ctx) const;
  /// Lets `backend` get ready for the products of a shard of `images`, so that no step has to.
  void prepare(Backend& backend, std::int64_t images, DType dtype) const;
  const ViTConfig& config() const { return config_; }

 private:
  Var stem(const Var& images, const Context& ctx) const;
  Var positions(const Context& ctx) const;

  ViTConfig config_;
  Norm patch_in_, patch_out_, posembed_out_, final_, pooled_;
  Linear patch_embed_, rep_, head_;
  int pos_embed_ = -1, cls_token_ = -1;
  std::vector<double> sincos_;  // the fixed table [patches, D]
  std::vector<float> sincos_float_;
  struct Block {
    AttentionBranch attention;
    MlpBranch mlp;
    std::string attention_name, mlp_name;
  };
  std::vector<Block> blocks_;
};

/// Fixed positions [height * width, dim], token = y width + x, rows (sin x w, cos x w, sin y w, cos y w) with w_k =
/// 10000^(-k / (dim/4 - 1)) (Big Vision's sincos2d, "Better plain ViT baselines"). dim must be a multiple of four, at
/// least eight.
std::vector<double> sincos2d(std::int64_t height, std::int64_t width, std::int64_t dim);

}  // namespace normlab
