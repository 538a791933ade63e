#include "nn/model/vit_config.h"

#include <cmath>

#include "core/error.h"
#include "nn/model/vit.h"

namespace normlab {

std::vector<BlockSizes> block_sizes(const ViTConfig& c) {
  const std::int64_t tokens = c.tokens();
  const BlockSizes block{.patch_pixels = c.patch_pixels(),
                         .embed_dim = c.embed_dim,
                         .num_heads = c.num_heads,
                         .mlp_dim = c.mlp_dim,
                         .patches = c.patches(),
                         .tokens = tokens,
                         .attended = tokens,
                         .window = tokens,
                         .depth = c.depth};
  return std::vector(std::size_t(c.depth), block);
}

ViTConfig text_tower(const ViTConfig& config) {
  const TextConfig& text = config.text;
  ViTConfig tower;
  tower.image_size = {1, text.length};
  tower.patch_size = tower.channels = 1;
  tower.embed_dim = text.embed_dim;
  tower.depth = text.depth;
  tower.num_heads = text.num_heads;
  tower.mlp_dim = text.mlp_dim;
  tower.qkv_bias = config.qkv_bias;
  tower.activation = text.activation;
  tower.mlp = text.mlp;
  tower.gelu = config.gelu;
  tower.init = config.init;
  tower.init.position_std = tower.init.token_std = 0;
  tower.placement = text.placement;
  return tower;
}

std::vector<ConfigProblem> validate(const ViTConfig& c) {
  ConfigChecks checks;
  checks.shared(c);
  checks.blocks(c.placement, c.depth);

  if (!checks.sizes_fit()) return checks.take();  // the following code divides and multiplies them

  if (c.embed_dim % c.num_heads != 0)
    checks.report("num_heads", concat(c.num_heads, " heads do not divide embed_dim ", c.embed_dim));
  checks.patches(c);
  if (c.pos_embed == PosEmbed::sincos2d && !fits_sincos2d(c.embed_dim))
    checks.report("pos_embed",
                  concat("sincos2d needs an embed_dim that is a multiple of 4, and at least 8, got ", c.embed_dim));
  if (const std::int64_t head = c.embed_dim / c.num_heads; c.rotary.given() && head % 4 != 0)
    checks.report("rotary", concat("heads have ", head, " channels, of which rotary positions turn a multiple of 4"));
  if ((c.rotary.grid[0] == 0) != (c.rotary.grid[1] == 0))
    checks.report("rotary.grid", concat("a side of ", c.rotary.grid[0], " beside one of ", c.rotary.grid[1],
                                        "; give both, or 0 for the network's own grid"));
  const auto side = std::int64_t(std::sqrt(double(c.registers)) + 0.5);
  if (c.rotary.register_base > 0 && (c.registers == 0 || side * side != c.registers))
    checks.report("rotary.register_base", concat("the registers turn as a square grid, and ", c.registers,
                                                 " are none; set registers to 1, 4, 9, ..."));
  checks.sites(c.placement, &SiteRow::vit_lacks, block_sizes(c));
  checks.streams(c.placement);
  if (c.pool == Pool::gap && c.task != Task::segment)
    checks.final_before_mean(c.placement.final, c.embed_dim, ", or pool \"token\"");
  if (c.distill_token && c.pool != Pool::token)
    checks.report("distill_token", "a distillation token needs a class token; set pool to \"token\"");
  if (c.distill_token && c.rep_size > 0)
    checks.report("distill_token", "a distillation token cannot have a representation layer; leave out rep_size");
  if (c.distill_token && c.placement.pooled.kind != NormKind::none)
    checks.report("distill_token",
                  "a distillation token pools two vectors, so there is no norm at pooled; leave it out");
  if (c.init.position_std > 0 && c.pos_embed != PosEmbed::learned)
    checks.report("init.position_std", "the network has no learned positions; leave it out");
  if (c.init.token_std > 0 && c.pool != Pool::token)
    checks.report("init.token_std", "the network has no class token; set pool to \"token\", or leave it out");
  if (c.init.head != HeadInit::base && c.task != Task::classify)
    checks.report("init.head", "only a classifier's head can be drawn otherwise; leave it out");
  if (c.task == Task::contrast) {
    for (const ConfigProblem& problem : validate(text_tower(c))) checks.report("text." + problem.key, problem.message);
    checks.size("text.vocabulary", c.text.vocabulary, kVocabularies);
    if (c.text.placement.stem.patch_in.kind != NormKind::none)
      checks.report("text.placement", "stem.patch_in is a site of images; a text tower has none");
    if (c.distill_token) checks.report("distill_token", "a text tower takes the place of the heads; leave it out");
  }
  if (c.task != Task::segment) return checks.take();
  const auto refuse = [&](bool set, const char* key, const char* what) {
    if (set) checks.report(key, concat("task segment pools no tokens, so there is no ", what, "; leave it out"));
  };
  refuse(c.rep_size > 0, "rep_size", "representation layer");
  refuse(c.distill_token, "distill_token", "second head");
  refuse(c.placement.pooled.kind != NormKind::none, "placement", "norm at pooled");
  constexpr std::int64_t kMostLabels = 255;  // of a byte, without the ignored one
  if (c.num_classes > kMostLabels)
    checks.report("num_classes", concat("task segment has at most ", kMostLabels, " classes, got ", c.num_classes));
  return checks.take();
}

}  // namespace normlab
