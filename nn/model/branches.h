// The two residual branches of a block: attention, over the whole image or inside windows, and the MLP. Every site can
// have a norm of any kind.
#pragma once

#include <optional>
#include <string>

#include "nn/model/layers.h"
#include "nn/model/vit_config.h"

namespace normlab {

/// The settings of a block.
struct BranchConfig {
  Place place;
  BlockSizes sizes;
  bool qkv_bias;
  GeluForm gelu;
  DropoutRates dropout;
  double attention_dropout, drop_path;
  bool short_forms;
  std::int64_t depth;  // blocks of the network
  const Placement& placement;
};

/// What both branches share, from the norm `pre` to the residual sum and the norm `post`:
/// y = post(residual_factor * residual_scale * x + path(layer_scale * drop(out(head_scale(last(inner(...)))))))
/// With two residual streams x and y, side by side, block l from 1 (SiameseNorm, arXiv:2602.08064):
/// x = post(x); z = path(... of input(x + pre(y))); x = x + z / sqrt(2 l); y = y + z
/// In the short form, images dropped by drop-path skip everything inside `path`. Batch norm needs all images, and on a
/// device with its own memory the host does not know which ones are dropped, so neither uses the short form.
class Branch {
 public:
  /// Whether training sends only the images kept by drop-path through the branch.
  bool skips_dropped(Backend& backend) const;

 protected:
  /// `name` is for example "blocks.0.attn". The branches declare the parameters, in the order of the network.
  /// `hidden` and `end`: dropout rates.
  Branch(ParameterSet& parameters, const std::string& name, const BranchConfig& config, double hidden, double end);
  /// The streams as the branch and the sum see them.
  Var begun(const Var& x, const Context& ctx) const;
  /// What the branch computes on, from `begun`: pre(x), or input(x + pre(y)).
  Var entered(const Var& x, const Context& ctx) const;
  /// The norm `post` of the sum, which with two streams the next branch applies.
  Var ended(const Var& sum, const Context& ctx) const { return two_streams() ? sum : post_(sum, ctx); }
  bool two_streams() const { return !input_.is_identity(); }
  /// y from x. inner(images, ctx) gives the input of the last product, a Var or Activation, for all or some images of
  /// x. shortcut() is x, or the one token of x that continues.
  template <class Shortcut, class Inner>
  Var sum(const Var& x, const Context& ctx, const Shortcut& shortcut, const Inner& inner) const;
  /// The sum before `post`, in the short form.
  template <class Shortcut, class Inner>
  Var sum_of_kept(const Tensor& keep, std::int64_t kept, const Var& x, const Context& ctx, const Shortcut& shortcut,
                  const Inner& inner) const;
  /// What the branch is added to, from the shortcut.
  Var scaled(const Var& x, const Context& ctx) const;
  /// From the input of the last product to the input of drop-path.
  template <class Applied>
  Var path(const Applied& inner, const Context& ctx) const;

  /// Operations that run as one because nothing lies between them. The values equal those of the single operations.
  ///
  ///   operations              as one         unless one of these lies between
  ///   fc1, GELU               linear_gelu    norm `hidden`
  ///   fc1, GELU, fc2          Activation     norm `hidden`, norm `inner`, hidden dropout; or the device has no such
  ///   products last product, sum       linear_add     head scale, windows, norm `out`, dropout, LayerScale, drop-path,
  ///   a second stream drop-path, sum          dropout_add, scatter_add_images
  struct Fused {
    bool gelu, through_gelu, sum;
  };
  Fused fused(DType dtype, const Context& ctx) const;
  /// Whether attention works on windows that must be cut out of the image.
  bool cuts() const { return windows_ && !windows_->whole(); }

  GeluForm gelu_;
  double hidden_dropout_, dropout_, drop_path_;
  bool short_forms_;
  std::string name_, path_name_;
  std::optional<Windows> windows_{};
  Norm input_, pre_, hidden_, inner_, out_, post_;
  Linear last_;
  Gain head_scale_, layer_scale_, residual_scale_;
  Factor residual_factor_, to_x_;
};

/// y = post(x + path(layer_scale * drop(out(after_proj(proj(inner(before_proj(heads))))))))
class AttentionBranch : Branch {
 public:
  using Branch::skips_dropped;
  /// With `windows`: attention inside them, with the parameter `BLOCK.attn.bias_table` [(2 window - 1)^2, heads]. The
  /// sites from query to inner then see windows, padding included.
  AttentionBranch(ParameterSet& parameters, const BranchConfig& config, const std::optional<Windows>& windows = {});
  Var operator()(const Var& x, const Context& ctx) const;  // [B, N, D] to the same shape
  /// Only the first token of the result, [B, 1, D]. Not for windows, batch or group norms, or active dropout.
  Var first_token(const Var& x, const Context& ctx) const;
  void prepare(Backend& backend, std::int64_t images, std::int64_t tokens, DType dtype) const;
  void prepare_first_token(Backend& backend, std::int64_t images, std::int64_t tokens, DType dtype) const;

 private:
  Var heads(const Var& h, std::int64_t images, const Context& ctx) const;  // [.., N, D], heads joined
  void show(const Var& q, const Var& k, std::int64_t images, const Context& ctx) const;
  std::int64_t heads_, head_dim_;
  double attention_dropout_;
  int bias_table_ = -1;
  std::string weights_name_;
  Norm query_, key_, value_;
  QkvLinear qkv_;
  Gain before_proj_;
};

/// y = post(residual_factor * residual_scale * x + path(layer_scale *
/// drop(out(fc2(drop(inner(gelu(hidden(fc1(pre(x)))))))))))
class MlpBranch : Branch {
 public:
  MlpBranch(ParameterSet& parameters, const BranchConfig& config);
  Var operator()(const Var& x, const Context& ctx) const;
  void prepare(Backend& backend, std::int64_t rows, DType dtype) const;

 private:
  std::string hidden_name_;
  Linear fc1_;
};

/// Both branches, with the names under which observers see their results.
struct Block {
  AttentionBranch attention;
  MlpBranch mlp;
  std::string attention_name, mlp_name;
  Place place;
  Block(ParameterSet& parameters, const BranchConfig& config, const std::optional<Windows>& windows = {})
      : attention(parameters, config, windows),
        mlp(parameters, config),
        attention_name(config.place.prefix() + "attn"),
        mlp_name(config.place.prefix() + "mlp"),
        place(config.place) {}
  Var operator()(const Var& x, const Context& ctx) const {
    if (ctx.without_layer == place.layer) return x;
    return ctx.in_part(place, x, [&](const Context& here) {
      const auto both = [&] {
        const Var z = here.show(attention_name, attention(x, here));
        return here.show(mlp_name, mlp(z, here));
      };
      const bool kept = here.tape.recording() || here.observers;
      return kept ? both() : here.tape.value_alone(x, both);
    });
  }
  /// Only the first token of the result, see AttentionBranch. For observers all tokens are computed.
  Var first_token(const Var& x, const Context& ctx) const;
  bool skips_dropped(Backend& backend) const { return attention.skips_dropped(backend); }
  /// For `images` images, and for fewer if drop-path may leave fewer.
  void prepare(Backend& backend, std::int64_t images, std::int64_t tokens, DType dtype) const;
  void prepare_first_token(Backend& backend, std::int64_t images, std::int64_t tokens, DType dtype) const;
};

}  // namespace normlab
