#include "nn/model/swin_config.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace normlab {

std::int64_t SwinConfig::depth() const {
  // Checks also call this, with depths that are not validated yet.
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return std::accumulate(depths.begin(), depths.end(), std::int64_t{0}, [](std::int64_t sum, std::int64_t depth) {
    depth = std::max<std::int64_t>(0, depth);
    return sum > kMost - depth ? kMost : sum + depth;
  });
}

std::vector<SwinStage> swin_stages(const SwinConfig& c) {
  std::vector<SwinStage> stages;
  std::int64_t height = c.image_size[0] / c.patch_size, width = c.image_size[1] / c.patch_size, first = 0;
  std::int64_t dim = c.embed_dim;
  for (std::size_t s = 0; s < c.depths.size(); ++s) {
    stages.push_back({.embed_dim = dim,
                      .num_heads = c.num_heads[s],
                      .mlp_dim = c.mlp_ratio * dim,
                      .height = height,
                      .width = width,
                      .window = std::min({c.window, height, width}),
                      .depth = c.depths[s],
                      .first_block = first});
    first += c.depths[s];
    dim *= 2;
    height = (height + 1) / 2;
    width = (width + 1) / 2;
  }
  return stages;
}

bool pads_shifted(const SwinConfig& config) {
  const std::vector<SwinStage> stages = swin_stages(config);
  return std::any_of(stages.begin(), stages.end(), [](const SwinStage& s) { return s.pads_shifted(); });
}

bool shifts_one_side(const SwinConfig& config) {
  const std::vector<SwinStage> stages = swin_stages(config);
  return std::any_of(stages.begin(), stages.end(), [](const SwinStage& s) { return s.shifts_one_side(); });
}

NormSpec swin_norm(NormKind kind) {
  NormSpec spec = norm_of(kind);
  if (has_eps(kind)) spec.eps = 1e-5;
  return spec;
}

Placement swin_placement(const Placement& row) {
  Placement p = row;
  const auto see = [](std::string_view, NormSpec& spec) {
    if (spec.eps == norm_of(spec.kind).eps) spec.eps = swin_norm(spec.kind).eps;
  };
  visit_sites(p, see);
  for (BlockRange& range : p.blocks) visit_sites(range, see);
  NormSpec main{};
  for (const NormSpec* spec : {&p.final, &p.attn.pre, &p.attn.out, &p.attn.post})
    if (main.kind == NormKind::none) main = *spec;
  if (p.stem.patch_out.kind == NormKind::none) p.stem.patch_out = main;
  if (p.merge.kind == NormKind::none) p.merge = main;
  return p;
}

std::vector<BlockSizes> block_sizes(const SwinConfig& c) {
  std::vector<BlockSizes> sizes;
  for (const SwinStage& s : swin_stages(c)) {
    const BlockSizes block{.patch_pixels = c.patch_pixels(),
                           .embed_dim = s.embed_dim,
                           .num_heads = s.num_heads,
                           .mlp_dim = s.mlp_dim,
                           .patches = s.tokens(),
                           .tokens = s.tokens(),
                           .attended = s.padded_tokens(),
                           .window = s.window * s.window,
                           .depth = c.depth()};
    sizes.insert(sizes.end(), std::size_t(s.depth), block);
  }
  return sizes;
}

std::vector<ConfigProblem> validate(const SwinConfig& c) {
  ConfigChecks checks;
  checks.shared(c);
  bool lists_fit = !c.depths.empty() && c.stages() <= limits::kStages && c.num_heads.size() == c.depths.size();
  if (c.depths.empty() || c.stages() > limits::kStages)
    checks.report("depths", concat("depths must have 1 to ", limits::kStages, " stages, got ", c.stages()));
  else if (!lists_fit)
    checks.report("num_heads", concat("num_heads has ", c.num_heads.size(), " stages, but depths has ", c.stages()));
  if (lists_fit) checks.blocks(c.placement, c.depth());
  if (!checks.sizes_fit() || !lists_fit) return checks.take();  // the following code divides and multiplies them

  if (!checks.patches(c)) return checks.take();
  const std::vector<SwinStage> stages = swin_stages(c);
  if (stages.back().embed_dim > limits::kWidth)
    checks.report("embed_dim", concat("the last stage is ", stages.back().embed_dim, " wide; at most ", limits::kWidth,
                                      " is supported"));
  for (const SwinStage& s : stages)
    if (s.embed_dim % s.num_heads != 0)
      checks.report("num_heads", concat(s.num_heads, " heads do not divide a stage's width of ", s.embed_dim));
  checks.sites(c.placement, &SiteRow::swin_lacks, block_sizes(c));
  if (c.placement.has_two_streams()) checks.report("placement", "stream_norm: only a ViT has two residual streams");
  checks.final_before_mean(c.placement.final, block_sizes(c).back().embed_dim);
  return checks.take();
}

std::vector<std::int64_t> SwinVariant::num_heads() const {
  std::vector<std::int64_t> heads;
  for (std::size_t s = 0; s < depths.size(); ++s) heads.push_back(embed_dim / 32 << s);
  return heads;
}

void set_variant(SwinConfig& c, const SwinVariant& variant) {
  c.embed_dim = variant.embed_dim;
  c.depths.assign(variant.depths.begin(), variant.depths.end());
  c.num_heads = variant.num_heads();
  c.patch_size = 4;
  c.window = 7;
}

}  // namespace normlab
