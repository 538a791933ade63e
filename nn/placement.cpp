#include "nn/placement.h"

#include <algorithm>
#include <cmath>

namespace normlab {
namespace {

constexpr NormSpec kLN = norm_of(NormKind::layer_norm), kBN = norm_of(NormKind::batch_norm);
constexpr NormSpec kRms = norm_of(NormKind::rms_norm), kDyt = norm_of(NormKind::dyt);
constexpr NormSpec kFixed = norm_of(NormKind::layer_norm_fixed), kAffine = norm_of(NormKind::affine);

// The sites of both branches of a pre-norm Transformer, from which most rows start.
constexpr AttentionSites kAttn{.pre = kLN}, kBnAttn{.pre = kBN}, kBnAttnExtra{.pre = kBN, .value = kBN, .out = kBN};
constexpr AttentionSites kLnAttnExtra{.pre = kLN, .value = kBN, .out = kBN};
constexpr MlpSites kMlp{.pre = kLN};

constexpr std::string_view kNine =
    "Dual PatchNorm (arXiv:2302.01327), section 4.1; Xiong et al. 2020 (arXiv:2002.04745) for post-LN";
constexpr std::string_view kRes =
    "Leveraging Batch Normalization for Vision Transformers (ICCV Workshops 2021), section 4.2, table 3";
constexpr std::string_view kFfn =
    "Leveraging Batch Normalization for Vision Transformers (ICCV Workshops 2021), section 3.3";
constexpr std::string_view kExtra =
    "Leveraging Batch Normalization for Vision Transformers (ICCV Workshops 2021), section 4.2, table 4";
constexpr std::string_view kStem = "Dual PatchNorm (arXiv:2302.01327), section 7, table 6";

constexpr NamedPlacement kPlacements[] = {
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
      .init_gain = {.sub_ln = true}}},
    {"sub_ln_preact",
     "Dual PatchNorm (arXiv:2302.01327), section 2: before the non-linearity",
     {.attn = {.pre = kLN, .inner = kLN},
      .mlp = {.pre = kLN, .hidden = kLN},
      .final = kLN,
      .init_gain = {.sub_ln = true}}},

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
    {"none", "no norm anywhere", {}},
};

}  // namespace

std::span<const NamedPlacement> named_placements() { return kPlacements; }

const NamedPlacement* find_placement(std::string_view name) {
  for (const NamedPlacement& row : kPlacements)
    if (row.name == name) return &row;
  return nullptr;
}

double layer_scale_init(const LayerScale& scale, std::int64_t depth) {
  if (!scale.auto_init) return scale.init;
  return depth <= 18 ? 0.1 : depth <= 24 ? 1e-5 : 1e-6;
}

double init_gain(const InitGain& gain, std::int64_t depth) {
  return gain.sub_ln ? std::sqrt(std::log(2.0 * double(depth))) : gain.value;
}

namespace {

/// The range with that block, or nullptr.
const BlockRange* range_of(const Placement& placement, std::int64_t block) {
  for (const BlockRange& range : placement.blocks)
    if (range.holds(block)) return &range;
  return nullptr;
}

bool same_sites(const BlockRange& a, const BlockRange& b) { return a.attn == b.attn && a.mlp == b.mlp; }

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

void simplify_blocks(Placement& placement, std::int64_t depth) {
  if (placement.blocks.empty() || placement.blocks.back().last >= depth || depth > kMaxDepth) return;
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
