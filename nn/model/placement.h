// Which norm is where: the kinds of norms, the sites of a network, and the named placements of the papers. Data only: a
// new placement is a new row in placement.cpp or a few lines of JSON.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/kernel_settings.h"
#include "core/words.h"

namespace normlab {

/// none: identity. layer_norm_fixed: LayerNorm without learnable parameters. affine: only the learnable gain and bias.
/// group_norm: over all tokens of an image and neighbouring channels ("Group Normalization", section 3); instance_norm:
/// over the tokens of each channel (arXiv:1607.08022). pointwise: gamma * phi(alpha * x + shift) + beta, without
/// statistics; dyt is its tanh without a shift ("Transformers without Normalization", section 4), derf its erf with one
/// (arXiv:2512.10938), dyisru has alpha under the root (arXiv:2503.21708). seednorm: RMSNorm with a gain that depends
/// on the token (arXiv:2510.22777). bhyt: gamma * tanh(alpha * x / (kappa * RMS(x))) (arXiv:2601.09719, the form
/// BHyT*). l2: gamma * x / |x|, as in nGPT (arXiv:2410.01131). whiten, at stem.patch_in only: (C + eps I)^(-1/2) (x -
/// m) with mean m and covariance C of the patches of the first training images, fixed before the first step (the
/// whitened patches of "Dual PatchNorm", appendix A). gated_norm: y sigmoid(up silu(down y)) with y = RMSNorm(x)
/// (arXiv:2601.22966). prep_bn: l LN(x) + (1 - l) (BN(x) + eta x), where l falls from 1 to 0 in a training and an
/// evaluation takes BN(x) + eta x (PRepBN, arXiv:2405.11582, as its code computes it).
enum class NormKind : std::uint8_t {
  none,
  layer_norm,
  layer_norm_fixed,
  affine,
  rms_norm,
  batch_norm,
  dyt,
  group_norm,
  derf,
  pointwise,
  dyisru,
  seednorm,
  bhyt,
  l2,
  instance_norm,
  whiten,
  gated_norm,
  prep_bn,
  formula  // has no word: the text takes its place
};
constexpr auto stated_words(NormKind) {
  return words<NormKind, 1>("none", "layer_norm", "layer_norm_fixed", "affine", "rms_norm", "batch_norm", "dyt",
                            "group_norm", "derf", "pointwise", "dyisru", "seednorm", "bhyt", "l2", "instance_norm",
                            "whiten", "gated_norm", "prep_bn");
}

/// What moves the running statistics of a batch norm. all_groups: once a step, the mean of the statistics of all
/// groups, weighted by their images (Keras with virtual_batch_size). first_group: the first group of each part that
/// passes the network, as on one device that accumulates gradients. first_group_of_step: once a step, the first group of
/// the first part, which is what rank 0 keeps in distributed training, however the batch is accumulated.
enum class RunningFrom : std::uint8_t { all_groups, first_group, first_group_of_step };
constexpr auto stated_words(RunningFrom) {
  return words<RunningFrom>("all_groups", "first_group", "first_group_of_step");
}

struct NormFormula;  // nn/model/norm_formula.h

/// The norm at one site.
struct NormSpec {
  NormKind kind = NormKind::none;
  double eps = 1e-6;                  // unless the kind has another
  double momentum = 0.1;              // of batch statistics: weight of the new value in the running ones (PyTorch)
  std::int64_t statistics_batch = 0;  // of batch statistics: images per statistic; 0 is the whole batch
  RunningFrom running = RunningFrom::all_groups;  // of batch statistics
  double alpha_init = 0.5;                        // unless the kind has another; dyisru: 0 is the width
  double beta_init = 0.0;
  double gamma_init = 1.0;
  std::int64_t groups = 1;                // group_norm: of neighbouring channels; divides the width; 0: the width
  PointwisePhi phi = PointwisePhi::tanh;  // pointwise
  bool shift = true;                      // pointwise: learnable
  double kappa = 10.0;                    // bhyt
  std::int64_t sample = 1000;             // whiten: training images whose patches give mean and covariance
  std::int64_t rank = 16;                 // gated_norm: width between its matrices
  double decay_share = 1.0;               // prep_bn: of the training, in which l falls
  const NormFormula* formula = nullptr;   // formula: the only one of its content
  bool operator==(const NormSpec&) const = default;
};
/// A member of NormSpec that only some kinds use.
using NormSetting = std::variant<double NormSpec::*, std::int64_t NormSpec::*, PointwisePhi NormSpec::*,
                                 bool NormSpec::*, RunningFrom NormSpec::*>;
/// The settings of a kind, null for none, and their defaults. The kind fixes all other members at the values here.
struct NormSettings {
  std::array<NormSetting, 5> members{};
  NormSpec defaults{};
};

/// What computes a norm: an operation of autograd/ops.h or, for product, a linear layer that is never trained.
enum class NormOp : std::uint8_t {
  identity,
  layer_norm,
  rms_norm,
  affine,
  pointwise,
  seednorm,
  bhyt,
  l2,
  group_norm,
  batch_norm,
  product,
  gated_norm,
  prep_bn,
  formula
};

/// The parameters of a norm, [width] but for an alpha of one value. Pointwise ones may also have a shift.
enum class Alpha : std::uint8_t { none, one, channels };
struct NormParameters {
  bool gamma = false, beta = false;
  Alpha alpha = Alpha::none;
};

/// What each mean and variance is taken over: none, a row, a group of channels of an image, or a channel of the batch.
/// For batch statistics the shards meet, and evaluation uses running statistics.
enum class Statistics : std::uint8_t { none, row, image, batch };

/// A kind of norm. Kinds may share an operation and differ in the other columns.
struct NormParts {
  std::string_view word, sign;  // in descriptors, and in formulas
  NormOp op = NormOp::identity;
  NormParameters learns{};
  Statistics over = Statistics::none;
  NormSettings settings{};
  /// Tensors as wide as the site that lie between the operations of a norm of several; 0: it is one operation.
  std::int64_t inner = 0;
  constexpr bool has(NormSetting setting) const {
    return std::find(settings.members.begin(), settings.members.end(), setting) != settings.members.end();
  }
};

/// One row per kind, in the order of NormKind. Norm in layers.cpp computes them.
inline constexpr auto kNormKinds = [] {
  using enum NormOp;
  using enum Statistics;
  using N = NormSpec;
  using S = NormSettings;
  constexpr NormParameters kGain{.gamma = true}, kBoth{.gamma = true, .beta = true};
  constexpr NormParameters kAll{true, true, Alpha::one}, kGated{true, true, Alpha::channels};
  constexpr NormParameters kNoBias{.gamma = true, .alpha = Alpha::one};
  constexpr N kLarge{.eps = 1e-5};
  constexpr S kEps{{&N::eps}}, kL2{{&N::eps, &N::gamma_init}}, kWhiten{{&N::eps, &N::sample}, kLarge};
  constexpr S kGroups{{&N::eps, &N::groups}, kLarge}, kChannels{{&N::eps}, {.eps = 1e-5, .groups = 0}};
  constexpr S kBatch{{&N::eps, &N::momentum, &N::statistics_batch, &N::running}, kLarge};
  constexpr S kPhi{{&N::phi, &N::shift, &N::alpha_init, &N::beta_init}};
  constexpr S kTanh{{&N::alpha_init, &N::beta_init}, {.shift = false}};
  constexpr S kErf{{&N::alpha_init, &N::beta_init}, {.phi = PointwisePhi::erf}};
  constexpr S kIsru{{&N::alpha_init, &N::beta_init}, {.alpha_init = 0, .phi = PointwisePhi::dyisru, .shift = false}};
  constexpr S kSeed{{&N::eps, &N::alpha_init, &N::beta_init}, {.alpha_init = 1}};
  constexpr S kRank{{&N::eps, &N::gamma_init, &N::rank}};
  constexpr S kDecay{{&N::eps, &N::momentum, &N::statistics_batch, &N::running, &N::decay_share}, kLarge};
  constexpr S kKappa{{&N::eps, &N::alpha_init, &N::kappa}, {.alpha_init = 2}};
  return std::to_array<NormParts>({
      {.word = "none", .sign = ""},
      {.word = "layer_norm", .sign = "LN", .op = layer_norm, .learns = kBoth, .over = row, .settings = kEps},
      {.word = "layer_norm_fixed", .sign = "LNfixed", .op = layer_norm, .over = row, .settings = kEps},
      {.word = "affine", .sign = "Affine", .op = affine, .learns = kBoth},
      {.word = "rms_norm", .sign = "RMS", .op = rms_norm, .learns = kGain, .over = row, .settings = kEps},
      {.word = "batch_norm", .sign = "BN", .op = batch_norm, .learns = kBoth, .over = batch, .settings = kBatch},
      {.word = "dyt", .sign = "DyT", .op = pointwise, .learns = kAll, .settings = kTanh},
      {.word = "group_norm", .sign = "GN", .op = group_norm, .learns = kBoth, .over = image, .settings = kGroups},
      {.word = "derf", .sign = "Derf", .op = pointwise, .learns = kAll, .settings = kErf},
      {.word = "pointwise", .sign = "Phi", .op = pointwise, .learns = kAll, .settings = kPhi},
      {.word = "dyisru", .sign = "DyISRU", .op = pointwise, .learns = kAll, .settings = kIsru},
      {.word = "seednorm", .sign = "SeeD", .op = seednorm, .learns = kGated, .over = row, .settings = kSeed},
      {.word = "bhyt", .sign = "BHyT", .op = bhyt, .learns = kNoBias, .over = row, .settings = kKappa},
      {.word = "l2", .sign = "L2", .op = l2, .learns = kGain, .over = row, .settings = kL2},
      {.word = "instance_norm", .sign = "IN", .op = group_norm, .learns = kBoth, .over = image, .settings = kChannels},
      {.word = "whiten", .sign = "Whiten", .op = product, .settings = kWhiten},
      {.word = "gated_norm",
       .sign = "Gated",
       .op = gated_norm,
       .learns = kGain,
       .over = row,
       .settings = kRank,
       .inner = 2},
      {.word = "prep_bn",
       .sign = "PRepBN",
       .op = prep_bn,
       .learns = kBoth,
       .over = batch,
       .settings = kDecay,
       .inner = 2},
      {.word = "formula", .sign = "", .op = formula, .settings = kEps},
  });
}();
static_assert(kNormKinds.size() == std::size_t(NormKind::formula) + 1);
constexpr const NormParts& parts_of(NormKind kind) { return kNormKinds[std::size_t(kind)]; }

/// What the statistics of this norm are over; a formula says it itself.
Statistics statistics_of(const NormSpec& spec);
/// Whether no token depends on another.
inline bool is_of_one_token(const NormSpec& spec) {
  return statistics_of(spec) == Statistics::none || statistics_of(spec) == Statistics::row;
}

/// Whether it divides by a deviation, to which an epsilon is added.
constexpr bool has_eps(NormKind kind) { return parts_of(kind).has(&NormSpec::eps); }

/// A norm of this kind with every setting at its default.
constexpr NormSpec norm_of(NormKind kind) {
  const NormSettings& settings = parts_of(kind).settings;
  NormSpec spec{.kind = kind};
  const auto take = [&](auto member) {
    if (member) spec.*member = settings.defaults.*member;
  };
  for (const NormSetting& setting : settings.members) std::visit(take, setting);
  return spec;
}

/// A member of `spec`: its value if its kind has this setting, and else what the kind fixes.
template <class T>
constexpr T setting(const NormSpec& spec, T NormSpec::*member) {
  const NormParts& parts = parts_of(spec.kind);
  return parts.has(member) ? spec.*member : parts.settings.defaults.*member;
}
/// Whether its function is phi(alpha x + shift) for this phi.
constexpr bool applies(const NormSpec& spec, PointwisePhi phi) {
  return parts_of(spec.kind).op == NormOp::pointwise && setting(spec, &NormSpec::phi) == phi;
}
/// Whether that function has a learned shift.
constexpr bool has_shift(const NormSpec& spec) {
  return parts_of(spec.kind).op == NormOp::pointwise && setting(spec, &NormSpec::shift);
}

/// `patch_in` sees the flattened patch (row, column, channel), `patch_out` the embedding, `posembed_out` the tokens
/// after positions are added.
struct StemSites {
  NormSpec patch_in{}, patch_out{}, posembed_out{};
  bool posembed_out_includes_class = true;  // the class token passes posembed_out too
  bool operator==(const StemSites&) const = default;
};

/// y = post(x + path(layer_scale * drop(out(after_proj(proj(inner(before_proj(gate(heads)))))))))
/// heads = softmax(query(q) key(k)^T / sqrt(d)) value(v), with q, k, v the projections of pre(x).
/// query and key, and value if Placement says so, see one head at a time, and all heads share their parameters; the
/// others are as wide as the model. exclude_self: of each head without its part along the token's own value(v)
/// (ExclusiveHeads).
struct AttentionSites {
  NormSpec pre{}, query{}, key{}, value{}, inner{}, out{}, post{};
  bool exclude_self = false;
  bool operator==(const AttentionSites&) const = default;
};

/// y = post(residual_scale * x + path(layer_scale * drop(out(fc2(drop(inner(f(hidden(fc1(pre(x)))))))))))
/// hidden and inner are as wide as the MLP. f is the activation; if the MLP is gated, f is multiplied by fc3(pre(x)).
struct MlpSites {
  NormSpec pre{}, hidden{}, inner{}, out{}, post{};
  bool operator==(const MlpSites&) const = default;
};

/// A learned gain per head, before the output projection (NormFormer's paper) or on its output (a common variant).
enum class HeadScale : std::uint8_t { none, before_proj, after_proj };
constexpr auto stated_words(HeadScale) { return words<HeadScale>("none", "before_proj", "after_proj"); }

/// A learned gate per head, or per channel of all heads, see HeadGate.
enum class AttnGate : std::uint8_t { none, head, channel };
constexpr auto stated_words(AttnGate) { return words<AttnGate>("none", "head", "channel"); }

/// What queries and keys are multiplied by: 1 / sqrt(d), or a number per head, see LearnedScale.
enum class AttnScale : std::uint8_t { fixed, learned };
constexpr auto stated_words(AttnScale) { return words<AttnScale>("fixed", "learned"); }

enum class LayerScaleKind : std::uint8_t { none, channel, scalar };
constexpr auto stated_words(LayerScaleKind) { return words<LayerScaleKind>("none", "channel", "scalar"); }

/// A learned gain on both branches ("Going deeper with Image Transformers", section 2).
struct LayerScale {
  LayerScaleKind kind = LayerScaleKind::none;
  bool auto_init = true;  // 0.1 up to depth 18, 1e-5 up to 24, 1e-6 beyond
  double init = 0.0;      // used if auto_init is false
  bool operator==(const LayerScale&) const = default;
};

/// A number, or a rule that computes it from the depth.
template <class Rule>
struct NumberOrRule {
  Rule rule = Rule::number;
  double value = 1.0;  // of Rule::number
  bool operator==(const NumberOrRule&) const = default;
};
/// Multiplies the drawn values of v, out, fc1, fc2 and fc3, for every initialiser. sub_ln: sqrt(log(2 depth)), Magneto
/// section 2.2. deepnorm: (8 depth)^(-1/4), arXiv:2203.00555, table of an encoder.
enum class InitGainRule : std::uint8_t { number, sub_ln, deepnorm };
constexpr auto stated_words(InitGainRule) { return words<InitGainRule>("number", "sub_ln", "deepnorm"); }
using InitGain = NumberOrRule<InitGainRule>;
/// Multiplies the shortcut of both branches. deepnorm: (2 depth)^(1/4), arXiv:2203.00555, table of an encoder. keel:
/// 2 depth, arXiv:2601.19895.
enum class ResidualRule : std::uint8_t { number, deepnorm, keel };
constexpr auto stated_words(ResidualRule) { return words<ResidualRule>("number", "deepnorm", "keel"); }
using ResidualFactor = NumberOrRule<ResidualRule>;

/// rsqrt: both `pre` norms of block l, counted from 1, are multiplied by l^(-1/2), bias included (LayerNorm scaling,
/// arXiv:2502.05795).
enum class DepthScale : std::uint8_t { none, rsqrt };
constexpr auto stated_words(DepthScale) { return words<DepthScale>("none", "rsqrt"); }

/// Sites of some blocks that differ from those of the others.
struct BlockRange {
  std::int64_t first = 0, last = 0;  // inclusive
  AttentionSites attn{};
  MlpSites mlp{};
  bool holds(std::int64_t block) const { return first <= block && block <= last; }
  bool operator==(const BlockRange&) const = default;
};

/// A norm, or none, at each site of a network, and its gains. nn/model/sites.h says what each site sees.
struct Placement {
  StemSites stem{};
  AttentionSites attn{};
  MlpSites mlp{};
  std::vector<BlockRange> blocks{};  // ascending, disjoint; attn and mlp are the sites of all other blocks
  /// The numbers in `blocks` are percent of the depth: 0 to 24 is the first quarter. simplify_blocks() replaces them.
  bool in_percent = false;
  NormSpec merge{}, final{}, pooled{};
  HeadScale head_scale = HeadScale::none;
  AttnGate attn_gate = AttnGate::none;
  AttnScale attn_scale = AttnScale::fixed;
  bool residual_scale = false;  // a learned gain per channel on the shortcut of the MLP
  LayerScale layer_scale{};
  InitGain init_gain{};
  bool qk_per_head = true, value_per_head = false;  // whether the norms at query and key, and at value, see one head
  DepthScale depth_scale = DepthScale::none;
  ResidualFactor residual_factor{};
  /// If it is not none, there are two residual streams, and this is the norm at the sites of kStreamSites.
  NormSpec stream_norm{};

  bool has_two_streams() const { return stream_norm.kind != NormKind::none; }
  /// Sites of block `block`, counted through the whole network (in Swin through its stages).
  const AttentionSites& attention_sites(std::int64_t block) const;
  const MlpSites& mlp_sites(std::int64_t block) const;
  bool operator==(const Placement&) const = default;
};

/// "3" or "0-3".
std::string block_range_name(std::int64_t first, std::int64_t last);
/// The same for a range of this placement, "0-25%" if it is in percent.
std::string block_range_name(const Placement& placement, const BlockRange& range);
/// Ascending numbers as runs: "0-3,7".
std::string runs_name(const std::vector<std::int64_t>& numbers);

/// Cuts the ranges so that each lies inside or outside the blocks `first` to `last`, and gives blocks there without a
/// range one with their current sites. Changes no block's sites.
void carve_blocks(Placement& placement, std::int64_t first, std::int64_t last);

/// Brings all spellings of the same `depth` blocks into one form: attn and mlp are the sites that most blocks
/// share (the earlier ones if equally frequent), and ranges are as long as possible. Leaves ranges beyond the
/// depth unchanged. The first p percent are depth p / 100 blocks, rounded down, but at least one.
void simplify_blocks(Placement& placement, std::int64_t depth);

/// A placement with the paper and section it comes from.
struct NamedPlacement {
  std::string_view name, source;
  Placement placement;
  /// With the blocks of a network of `depth`.
  Placement at(std::int64_t depth) const;
};

/// All named placements, in the order of the documentation.
std::span<const NamedPlacement> named_placements();

/// Names that other texts have for a placement. One that a descriptor gives itself comes first.
std::span<const NamedPlacement> other_placement_names();

/// The placement of that name or other name, or nullptr.
const NamedPlacement* find_placement(std::string_view name);

/// "layer_norm", "batch_norm", ... as in descriptors.
constexpr std::string_view to_string(NormKind kind) { return parts_of(kind).word; }

/// Start value of LayerScale in a network of `depth` residual blocks, with the depth rule resolved.
double layer_scale_init(const LayerScale& scale, std::int64_t depth);

/// The factor on v, out, fc1, fc2 and fc3 in a network of `depth` blocks.
double init_gain(const InitGain& gain, std::int64_t depth);
double residual_factor(const ResidualFactor& factor, std::int64_t depth);
/// What the norm `pre` of block `layer`, counted from 1, is multiplied by.
double depth_scale(const Placement& placement, std::int64_t layer);

}  // namespace normlab
