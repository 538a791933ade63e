// The two residual branches of a block, attention over the whole image or inside windows, with a norm of any kind at
// every site.
#pragma once

#include <optional>
#include <string>

#include "nn/layers.h"
#include "nn/vit_config.h"

namespace normlab {

/// What a block is made from.
struct BranchConfig {
  Place place;
  BlockSizes sizes;
  bool qkv_bias;
  Gelu gelu;
  double dropout, attention_dropout, drop_path;
  const Placement& placement;
};

/// y = post(x + path(layer_scale * drop(out(after_proj(proj(inner(before_proj(heads))))))))
class AttentionBranch {
 public:
  /// With `windows`: attention inside them, with the parameter `BLOCK.attn.bias_table` [(2 window - 1)^2, heads]; the
  /// sites from query to inner then see windows, padding included.
  AttentionBranch(ParameterSet& parameters, const BranchConfig& config, const std::optional<Windows>& windows = {});
  Stream operator()(Stream x, const Context& ctx) const;  // [B, N, D] to the same
  void prepare(Backend& backend, std::int64_t images, std::int64_t tokens, DType dtype) const;

 private:
  Var heads(const Var& h, std::int64_t images, const Context& ctx) const;  // [.., N, D], heads joined
  bool cuts() const { return windows_ && !windows_->whole(); }
  bool ends_with_product(const Context& ctx) const;  // nothing lies between the projection and the sum
  std::int64_t heads_, head_dim_;
  double dropout_, attention_dropout_, drop_path_;
  std::optional<Windows> windows_;
  int bias_table_ = -1;
  std::string drop_name_, weights_name_, path_name_;
  Norm pre_, query_, key_, value_, inner_, out_, post_;
  QkvLinear qkv_;
  Linear proj_;
  Gain before_proj_, after_proj_, layer_scale_;
};

/// y = post(residual_scale * x + path(layer_scale * drop(out(fc2(drop(inner(gelu(hidden(fc1(pre(x)))))))))))
class MlpBranch {
 public:
  MlpBranch(ParameterSet& parameters, const BranchConfig& config);
  Stream operator()(Stream x, const Context& ctx) const;
  void prepare(Backend& backend, std::int64_t rows, DType dtype) const;

 private:
  /// From what fc2 is applied to, a Var or Activation, on.
  template <class Inner>
  Stream end(const Var& x, const Inner& inner, const Context& ctx) const;
  bool ends_with_product(const Context& ctx) const;
  GeluForm gelu_;
  double dropout_, drop_path_;
  std::string drop_name_, hidden_name_, path_name_;
  Norm pre_, hidden_, inner_, out_, post_;
  Linear fc1_, fc2_;
  Gain residual_scale_, layer_scale_;
};

/// Both, with the names under which an observer sees what they give.
struct Block {
  AttentionBranch attention;
  MlpBranch mlp;
  std::string attention_name, mlp_name;
  Block(ParameterSet& parameters, const BranchConfig& config, const std::optional<Windows>& windows = {})
      : attention(parameters, config, windows),
        mlp(parameters, config),
        attention_name(config.place.prefix() + "attn"),
        mlp_name(config.place.prefix() + "mlp") {}
  Stream operator()(const Stream& x, const Context& ctx) const {
    const Stream z = ctx.seen(attention_name, attention(x, ctx));
    return ctx.seen(mlp_name, mlp(z, ctx));
  }
  void prepare(Backend& backend, std::int64_t images, std::int64_t tokens, DType dtype) const {
    attention.prepare(backend, images, tokens, dtype);
    mlp.prepare(backend, images * tokens, dtype);
  }
};

}  // namespace normlab
