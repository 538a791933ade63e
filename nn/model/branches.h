// A block of a Transformer: attention, over the whole image or inside windows, and the MLP, each joined to its shortcut.
// Every site can have a norm of any kind.
#pragma once

#include <optional>
#include <string>

#include "nn/model/heads.h"

namespace normlab {

/// heads = softmax(rotary(query(q)) rotary(key(k))^T / sqrt(d)) value(v), the inner part inner(before_proj(gate(heads))),
/// and its Residual. The placement says what takes the place of 1 / sqrt(d), and whether heads lose a part
/// (ExclusiveHeads).
class AttentionBranch {
 public:
  /// With `windows`: attention inside them, with the parameter `BLOCK.attn.bias_table` [(2 window - 1)^2, heads]. The
  /// sites from query to inner then see windows, padding included.
  AttentionBranch(ParameterSet& parameters, BranchConfig config, const std::optional<Windows>& windows = {});
  /// [B, N, D] to the same shape or, for the first token of the result alone, to [B, 1, D]. The latter not for windows,
  /// norms over a batch or an image, or active dropout.
  Var operator()(const Var& x, const Shard& shard, Tokens tokens = Tokens::all) const;
  bool skips_dropped(Backend& backend) const { return residual_.skips_dropped(backend); }
  void prepare(Backend& backend, std::int64_t images, std::int64_t tokens, DType dtype, Tokens form) const;

 private:
  /// MSA(LN(x)) without the output projection.
  Var inner(const Var& x, const Shard& shard, Tokens tokens) const;
  Var heads(const Var& h, std::int64_t images, const Shard& shard) const;  // [.., N, D], heads joined
  Var first_heads(const Var& h, const Shard& shard) const;                 // [B, 1, D], of the first token
  void show(const Var& q, const Var& k, const Shard& shard) const;
  bool cuts() const { return windows_ && !windows_->whole(); }
  std::int64_t heads_, head_dim_;
  double dropout_;
  std::optional<Windows> windows_;
  int bias_table_ = -1;
  std::string weights_name_;
  BranchInput norm_;
  QkvLinear qkv_;
  Rotary rotary_;
  Norm query_, key_, value_, inner_;
  LearnedScale scale_;
  ExclusiveHeads exclusive_;
  HeadGate gate_;
  Gain before_proj_;
  Residual residual_;
};

/// The inner part is drop(inner(f(hidden(fc1(norm(x)))))), where f also reads fc3(norm(x)) if the MLP is gated.
class MlpBranch {
 public:
  MlpBranch(ParameterSet& parameters, BranchConfig config);
  Var operator()(const Var& x, const Shard& shard) const;
  void prepare(Backend& backend, std::int64_t rows, DType dtype) const;

 private:
  /// MLP(LN(x)) without fc2.
  Activation inner(const Var& x, const Shard& shard) const;
  GeluForm gelu_;
  Elementwise function_;  // unless it is a plain GELU
  double dropout_;
  std::string hidden_name_;
  BranchInput norm_;
  Linear fc1_;
  std::optional<Linear> fc3_;
  Norm hidden_, inner_;
  Residual residual_;
};

struct Block {
  AttentionBranch attention;
  MlpBranch mlp;
  Place place;
  Block(ParameterSet& parameters, const BranchConfig& config, const std::optional<Windows>& windows = {})
      : attention(parameters, config, windows), mlp(parameters, config), place(config.place) {}
  Var operator()(const Var& x, const Shard& shard) const;
  /// Only the first token of the result, see AttentionBranch. For observers all tokens are computed.
  Var first_token(const Var& x, const Shard& shard) const;
  bool skips_dropped(Backend& backend) const { return attention.skips_dropped(backend); }
  /// For `images` images, and for fewer if drop-path may leave fewer.
  void prepare(Backend& backend, std::int64_t images, std::int64_t tokens, DType dtype,
               Tokens form = Tokens::all) const;
};

/// Whether the last block may compute the first token alone: nothing else of it is read.
bool reads_class_token_alone(const ViTConfig& config);

}  // namespace normlab
