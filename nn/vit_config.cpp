#include "nn/vit_config.h"

#include "core/error.h"

namespace normlab {
namespace {

// Far above every model of the papers, and low enough that no count of parameters or multiply-adds leaves 63 bits.
constexpr std::int64_t kMaxSide = 1 << 16, kMaxTokens = 1 << 16, kMaxWidth = 1 << 16;
constexpr std::int64_t kMaxChannels = 1 << 10, kMaxMlp = 1 << 17, kMaxClasses = 1 << 22;

std::int64_t parameters_of(NormKind kind, std::int64_t width) {
  const NormParts& parts = parts_of(kind);
  return width * (int(parts.gamma) + int(parts.beta)) + int(parts.alpha);
}

std::int64_t norm_parameters(const ViTConfig& c) {
  std::int64_t sum = 0, copies = 1;
  const auto see = [&](std::string_view site, const NormSpec& spec) {
    if (site == "merge") return;  // Swin only
    std::int64_t width = c.embed_dim;
    if (site == "stem.patch_in") width = c.patch_pixels();
    if (site == "attn.query" || site == "attn.key") width = c.embed_dim / c.num_heads;
    if (site == "mlp.hidden" || site == "mlp.inner") width = c.mlp_dim;
    const bool in_block = site.substr(0, 5) == "attn." || site.substr(0, 4) == "mlp.";
    sum += (in_block ? copies : 1) * parameters_of(spec.kind, width);
  };
  std::int64_t others = c.depth;
  for (const BlockRange& range : c.placement.blocks) {
    copies = range.last - range.first + 1;
    others -= copies;
    visit_block_sites(range, see);
  }
  copies = others;
  visit_sites(c.placement, see);
  return sum;
}

std::int64_t gain_parameters(const ViTConfig& c) {
  const Placement& p = c.placement;
  std::int64_t per_block = 0;
  if (p.head_scale != HeadScale::none) per_block += c.num_heads;
  if (p.residual_scale) per_block += c.embed_dim;
  if (p.layer_scale.kind != LayerScaleKind::none)
    per_block += 2 * (p.layer_scale.kind == LayerScaleKind::channel ? c.embed_dim : 1);
  return c.depth * per_block;
}

}  // namespace

ModelCost model_cost(const ViTConfig& c) {
  const std::int64_t d = c.embed_dim, m = c.mlp_dim, n = c.patches(), t = c.tokens();
  const std::int64_t head_in = c.rep_size > 0 ? c.rep_size : d;

  std::int64_t parameters = d * c.patch_pixels() + d;
  if (c.pool == Pool::token) parameters += d;
  if (c.pos_embed == PosEmbed::learned) parameters += (n + (c.class_position() ? 1 : 0)) * d;
  parameters += c.depth * (4 * d * d + (c.qkv_bias ? 4 : 1) * d + 2 * d * m + m + d);
  if (c.rep_size > 0) parameters += c.rep_size * (d + 1);
  parameters += c.num_classes * (head_in + 1) + norm_parameters(c) + gain_parameters(c);

  const std::int64_t block_macs = 4 * t * d * d + 2 * t * t * d + 2 * t * d * m;
  const std::int64_t head_macs = c.rep_size * d + c.num_classes * head_in;
  return {parameters, n * d * c.patch_pixels() + c.depth * block_macs + head_macs};
}

std::vector<ConfigProblem> validate(const ViTConfig& c) {
  std::vector<ConfigProblem> problems;
  const auto report = [&](const std::string& key, const std::string& message) { problems.push_back({key, message}); };
  bool sizes_fit = true;
  const auto size = [&](const char* key, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value >= low && value <= high) return;
    sizes_fit = false;
    report(key, concat(key, " must be from ", low, " to ", high, ", got ", value));
  };
  size("image_size", c.image_size[0], 1, kMaxSide);
  if (c.image_size[1] != c.image_size[0]) size("image_size", c.image_size[1], 1, kMaxSide);
  size("channels", c.channels, 1, kMaxChannels);
  size("patch_size", c.patch_size, 1, kMaxSide);
  size("embed_dim", c.embed_dim, 1, kMaxWidth);
  size("depth", c.depth, 1, kMaxDepth);
  size("num_heads", c.num_heads, 1, kMaxWidth);
  size("mlp_dim", c.mlp_dim, 1, kMaxMlp);
  size("num_classes", c.num_classes, 1, kMaxClasses);
  size("rep_size", c.rep_size, 0, kMaxWidth);

  for (const BlockRange& range : c.placement.blocks)
    if (range.last >= c.depth)
      report("placement.blocks." + block_range_name(range.first, range.last),
             concat("there is no block ", range.last, ": depth ", c.depth, " has the blocks 0 to ", c.depth - 1));

  const auto rate = [&](const char* key, double value) {
    if (!(value >= 0.0 && value < 1.0)) report(key, concat(key, " must be at least 0 and below 1, got ", value));
  };
  rate("dropout", c.dropout);
  rate("attention_dropout", c.attention_dropout);
  rate("drop_path", c.drop_path);
  if (!sizes_fit) return problems;  // what follows divides and multiplies them

  if (c.embed_dim % c.num_heads != 0)
    report("num_heads", concat(c.num_heads, " heads do not divide embed_dim ", c.embed_dim));
  if (c.image_size[0] % c.patch_size != 0 || c.image_size[1] % c.patch_size != 0)
    report("patch_size",
           concat("patches of ", c.patch_size, " do not divide an image of ", c.image_size[0], " x ", c.image_size[1]));
  else if (c.patches() > kMaxTokens)
    report("patch_size", concat(c.patches(), " patches an image, at most ", kMaxTokens, "; take a larger patch"));
  if (c.pos_embed == PosEmbed::sincos2d && c.embed_dim % 4 != 0)
    report("pos_embed", concat("sincos2d needs an embed_dim that is a multiple of 4, got ", c.embed_dim));
  return problems;
}

}  // namespace normlab
