// How a branch joins its shortcut. A branch computes `inner`, the input of its last linear layer; all after it is here.
#pragma once

#include <optional>
#include <string>

#include "core/function_ref.h"
#include "nn/model/layers.h"
#include "nn/model/rotary.h"
#include "nn/model/vit_config.h"

namespace normlab {

/// Drop-path rate of block i. rising: timm's linspace(0, rate, depth), so that a single block has none.
inline double drop_path_rate(const NetworkConfig& c, std::int64_t i, std::int64_t depth) {
  if (c.drop_path_rates == DropPathRates::constant) return c.drop_path;
  return depth > 1 ? c.drop_path * double(i) / double(depth - 1) : 0.0;
}

/// The settings of a block at `place`, whose branch the branches fill in, from those of its network of `depth` blocks.
struct BranchConfig {
  BranchConfig(const NetworkConfig& c, const Place& place_of, const BlockSizes& sizes_of, std::int64_t blocks)
      : place(place_of),
        sizes(sizes_of),
        depth(blocks),
        placement(c.placement),
        activation(c.activation),
        mlp(c.mlp),
        gelu(c.gelu),
        dropout(c.dropout),
        attention_dropout(c.attention_dropout),
        drop_path(drop_path_rate(c, place.layer - 1, blocks)),
        qkv_bias(c.qkv_bias),
        short_forms(c.short_forms) {}
  Norm norm(ParameterSet& parameters, SiteMember site) const { return {parameters, place, site, placement, sizes}; }

  Rotary rotary{};
  Place place;
  BlockSizes sizes;
  std::int64_t depth;
  const Placement& placement;
  ActivationConfig activation;
  MlpForm mlp;
  GeluForm gelu;
  DropoutRates dropout;
  double attention_dropout, drop_path;
  bool qkv_bias, short_forms;
};

/// The tokens of an image that continue after a branch: all, or only the first, see short_forms.cpp.
enum class Tokens : std::uint8_t { all, first };
/// x [B, N, D], or the first token of each image, [B, 1, D].
Var continuing(const Var& x, Tokens tokens);

/// What a branch computes on: pre(x) or, with two residual streams x and y side by side, input(x + pre(y)).
class BranchInput {
 public:
  BranchInput() = default;
  /// `attention`: of the attention branch; otherwise of the MLP.
  BranchInput(ParameterSet& parameters, const BranchConfig& config, bool attention);
  Var operator()(const Var& x, const Shard& shard) const;

 private:
  Norm input_, pre_;
};

/// The end of a branch, from the input of its last linear layer to the norm `post`:
///   y = post(residual_factor * residual_scale * x + path(layer_scale * drop(out(head_scale(last(inner(x)))))))
/// With two residual streams x and y, side by side, block l from 1 (SiameseNorm, arXiv:2602.08064):
///   x = post(x); z = path(... of input(x + pre(y))); x = x + z / sqrt(2 l); y = y + z
///
/// Operations that run as one because nothing lies between them. The values equal those of the single operations.
///
///   operations            as one               unless one of these lies between
///   fc1, GELU             linear_gelu          norm `hidden`; or values are not kept (Step::spare_memory), or the MLP
///                                              is gated
///   fc1, GELU, fc2        Activation           norm `hidden`, norm `inner`, hidden dropout; or the device has no such
///                                              products
///   last product, sum     linear_add           head scale, windows, norm `out`, dropout, LayerScale, drop-path, a
///                                              second stream
///   drop-path, sum        dropout_add,
///                         scatter_add_images
///
/// MlpBranch decides on the first two.
class Residual {
 public:
  /// The input of the last linear layer, for all or some images of x.
  using Inner = FunctionRef<Activation(const Var& x, const Shard& shard)>;

  Residual() = default;
  /// Declares what lies after the branch's last linear layer of `width` inputs: of the attention branch, which may have
  /// windows, or of the MLP.
  Residual(ParameterSet& parameters, const BranchConfig& config, std::int64_t width,
           const std::optional<Windows>& windows, bool attention);
  /// y from x, for all tokens or the first.
  Var operator()(const Var& x, const Shard& shard, Tokens tokens, Inner inner) const;
  /// Whether training sends only the images kept by drop-path through the branch.
  bool skips_dropped(Backend& backend) const;
  void prepare(Backend& backend, std::int64_t rows, DType dtype) const { last_.prepare(backend, rows, dtype); }
  const std::string& name() const { return name_; }

 private:
  /// x + branch, from the input of the last product.
  Var sum(const Var& x, const Shard& shard, Tokens tokens, Inner inner, const Tensor& mask) const;
  /// The same where only the images that drop-path keeps pass through the branch (short_forms.cpp).
  Var sum_of_passing(const Var& x, const Shard& shard, Tokens tokens, Inner inner, const Tensor& mask) const;
  /// What the branch is added to.
  Var shortcut(const Var& x, const Shard& shard, Tokens tokens) const;
  /// The input of drop-path, from that of the last product.
  Var path(const Activation& inner, const Shard& shard) const;
  /// Whether the last product adds the shortcut.
  bool adds_in_product(const Shard& shard) const;

  double dropout_ = 0, drop_path_ = 0;
  bool short_forms_ = false, two_streams_ = false;
  std::string name_, path_name_;      // "blocks.0.attn"
  std::optional<Windows> windows_{};  // that must be joined to the image
  Norm out_, post_;
  Linear last_;
  Gain head_scale_, layer_scale_, residual_scale_;
  Factor residual_factor_, to_x_;
};

}  // namespace normlab
