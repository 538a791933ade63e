#include "nn/model/placement.h"

#include <algorithm>
#include <cmath>

#include "nn/model/limits.h"

namespace normlab {
namespace {

constexpr NormSpec kLN = norm_of(NormKind::layer_norm), kBN = norm_of(NormKind::batch_norm);
constexpr NormSpec kRms = norm_of(NormKind::rms_norm), kDyt = norm_of(NormKind::dyt);
constexpr NormSpec kDerf = norm_of(NormKind::derf), kDyisru = norm_of(NormKind::dyisru);
constexpr NormSpec kSeed = norm_of(NormKind::seednorm), kBhyt = norm_of(NormKind::bhyt);
constexpr NormSpec kGN = norm_of(NormKind::group_norm), kIN = norm_of(NormKind::instance_norm);
constexpr NormSpec kFixed = norm_of(NormKind::layer_norm_fixed), kAffine = norm_of(NormKind::affine);
constexpr NormSpec kL2 = norm_of(NormKind::l2);

// The sites of both branches of a pre-norm Transformer, from which most rows start.
constexpr AttentionSites kAttn{.pre = kLN}, kBnAttn{.pre = kBN}, kBnAttnExtra{.pre = kBN, .value = kBN, .out = kBN};
constexpr AttentionSites kLnAttnExtra{.pre = kLN, .value = kBN, .out = kBN};
constexpr MlpSites kMlp{.pre = kLN};
constexpr AttentionSites kHybrid{.query = kRms, .key = kRms, .value = kRms, .post = kRms};

constexpr std::string_view kNine =
    "Dual PatchNorm (arXiv:2302.01327), section 4.1; Xiong et al. 2020 (arXiv:2002.04745) for post-LN";
constexpr std::string_view kRes =
    "Leveraging Batch Normalization for Vision Transformers (ICCV Workshops 2021), section 4.2, table 3";
constexpr std::string_view kFfn =
    "Leveraging Batch Normalization for Vision Transformers (ICCV Workshops 2021), section 3.3";
constexpr std::string_view kExtra =
    "Leveraging Batch Normalization for Vision Transformers (ICCV Workshops 2021), section 4.2, table 4";
constexpr std::string_view kStem = "Dual PatchNorm (arXiv:2302.01327), section 7, table 6";

const NamedPlacement kPlacements[] = {
    // Attention and MLP each have the norm before the branch, after the sum, or both.
    {"pre_pre", kNine, {.attn = kAttn, .mlp = kMlp, .final = kLN}},
    {"pre_post", kNine, {.attn = kAttn, .mlp = {.post = kLN}, .final = kLN}},
    {"pre_prepost", kNine, {.attn = kAttn, .mlp = {.pre = kLN, .post = kLN}, .final = kLN}},
    {"post_pre", kNine, {.attn = {.post = kLN}, .mlp = kMlp, .final = kLN}},
    {"post_post", kNine, {.attn = {.post = kLN}, .mlp = {.post = kLN}, .final = kLN}},
    {"post_prepost", kNine, {.attn = {.post = kLN}, .mlp = {.pre = kLN, .post = kLN}, .final = kLN}},
    {"prepost_pre", kNine, {.attn = {.pre = kLN, .post = kLN}, .mlp = kMlp, .final = kLN}},
    {"prepost_post", kNine, {.attn = {.pre = kLN, .post = kLN}, .mlp = {.post = kLN}, .final = kLN}},
    {"prepost_prepost", kNine, {.attn = {.pre = kLN, .post = kLN}, .mlp = {.pre = kLN, .post = kLN}, .final = kLN}},

    // The same with the norm at the end of the branch, before the sum.
    {"pre_respost", kRes, {.attn = kAttn, .mlp = {.out = kLN}, .final = kLN}},
    {"pre_preres", kRes, {.attn = kAttn, .mlp = {.pre = kLN, .out = kLN}, .final = kLN}},
    {"respost_pre", kRes, {.attn = {.out = kLN}, .mlp = kMlp, .final = kLN}},
    {"respost_respost", kRes, {.attn = {.out = kLN}, .mlp = {.out = kLN}, .final = kLN}},
    {"respost_preres", kRes, {.attn = {.out = kLN}, .mlp = {.pre = kLN, .out = kLN}, .final = kLN}},
    {"preres_pre", kRes, {.attn = {.pre = kLN, .out = kLN}, .mlp = kMlp, .final = kLN}},
    {"preres_respost", kRes, {.attn = {.pre = kLN, .out = kLN}, .mlp = {.out = kLN}, .final = kLN}},
    {"preres_preres", kRes, {.attn = {.pre = kLN, .out = kLN}, .mlp = {.pre = kLN, .out = kLN}, .final = kLN}},

    {"post_post_no_final",
     "Xiong et al. 2020 (arXiv:2002.04745), section 3.1",
     {.attn = {.post = kLN}, .mlp = {.post = kLN}}},

    {"normformer",
     "Dual PatchNorm (arXiv:2302.01327), section 2; NormFormer (arXiv:2110.09456), section 2, without its gains",
     {.attn = {.pre = kLN, .out = kLN}, .mlp = {.pre = kLN, .inner = kLN}, .final = kLN}},
    {"normformer_full",
     "NormFormer (arXiv:2110.09456), section 2",
     {.attn = {.pre = kLN, .out = kLN},
      .mlp = {.pre = kLN, .inner = kLN},
      .final = kLN,
      .head_scale = HeadScale::before_proj,
      .residual_scale = true}},
    {"normformer_head_scale_after_proj",
     "NormFormer (arXiv:2110.09456), section 2, as common implementations place the head gain",
     {.attn = {.pre = kLN, .out = kLN},
      .mlp = {.pre = kLN, .inner = kLN},
      .final = kLN,
      .head_scale = HeadScale::after_proj}},
    {"sub_ln",
     "Magneto (arXiv:2210.06423), section 2",
     {.attn = {.pre = kLN, .inner = kLN},
      .mlp = {.pre = kLN, .inner = kLN},
      .final = kLN,
      .init_gain = {.rule = InitGainRule::sub_ln}}},
    {"sub_ln_preact",
     "Dual PatchNorm (arXiv:2302.01327), section 2: before the non-linearity",
     {.attn = {.pre = kLN, .inner = kLN},
      .mlp = {.pre = kLN, .hidden = kLN},
      .final = kLN,
      .init_gain = {.rule = InitGainRule::sub_ln}}},

    {"dpn",
     "Dual PatchNorm (arXiv:2302.01327), section 4.2",
     {.stem = {.patch_in = kLN, .patch_out = kLN}, .attn = kAttn, .mlp = kMlp, .final = kLN}},
    {"stem_pre", kStem, {.stem = {.patch_in = kLN}, .attn = kAttn, .mlp = kMlp, .final = kLN}},
    {"stem_post", kStem, {.stem = {.patch_out = kLN}, .attn = kAttn, .mlp = kMlp, .final = kLN}},
    {"stem_posembed", kStem, {.stem = {.posembed_out = kLN}, .attn = kAttn, .mlp = kMlp, .final = kLN}},
    {"dpn_only_learnable",
     kStem,
     {.stem = {.patch_in = kAffine, .patch_out = kAffine}, .attn = kAttn, .mlp = kMlp, .final = kLN}},
    {"dpn_rms_norm", kStem, {.stem = {.patch_in = kRms, .patch_out = kRms}, .attn = kAttn, .mlp = kMlp, .final = kLN}},
    {"dpn_no_learnable",
     kStem,
     {.stem = {.patch_in = kFixed, .patch_out = kFixed}, .attn = kAttn, .mlp = kMlp, .final = kLN}},

    {"bn", kFfn, {.attn = kBnAttn, .mlp = {.pre = kBN}, .final = kBN}},
    {"bn_ffnbn", kFfn, {.attn = kBnAttn, .mlp = {.pre = kBN, .hidden = kBN}, .final = kBN}},
    {"bn_ffnbn_postact", kFfn, {.attn = kBnAttn, .mlp = {.pre = kBN, .inner = kBN}, .final = kBN}},
    {"bn_ffnbn_respost", kRes, {.attn = {.out = kBN}, .mlp = {.hidden = kBN, .out = kBN}, .final = kBN}},
    {"bn_ffnbn_preres",
     kRes,
     {.attn = {.pre = kBN, .out = kBN}, .mlp = {.pre = kBN, .hidden = kBN, .out = kBN}, .final = kBN}},
    {"bn_extra_attn", kExtra, {.attn = kBnAttnExtra, .mlp = {.pre = kBN, .hidden = kBN}, .final = kBN}},
    {"bn_extra", kExtra, {.attn = kBnAttnExtra, .mlp = {.pre = kBN, .hidden = kBN, .out = kBN}, .final = kBN}},
    {"bn_plain_extra_attn", kExtra, {.attn = kBnAttnExtra, .mlp = {.pre = kBN}, .final = kBN}},
    {"bn_plain_extra", kExtra, {.attn = kBnAttnExtra, .mlp = {.pre = kBN, .out = kBN}, .final = kBN}},
    {"ln_extra_bn_attn", kExtra, {.attn = kLnAttnExtra, .mlp = kMlp, .final = kLN}},
    {"ln_extra_bn", kExtra, {.attn = kLnAttnExtra, .mlp = {.pre = kLN, .hidden = kBN, .out = kBN}, .final = kLN}},

    {"dyt",
     "Transformers without Normalization (arXiv:2503.10622), section 4",
     {.attn = {.pre = kDyt}, .mlp = {.pre = kDyt}, .final = kDyt}},
    {"rms_norm",
     "Root Mean Square Layer Normalization (arXiv:1910.07467), section 3",
     {.attn = {.pre = kRms}, .mlp = {.pre = kRms}, .final = kRms}},
    {"layer_scale",
     "Going deeper with Image Transformers (arXiv:2103.17239), section 2",
     {.attn = kAttn, .mlp = kMlp, .final = kLN, .layer_scale = {.kind = LayerScaleKind::channel}}},
    {"group_norm",
     "Group Normalization (arXiv:1803.08494), section 3; named beside batch norm by Leveraging Batch Normalization for "
     "Vision Transformers (ICCV Workshops 2021), section 3.2, without axes: here an image's tokens are its positions",
     {.attn = {.pre = kGN}, .mlp = {.pre = kGN}, .final = kGN}},
    {"instance_norm",
     "Instance Normalization (arXiv:1607.08022), section 2; here an image's tokens are its positions, and the final "
     "norm is LN, since the mean of an instance norm over the tokens is its bias",
     {.attn = {.pre = kIN}, .mlp = {.pre = kIN}, .final = kLN}},

    {"peri_ln",
     "Peri-LN (arXiv:2502.02732), section 3; uncertain: the paper may use RMSNorm, and posembed_out stands for its "
     "norm of the embeddings",
     {.stem = {.posembed_out = kLN}, .attn = {.pre = kLN, .out = kLN}, .mlp = {.pre = kLN, .out = kLN}, .final = kLN}},
    {"olmo2",
     "2 OLMo 2 Furious (arXiv:2501.00656), section 3.2; the paper's network has no biases (model.qkv_bias false)",
     {.attn = {.query = kRms, .key = kRms, .out = kRms}, .mlp = {.out = kRms}, .final = kRms, .qk_per_head = false}},
    {"mix_ln",
     "Mix-LN (arXiv:2412.13795), section 3; a quarter is the paper's usual share, less for its large models",
     {.attn = kAttn, .mlp = kMlp, .blocks = {{0, 24, {.post = kLN}, {.post = kLN}}}, .in_percent = true, .final = kLN}},
    {"hybridnorm",
     "HybridNorm (arXiv:2503.04598), section 3",
     {.attn = kHybrid, .final = kRms, .value_per_head = true}},
    {"hybridnorm_star",
     "HybridNorm (arXiv:2503.04598), section 3: HybridNorm*",
     {.attn = kHybrid,
      .blocks = {{0, 0, {.pre = kRms, .query = kRms, .key = kRms, .value = kRms}, {.pre = kRms}}},
      .final = kRms,
      .value_per_head = true}},
    {"deepnorm",
     "DeepNet (arXiv:2203.00555), section 4: an encoder",
     {.attn = {.post = kLN},
      .mlp = {.post = kLN},
      .init_gain = {.rule = InitGainRule::deepnorm},
      .residual_factor = {.rule = ResidualRule::deepnorm}}},
    {"keel",
     "Keel (arXiv:2601.19895); uncertain: the factor is that of public implementations, and so are the kind of norm "
     "and the last norm",
     {.attn = {.pre = kLN, .post = kLN},
      .mlp = {.pre = kLN, .post = kLN},
      .final = kLN,
      .residual_factor = {.rule = ResidualRule::keel}}},
    {"lns",
     "The Curse of Depth (arXiv:2502.05795), section 4: LayerNorm scaling",
     {.attn = kAttn, .mlp = kMlp, .final = kLN, .depth_scale = DepthScale::rsqrt}},
    {"derf",
     "Stronger Normalization-Free Transformers (arXiv:2512.10938), section 4",
     {.attn = {.pre = kDerf}, .mlp = {.pre = kDerf}, .final = kDerf}},
    {"dyisru",
     "The Mathematical Relationship Between Layer Normalization and Dynamic Activation Functions (arXiv:2503.21708); "
     "uncertain: it gives no start value, and alpha = width is chosen here",
     {.attn = {.pre = kDyisru}, .mlp = {.pre = kDyisru}, .final = kDyisru}},
    {"seednorm",
     "SeeDNorm (arXiv:2510.22777); uncertain: formula and start values are those of public implementations",
     {.attn = {.pre = kSeed}, .mlp = {.pre = kSeed}, .final = kSeed}},
    {"bhyt",
     "BHyT (arXiv:2601.09719), the form BHyT*, without the estimated statistics of a block's second norm",
     {.attn = {.pre = kBhyt}, .mlp = {.pre = kBhyt}, .final = kBhyt}},
    {"vit5",
     "ViT-5 (arXiv:2602.08071), its norms and LayerScale; recipe:vit5 also has its rotary positions and registers, and no bias "
     "on q, k and v",
     {.attn = {.pre = kRms, .query = kRms, .key = kRms},
      .mlp = {.pre = kRms},
      .final = kRms,
      .layer_scale = {.kind = LayerScaleKind::channel, .auto_init = false, .init = 1e-4}}},
    {"vit_lite",
     "Compact Transformers (arXiv:2104.05704), as its code computes it: the norm that would be the MLP's is after the "
     "sum of attention",
     {.attn = {.pre = kLN, .post = kLN}, .final = kLN}},
    {"gated_attention",
     "Gated Attention (arXiv:2505.06708): the gate of each channel after attention (G1)",
     {.attn = kAttn, .mlp = kMlp, .final = kLN, .attn_gate = AttnGate::channel}},
    {"siamese_norm",
     "SiameseNorm (arXiv:2602.08064): two residual streams, one normalised after each branch, one before",
     {.attn = {.pre = kLN, .post = kLN}, .mlp = {.pre = kLN, .post = kLN}, .final = kLN, .stream_norm = kLN}},
    {"none", "no norm anywhere", {}},
};

const NamedPlacement kOtherNames[] = {
    {"Pre-LN",
     "pre_pre; Xiong et al. 2020 (arXiv:2002.04745), section 3.1",
     {.attn = kAttn, .mlp = kMlp, .final = kLN}},
    {"Post-LN",
     "post_post_no_final; Xiong et al. 2020 (arXiv:2002.04745), section 3.1",
     {.attn = {.post = kLN}, .mlp = {.post = kLN}}},
    {"sandwich",
     "preres_preres; Sandwich-LN of CogView (arXiv:2105.13290), section 2.4",
     {.attn = {.pre = kLN, .out = kLN}, .mlp = {.pre = kLN, .out = kLN}, .final = kLN}},
    {"qk_norm",
     "pre_pre with norms of queries and keys; Scaling ViT to 22B (arXiv:2302.05442), section 2",
     {.attn = {.pre = kLN, .query = kLN, .key = kLN}, .mlp = kMlp, .final = kLN}},
    {"swin_v2",
     "respost_respost with attention by cosines; Swin Transformer V2 (arXiv:2111.09883), section 3.2",
     {.attn = {.query = kL2, .key = kL2, .out = kLN},
      .mlp = {.out = kLN},
      .final = kLN,
      .attn_scale = AttnScale::learned}},
};

}  // namespace

std::span<const NamedPlacement> named_placements() { return kPlacements; }

std::span<const NamedPlacement> other_placement_names() { return kOtherNames; }

const NamedPlacement* find_placement(std::string_view name) {
  for (const std::span<const NamedPlacement> rows : {named_placements(), other_placement_names()})
    for (const NamedPlacement& row : rows)
      if (row.name == name) return &row;
  return nullptr;
}

double layer_scale_init(const LayerScale& scale, std::int64_t depth) {
  if (!scale.auto_init) return scale.init;
  return depth <= 18 ? 0.1 : depth <= 24 ? 1e-5 : 1e-6;
}

double init_gain(const InitGain& gain, std::int64_t depth) {
  switch (gain.rule) {
    case InitGainRule::sub_ln:
      return std::sqrt(std::log(2.0 * double(depth)));
    case InitGainRule::deepnorm:
      return std::pow(8.0 * double(depth), -0.25);
    default:
      return gain.value;
  }
}

double residual_factor(const ResidualFactor& factor, std::int64_t depth) {
  switch (factor.rule) {
    case ResidualRule::deepnorm:
      return std::pow(2.0 * double(depth), 0.25);
    case ResidualRule::keel:
      return 2.0 * double(depth);
    default:
      return factor.value;
  }
}

double depth_scale(const Placement& placement, std::int64_t layer) {
  return placement.depth_scale == DepthScale::rsqrt ? 1.0 / std::sqrt(double(layer)) : 1.0;
}

namespace {

/// The range with that block, or nullptr.
const BlockRange* range_of(const Placement& placement, std::int64_t block) {
  for (const BlockRange& range : placement.blocks)
    if (range.holds(block)) return &range;
  return nullptr;
}

bool same_sites(const BlockRange& a, const BlockRange& b) { return a.attn == b.attn && a.mlp == b.mlp; }

void resolve_percent(Placement& placement, std::int64_t depth) {
  const auto begin = [&](std::int64_t percent) {
    return percent == 0 ? 0 : std::max<std::int64_t>(1, depth * percent / 100);
  };
  std::vector<BlockRange> ranges;
  for (BlockRange& range : placement.blocks) {
    range.first = begin(range.first);
    range.last = begin(range.last + 1) - 1;
    if (range.first <= range.last) ranges.push_back(range);
  }
  placement.blocks = std::move(ranges);
  placement.in_percent = false;
}

}  // namespace

const AttentionSites& Placement::attention_sites(std::int64_t block) const {
  const BlockRange* range = range_of(*this, block);
  return range == nullptr ? attn : range->attn;
}

const MlpSites& Placement::mlp_sites(std::int64_t block) const {
  const BlockRange* range = range_of(*this, block);
  return range == nullptr ? mlp : range->mlp;
}

std::string runs_name(const std::vector<std::int64_t>& numbers) {
  std::string out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!out.empty()) out += ",";
    out += block_range_name(numbers[i], numbers[end - 1]);
    i = end;
  }
  return out;
}

std::string block_range_name(std::int64_t first, std::int64_t last) {
  return first == last ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(last);
}

std::string block_range_name(const Placement& placement, const BlockRange& range) {
  if (!placement.in_percent) return block_range_name(range.first, range.last);
  return std::to_string(range.first) + "-" + std::to_string(range.last + 1) + "%";
}

void carve_blocks(Placement& placement, std::int64_t first, std::int64_t last) {
  std::vector<BlockRange> out;
  std::int64_t next = first;  // the first block of the carved range that is not in `out` yet
  const auto fill_to = [&](std::int64_t end) {
    if (next <= end) out.push_back({next, end, placement.attn, placement.mlp});
    next = std::max(next, end + 1);
  };
  for (const BlockRange& range : placement.blocks) {
    if (range.first > next) fill_to(std::min(last, range.first - 1));
    const auto add = [&](std::int64_t from, std::int64_t to) {
      if (from <= to) out.push_back({from, to, range.attn, range.mlp});
    };
    add(range.first, std::min(range.last, first - 1));
    add(std::max(range.first, first), std::min(range.last, last));
    add(std::max(range.first, last + 1), range.last);
    if (range.last >= next) next = range.last + 1;
  }
  fill_to(last);
  placement.blocks = std::move(out);
}

Placement NamedPlacement::at(std::int64_t depth) const {
  Placement resolved = placement;
  simplify_blocks(resolved, depth);
  return resolved;
}

void simplify_blocks(Placement& placement, std::int64_t depth) {
  if (placement.in_percent) resolve_percent(placement, depth);
  if (placement.blocks.empty() || placement.blocks.back().last >= depth || depth > limits::kDepth) return;
  std::vector<BlockRange> runs;
  for (std::int64_t i = 0; i < depth; ++i) {
    const BlockRange block{i, i, placement.attention_sites(i), placement.mlp_sites(i)};
    if (!runs.empty() && same_sites(runs.back(), block))
      runs.back().last = i;
    else
      runs.push_back(block);
  }
  const auto blocks_like = [&](const BlockRange& wanted) {
    std::int64_t count = 0;
    for (const BlockRange& run : runs) count += same_sites(run, wanted) ? run.last - run.first + 1 : 0;
    return count;
  };
  const BlockRange* rest = &runs.front();
  for (const BlockRange& run : runs)
    if (blocks_like(run) > blocks_like(*rest)) rest = &run;
  placement.attn = rest->attn;
  placement.mlp = rest->mlp;
  placement.blocks.clear();
  const BlockRange shared = *rest;
  for (const BlockRange& run : runs)
    if (!same_sites(run, shared)) placement.blocks.push_back(run);
}

}  // namespace normlab
