// initializers/counts.json: parameters and multiply-adds of the named models, by reading what its labels say.
#include <algorithm>
#include <cmath>

#include "experiments/lab/base/files.h"
#include "experiments/lab/base/strict_json.h"
#include "nn/model/model_config.h"
#include "tests/lab/base/text.h"
#include "tests/reference/fixture.h"

namespace normlab::reference {
namespace {

struct Size {
  std::string_view name;
  std::int64_t embed_dim, depth, num_heads;
};
constexpr Size kSizes[] = {{"Ti", 192, 12, 3},  {"S", 384, 12, 6},          {"B", 768, 12, 12},
                           {"L", 1024, 24, 16}, {"sandbox 64x4", 64, 4, 2}, {"sandbox 192x12", 192, 12, 3}};

struct Label {
  std::string_view label, placement;
};
constexpr Label kPlacements[] = {{"LN", "pre_pre"},
                                 {"BN", "bn"},
                                 {"BN+FFNBN", "bn_ffnbn"},
                                 {"BN+FFNBN, extra BN in attention", "bn_extra_attn"},
                                 {"BN+FFNBN fused", "none"},
                                 {"RMSNorm", "rms_norm"},
                                 {"DyT", "dyt"},
                                 {"LayerScale", "layer_scale"},
                                 {"Dual PatchNorm", "dpn"},
                                 {"Sub-LN", "sub_ln"},
                                 {"NormFormer", "normformer"},
                                 {"NormFormer, head and shortcut gains", "normformer_full"},
                                 {"prepost_prepost", "prepost_prepost"},
                                 {"query and key LN", "pre_pre"},
                                 {"no qkv bias", "pre_pre"}};

const Placement& row(std::string_view name) { return find_placement(name)->placement; }

const Placement& placement_named(const std::string& label) {
  for (const Label& known : kPlacements)
    if (known.label == label) return row(known.placement);
  throw InputError(concat("no rule for the norms \"", label, '"'));
}

/// "ViT-S/16", "DeiT-B/16", "sandbox 64x4", each with or without " GAP" after it.
ViTConfig sized(std::string model) {
  ViTConfig c;
  c.image_size = {224, 224};
  c.num_classes = 1000;
  if (model.ends_with(" GAP")) model.erase(model.size() - 4);
  if (model.starts_with("sandbox")) {
    c.image_size = {32, 32};
    c.num_classes = 10;
    c.patch_size = 4;
  } else {
    const std::size_t slash = model.find('/'), dash = model.find('-');
    if (slash == model.npos || dash > slash) throw InputError(concat("no rule for the model \"", model, '"'));
    c.patch_size = std::stoll(model.substr(slash + 1));
    model = model.substr(dash + 1, slash - dash - 1);
  }
  for (const Size& size : kSizes) {
    if (size.name != model) continue;
    c.embed_dim = size.embed_dim;
    c.depth = size.depth;
    c.num_heads = size.num_heads;
    c.mlp_dim = 4 * size.embed_dim;
    return c;
  }
  throw InputError(concat("no rule for the size \"", model, '"'));
}

ViTConfig vit_of(const std::string& model, const std::string& variant) {
  ViTConfig c = sized(model);
  c.placement = row("pre_pre");
  if (model.ends_with(" GAP")) {
    c.placement = placement_named(variant);
    if (variant == "query and key LN") c.placement.attn.query = c.placement.attn.key = norm_of(NormKind::layer_norm);
    c.qkv_bias = variant != "no qkv bias";
  } else if (model.starts_with("DeiT-")) {
    c.pool = Pool::token;
    c.pos_embed_class = true;
    c.distill_token = variant.starts_with("distilled");
  } else {
    if (has(variant, "class token")) c.pool = Pool::token;
    c.pos_embed_class = has(variant, "positions for all tokens");
    if (has(variant, "sincos2d")) c.pos_embed = PosEmbed::sincos2d;
    if (has(variant, "representation head")) c.rep_size = c.embed_dim;
  }
  return c;
}

SwinConfig swin_named(const std::string& model, const std::string& variant) {
  SwinConfig c;
  const auto* found = std::find_if(std::begin(kSwinVariants), std::end(kSwinVariants),
                                   [&](const SwinVariant& v) { return v.name == model; });
  if (found == std::end(kSwinVariants)) throw InputError(concat("no rule for the model \"", model, '"'));
  set_variant(c, *found);
  c.image_size = {224, 224};
  c.num_classes = 1000;
  c.placement = swin_placement(placement_named(variant));
  return c;
}

}  // namespace

std::vector<std::string> check_counts(const std::filesystem::path& path) {
  const nlohmann::json file = parse_strict_json(read_file(path), path.string());
  std::vector<std::string> failures;
  for (const auto& entry : file.at("models")) {
    const std::string model = entry.at("model"), variant = entry.at("variant");
    const auto expect = [&](const char* key, std::int64_t ours) {
      const std::int64_t theirs = entry.at(key);
      if (ours != theirs)
        failures.push_back(
            concat("counts.json: ", model, ", ", variant, ": ", key, " is ", ours, ", expected ", theirs));
    };
    const bool swin = model.starts_with("Swin");
    ModelConfig config = swin ? ModelConfig(swin_named(model, variant)) : ModelConfig(vit_of(model, variant));
    const ModelCost cost = model_cost(config);
    if (entry.contains("params_without_reduction_bias")) {
      expect("params_without_reduction_bias", cost.parameters);
      std::get<SwinConfig>(config).reduction_bias = true;  // as fusion leaves it
    }
    expect("params", model_cost(config).parameters);
    expect("macs", cost.macs);
    expect("flops", 2 * cost.macs);
    expect("norm_elements", cost.norm_elements);
    expect("macs_with_norms", cost.macs_with_norms());
    expect("flops_with_norms", 2 * cost.macs_with_norms());
    if (entry.contains("num_heads") && swin)
      if (std::get<SwinConfig>(config).num_heads != entry.at("num_heads").get<std::vector<std::int64_t>>())
        failures.push_back(concat("counts.json: ", model, ": other heads"));
    if (entry.contains("params_with_dual_patch_norm")) {
      ViTConfig dpn = std::get<ViTConfig>(config);
      dpn.placement = row("dpn");
      expect("params_with_dual_patch_norm", model_cost(dpn).parameters);
    }
  }
  return failures;
}

}  // namespace normlab::reference
