// Texts to vectors of the images' width, and the loss of pairs of image and text.
#pragma once

#include <string_view>
#include <vector>

#include "autograd/contrast.h"
#include "nn/model/branches.h"

namespace normlab {

/// The prefix of its parameters' names.
inline constexpr std::string_view kTextStage = "text.";

class TextTower {
 public:
  /// Declares the parameters of the tower of `config`, of t and of b. Throws nothing: `config` is valid.
  TextTower(ParameterSet& parameters, const ViTConfig& config);
  TextTower(const TextTower&) = delete;
  TextTower& operator=(const TextTower&) = delete;

  /// ids i32 [B, length], each below the vocabulary's size, to [B, width].
  Var operator()(Tensor ids, DType dtype, const Shard& shard) const;
  /// Losses [B] of images' features [B, width] and their texts.
  Var losses(const Var& features, Tensor ids, ContrastKind kind, const Shard& shard) const;
  void prepare(Backend& backend, std::int64_t texts, DType dtype) const;

 private:
  ViTConfig config_;  // of its blocks
  int embedding_, positions_, temperature_, bias_;
  Norm embedded_, posembed_out_, final_, pooled_;
  ResidualStreams streams_;
  std::vector<Block> blocks_;
  Linear out_;
};

}  // namespace normlab
