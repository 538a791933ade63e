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

namespace normlab {

/// none: identity. layer_norm_fixed: LayerNorm without learnable parameters. affine: only the learnable gain and bias.
/// dyt: gamma * tanh(alpha * x) + beta ("Transformers without Normalization", section 4). group_norm: over all tokens
/// of an image and neighbouring channels ("Group Normalization", section 3).
enum class NormKind : std::uint8_t {
  none,
  layer_norm,
  layer_norm_fixed,
  affine,
  rms_norm,
  batch_norm,
  dyt,
  group_norm
};

/// The norm at one site.
struct NormSpec {
  NormKind kind = NormKind::none;
  double eps = 1e-6;                  // unless the kind has another
  double momentum = 0.1;              // batch_norm: weight of the new value in the running statistics (PyTorch)
  std::int64_t statistics_batch = 0;  // batch_norm: images per statistic; 0 is the whole batch
  double alpha_init = 0.5;            // dyt
  double beta_init = 0.0;             // dyt
  std::int64_t groups = 1;            // group_norm: of neighbouring channels; divides the width
  bool operator==(const NormSpec&) const = default;
};
/// A member of NormSpec that only some kinds use.
using NormSetting = std::variant<double NormSpec::*, std::int64_t NormSpec::*>;

/// What each mean and variance is taken over: none, a row, a group of channels of an image, or a channel of the batch.
/// For batch statistics the shards meet, and evaluation uses running statistics.
enum class Statistics : std::uint8_t { none, row, image, batch };

struct NormParts {
  std::string_view word, sign;                      // in descriptors, and in formulas
  bool gamma = false, beta = false, alpha = false;  // its parameters
  Statistics statistics = Statistics::none;
  std::array<NormSetting, 3> settings{};  // null: no more
  double eps = NormSpec{}.eps;            // the default
  constexpr bool has(NormSetting setting) const {
    return std::find(settings.begin(), settings.end(), setting) != settings.end();
  }
};

/// One row per kind, in the order of NormKind. Norm in layers.cpp computes them.
inline constexpr NormParts kNormKinds[] = {
    {.word = "none", .sign = ""},
    {.word = "layer_norm",
     .sign = "LN",
     .gamma = true,
     .beta = true,
     .statistics = Statistics::row,
     .settings = {&NormSpec::eps}},
    {.word = "layer_norm_fixed", .sign = "LNfixed", .statistics = Statistics::row, .settings = {&NormSpec::eps}},
    {.word = "affine", .sign = "Affine", .gamma = true, .beta = true},
    {.word = "rms_norm", .sign = "RMS", .gamma = true, .statistics = Statistics::row, .settings = {&NormSpec::eps}},
    {.word = "batch_norm",
     .sign = "BN",
     .gamma = true,
     .beta = true,
     .statistics = Statistics::batch,
     .settings = {&NormSpec::eps, &NormSpec::momentum, &NormSpec::statistics_batch},
     .eps = 1e-5},
    {.word = "dyt",
     .sign = "DyT",
     .gamma = true,
     .beta = true,
     .alpha = true,
     .settings = {&NormSpec::alpha_init, &NormSpec::beta_init}},
    {.word = "group_norm",
     .sign = "GN",
     .gamma = true,
     .beta = true,
     .statistics = Statistics::image,
     .settings = {&NormSpec::eps, &NormSpec::groups},
     .eps = 1e-5},
};
static_assert(std::size(kNormKinds) == std::size_t(NormKind::group_norm) + 1);
constexpr const NormParts& parts_of(NormKind kind) { return kNormKinds[std::size_t(kind)]; }

/// Whether it divides by a deviation, to which an epsilon is added.
constexpr bool has_eps(NormKind kind) { return parts_of(kind).has(&NormSpec::eps); }

/// A norm of this kind with every setting at its default.
constexpr NormSpec norm_of(NormKind kind) { return {.kind = kind, .eps = parts_of(kind).eps}; }

/// `patch_in` sees the flattened patch (row, column, channel), `patch_out` the embedding, `posembed_out` the tokens
/// after positions are added.
struct StemSites {
  NormSpec patch_in{}, patch_out{}, posembed_out{};
  bool posembed_out_includes_class = true;  // the class token passes posembed_out too
  bool operator==(const StemSites&) const = default;
};

/// y = post(x + path(layer_scale * drop(out(after_proj(proj(inner(before_proj(heads))))))))
/// heads = softmax(query(q) key(k)^T / sqrt(d)) value(v), with q, k, v the projections of pre(x).
/// query and key are one head wide, and all heads share their parameters; the others are as wide as the model.
struct AttentionSites {
  NormSpec pre{}, query{}, key{}, value{}, inner{}, out{}, post{};
  bool operator==(const AttentionSites&) const = default;
};

/// y = post(residual_scale * x + path(layer_scale * drop(out(fc2(drop(inner(gelu(hidden(fc1(pre(x)))))))))))
/// hidden and inner are as wide as the MLP.
struct MlpSites {
  NormSpec pre{}, hidden{}, inner{}, out{}, post{};
  bool operator==(const MlpSites&) const = default;
};

/// A learned gain per head, before the output projection (NormFormer's paper) or on its output (a common variant).
enum class HeadScale : std::uint8_t { none, before_proj, after_proj };

enum class LayerScaleKind : std::uint8_t { none, channel, scalar };

/// A learned gain on both branches ("Going deeper with Image Transformers", section 2).
struct LayerScale {
  LayerScaleKind kind = LayerScaleKind::none;
  bool auto_init = true;  // 0.1 up to depth 18, 1e-5 up to 24, 1e-6 beyond
  double init = 0.0;      // used if auto_init is false
  bool operator==(const LayerScale&) const = default;
};

/// Multiplies the drawn values of v, out, fc1 and fc2, for every initialiser.
struct InitGain {
  bool sub_ln = false;  // sqrt(log(2 depth)), Magneto section 2.2
  double value = 1.0;   // used if sub_ln is false
  bool operator==(const InitGain&) const = default;
};

/// Sites of some blocks that differ from those of the others.
struct BlockRange {
  std::int64_t first = 0, last = 0;  // inclusive
  AttentionSites attn{};
  MlpSites mlp{};
  bool holds(std::int64_t block) const { return first <= block && block <= last; }
  bool operator==(const BlockRange&) const = default;
};

/// "3" or "0-3".
std::string block_range_name(std::int64_t first, std::int64_t last);
/// Ascending numbers as runs: "0-3,7".
std::string runs_name(const std::vector<std::int64_t>& numbers);

/// The largest depth of any network.
inline constexpr std::int64_t kMaxDepth = 1 << 10;

/// A norm, or none, at each site of a network, and its gains. nn/sites.h says what each site sees.
struct Placement {
  StemSites stem{};
  AttentionSites attn{};
  MlpSites mlp{};
  std::vector<BlockRange> blocks{};  // ascending, disjoint; attn and mlp are the sites of all other blocks
  NormSpec merge{}, final{}, pooled{};
  HeadScale head_scale = HeadScale::none;
  bool residual_scale = false;  // a learned gain per channel on the shortcut of the MLP
  LayerScale layer_scale{};
  InitGain init_gain{};

  /// Sites of block `block`, counted through the whole network (in Swin through its stages).
  const AttentionSites& attention_sites(std::int64_t block) const;
  const MlpSites& mlp_sites(std::int64_t block) const;
  bool operator==(const Placement&) const = default;
};

/// Cuts the ranges so that each lies inside or outside the blocks `first` to `last`, and gives blocks there without a
/// range one with their current sites. Changes no block's sites.
void carve_blocks(Placement& placement, std::int64_t first, std::int64_t last);

/// Brings all spellings of the same `depth` blocks into one form: attn and mlp are the sites that most blocks
/// share (the earlier ones if equally frequent), and ranges are as long as possible. Leaves ranges beyond the
/// depth unchanged.
void simplify_blocks(Placement& placement, std::int64_t depth);

/// A placement with the paper and section it comes from.
struct NamedPlacement {
  std::string_view name, source;
  Placement placement;
};

/// All named placements, in the order of the documentation.
std::span<const NamedPlacement> named_placements();

/// The placement of that name, or nullptr.
const NamedPlacement* find_placement(std::string_view name);

/// "layer_norm", "batch_norm", ... as in descriptors.
constexpr std::string_view to_string(NormKind kind) { return parts_of(kind).word; }

/// Start value of LayerScale in a network of `depth` residual blocks, with the depth rule resolved.
double layer_scale_init(const LayerScale& scale, std::int64_t depth);

/// The factor on v, out, fc1 and fc2 in a network of `depth` blocks.
double init_gain(const InitGain& gain, std::int64_t depth);

}  // namespace normlab
