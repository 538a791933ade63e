#include "nn/vit_config.h"

#include "core/error.h"
#include "nn/vit.h"

namespace normlab {
namespace {

/// Calls see(kind, width, rows an image) for every norm.
template <class F>
void for_norms(const ViTConfig& c, F&& see) {
  visit_network_sites(c.placement, c.depth, [&](std::string_view site, const NormSpec& spec, std::int64_t) {
    if (site == "merge" || spec.kind == NormKind::none) return;  // merge: Swin only
    const bool of_head = site == "attn.query" || site == "attn.key";
    std::int64_t width = c.embed_dim, rows = c.tokens();
    if (site == "stem.patch_in") width = c.patch_pixels();
    if (site == "mlp.hidden" || site == "mlp.inner") width = c.mlp_dim;
    if (site == "stem.patch_in" || site == "stem.patch_out") rows = c.patches();
    if (site == "pooled") rows = 1;
    see(spec.kind, of_head ? width / c.num_heads : width, of_head ? rows * c.num_heads : rows);
  });
}

}  // namespace

ModelCost model_cost(const ViTConfig& c) {
  const std::int64_t d = c.embed_dim, m = c.mlp_dim, n = c.patches(), t = c.tokens();
  const std::int64_t head_in = c.rep_size > 0 ? c.rep_size : d;

  std::int64_t parameters = d * c.patch_pixels() + d;
  parameters += c.prefix() * d;
  if (c.pos_embed == PosEmbed::learned) parameters += (n + (c.class_position() ? c.prefix() : 0)) * d;
  parameters += c.depth * (4 * d * d + (c.qkv_bias ? 4 : 1) * d + 2 * d * m + m + d);
  if (c.rep_size > 0) parameters += c.rep_size * (d + 1);
  const std::int64_t heads = c.distill_token ? 2 : 1;
  parameters += heads * c.num_classes * (head_in + 1) + c.depth * gain_parameters(c.placement, d, c.num_heads);

  const std::int64_t block_macs = 4 * t * d * d + 2 * t * t * d + 2 * t * d * m;
  const std::int64_t head_macs = c.rep_size * d + heads * c.num_classes * head_in;
  ModelCost cost{parameters, n * d * c.patch_pixels() + c.depth * block_macs + head_macs};
  for_norms(c, [&](NormKind kind, std::int64_t width, std::int64_t rows) { cost.add_norm(kind, width, rows); });
  return cost;
}

std::vector<ConfigProblem> validate(const ViTConfig& c) {
  ConfigChecks checks;
  checks.shared(c);
  checks.size("depth", c.depth, 1, kMaxDepth);
  checks.size("num_heads", c.num_heads, 1, limits::kWidth);
  checks.size("mlp_dim", c.mlp_dim, 1, limits::kMlp);
  checks.size("rep_size", c.rep_size, 0, limits::kWidth);
  checks.blocks(c.placement, c.depth);

  if (!checks.sizes_fit()) return checks.take();  // what follows divides and multiplies them

  if (c.embed_dim % c.num_heads != 0)
    checks.report("num_heads", concat(c.num_heads, " heads do not divide embed_dim ", c.embed_dim));
  if (c.image_size[0] % c.patch_size != 0 || c.image_size[1] % c.patch_size != 0)
    checks.report("patch_size", concat("patches of ", c.patch_size, " do not divide an image of ", c.image_size[0],
                                       " x ", c.image_size[1]));
  else if (c.patches() > limits::kTokens)
    checks.report("patch_size",
                  concat(c.patches(), " patches an image, at most ", limits::kTokens, "; take a larger patch"));
  if (c.pos_embed == PosEmbed::sincos2d && !fits_sincos2d(c.embed_dim))
    checks.report("pos_embed",
                  concat("sincos2d needs an embed_dim that is a multiple of 4, and at least 8, got ", c.embed_dim));
  if (c.placement.merge.kind != NormKind::none) checks.report("placement", "merge is a site of Swin; a ViT has none");
  if (c.distill_token && c.pool != Pool::token)
    checks.report("distill_token", "a distillation token stands beside a class token; set pool token");
  if (c.distill_token && c.rep_size > 0)
    checks.report("distill_token", "a distillation token has no representation layer; leave out rep_size");
  if (c.distill_token && c.placement.pooled.kind != NormKind::none)
    checks.report("distill_token", "with a distillation token two vectors are pooled; leave out the norm at pooled");
  return checks.take();
}

}  // namespace normlab
