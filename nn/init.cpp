#include "nn/init.h"

#include <charconv>
#include <cmath>

namespace normlab {
namespace {

constexpr double kTruncatedDeviation = 0.87962566103423978;  // standard deviation of a unit normal cut at +-2

InitRule constant(double value) { return {.scale = value}; }
InitRule uniform_within(double a, std::string_view source) {
  return {.distribution = Distribution::uniform, .scale = a, .source = source};
}
InitRule gaussian(double std) { return {.distribution = Distribution::normal, .scale = std}; }
InitRule timm_normal() {  // PyTorch's trunc_normal_ cuts at +-2, not at two deviations
  return {.distribution = Distribution::truncated_normal, .scale = 0.02, .cut = 2 / 0.02};
}
InitRule lecun(std::int64_t fan_in) {
  return {.distribution = Distribution::truncated_normal,
          .scale = std::sqrt(1.0 / double(fan_in)) / kTruncatedDeviation,
          .cut = 2,
          .source = "LeCun"};
}
InitRule xavier(std::int64_t in, std::int64_t out) {
  return uniform_within(std::sqrt(6.0 / double(in + out)), "Xavier");
}
InitRule fused_xavier(std::int64_t width) {
  return uniform_within(std::sqrt(1.5 / double(width)), "Xavier over fused q, k, v");
}
InitRule by_fan_in(std::int64_t fan_in) {
  return uniform_within(std::sqrt(1.0 / double(fan_in)), "PyTorch's 1/sqrt(fan-in)");
}

bool has(std::string_view name, std::string_view part) { return name.find(part) != std::string_view::npos; }
bool is_qkv(std::string_view name) { return has(name, ".attn.q.") || has(name, ".attn.k.") || has(name, ".attn.v."); }
bool is_mlp(std::string_view name) { return has(name, ".mlp.fc"); }

InitRule weight(const ViTConfig& c, std::string_view name, const Shape& shape) {
  const auto out = shape[0], in = shape[1];
  const bool patches = name == "patch_embed.weight", rep = name == "rep.weight";
  const bool head = name == "head.weight" || name == "head_dist.weight";
  switch (c.init) {
    case Init::big_vision:
    case Init::timm_jax:
      if (head) return constant(0);
      if (patches || rep) return lecun(in);
      return c.init == Init::timm_jax && is_qkv(name) ? fused_xavier(in) : xavier(in, out);
    case Init::timm:
    case Init::deit:
      return patches ? by_fan_in(in) : timm_normal();
    case Init::torch:
      return is_qkv(name) ? fused_xavier(in) : by_fan_in(in);
  }
  return constant(0);
}

InitRule bias(const ViTConfig& c, std::string_view name, std::int64_t fan_in) {
  if ((name == "head.bias" || name == "head_dist.bias") && c.head_bias_init != 0.0) return constant(c.head_bias_init);
  switch (c.init) {
    case Init::big_vision:
    case Init::timm_jax:
      return is_mlp(name) ? gaussian(1e-6) : constant(0);
    case Init::timm:
    case Init::deit:
      return name == "patch_embed.bias" ? by_fan_in(fan_in) : constant(0);
    case Init::torch:
      return has(name, ".attn.") ? constant(0) : by_fan_in(fan_in);
  }
  return constant(0);
}

InitRule class_token(Init init) {
  if (init == Init::deit) return timm_normal();
  return init == Init::timm || init == Init::timm_jax ? gaussian(1e-6) : constant(0);
}

/// The number behind the first `before` characters of a name, and the name behind it and a dot.
std::int64_t take_number(std::string_view& name, std::size_t before) {
  name.remove_prefix(before);
  std::int64_t number = 0;
  std::from_chars(name.data(), name.data() + name.size(), number);
  name.remove_prefix(name.find('.') + 1);
  return number;
}

/// The norm whose parameter `name` is: "stem.patch_in.beta", "blocks.3.attn.pre.alpha", "stages.1.merge.gamma".
/// `first_block` of a stage counts blocks through the whole network.
NormSpec norm_at(const Placement& placement, std::string_view name, const std::vector<SwinStage>& stages = {}) {
  std::string_view path = name.substr(0, name.rfind('.'));
  Placement sites = placement;
  std::int64_t first = 0;
  if (path.starts_with("stages.")) first = stages[static_cast<std::size_t>(take_number(path, 7))].first_block;
  if (path.starts_with("blocks.")) {
    const std::int64_t block = first + take_number(path, 7);
    sites.attn = placement.attention_sites(block);
    sites.mlp = placement.mlp_sites(block);
  }
  NormSpec found;
  visit_sites(sites, [&](std::string_view site, const NormSpec& spec) {
    if (site == path) found = spec;
  });
  return found;
}

/// What every kind of network has; `norm` is called for the parameters of norms.
template <class F>
InitRule shared_rule(std::string_view last, const Placement& placement, std::int64_t depth, F&& norm) {
  if (last == "alpha") return constant(norm().alpha_init);
  if (last == "beta") {
    const NormSpec spec = norm();
    return constant(parts_of(spec.kind).alpha ? spec.beta_init : 0.0);
  }
  if (last == "layer_scale") return constant(layer_scale_init(placement.layer_scale, depth));
  return constant(1);  // gamma, head_scale, residual_scale
}

bool in_gain(std::string_view name) { return has(name, ".attn.v.") || has(name, ".attn.proj.") || is_mlp(name); }

template <class Config>
void fill(ParameterSet& parameters, const Config& c, std::uint64_t seed) {
  for (std::size_t p = 0; p < parameters.parameters().size(); ++p) {
    const InitRule rule = init_rule(parameters, static_cast<int>(p), c);
    const StreamKey stream = init_stream(seed, parameters.parameters()[p].name);
    const Tensor t = parameters.value(static_cast<int>(p));
    for (std::int64_t i = 0; i < t.size(); ++i) {
      const double v = initial_value(rule, stream, static_cast<std::uint64_t>(i));
      if (t.dtype() == DType::f64)
        t.data<double>()[i] = v;
      else
        t.data<float>()[i] = static_cast<float>(v);
    }
  }
}

}  // namespace

InitRule init_rule(const ParameterSet& parameters, int parameter, const ViTConfig& c) {
  const ParameterInfo& info = parameters.parameters()[static_cast<std::size_t>(parameter)];
  const std::string_view name = info.name, last = name.substr(name.rfind('.') + 1);
  if (last == "weight") {
    InitRule rule = weight(c, name, info.shape);
    if (in_gain(name)) rule.gain = init_gain(c.placement.init_gain, c.depth);
    return rule;
  }
  if (last == "bias") {
    const int owner = parameters.find(concat(name.substr(0, name.rfind('.')), ".weight"));
    return bias(c, name, parameters.parameters()[static_cast<std::size_t>(owner)].shape.back());
  }
  if (last == "pos_embed") return gaussian(c.init == Init::big_vision ? 1 / std::sqrt(double(c.embed_dim)) : 0.02);
  if (last == "cls_token") return class_token(c.init);
  if (last == "dist_token") return timm_normal();  // DeiT
  return shared_rule(last, c.placement, c.depth, [&] { return norm_at(c.placement, name); });
}

InitRule init_rule(const ParameterSet& parameters, int parameter, const SwinConfig& c) {
  const std::string_view name = parameters.parameters()[static_cast<std::size_t>(parameter)].name;
  const std::string_view last = name.substr(name.rfind('.') + 1);
  if (name.starts_with("patch_embed.")) return by_fan_in(c.patch_pixels());
  if (last == "weight" || last == "bias_table") {
    InitRule rule = timm_normal();
    if (last == "weight" && in_gain(name)) rule.gain = init_gain(c.placement.init_gain, c.depth());
    return rule;
  }
  if (last == "bias") return constant(name == "head.bias" ? c.head_bias_init : 0.0);
  return shared_rule(last, c.placement, c.depth(), [&] { return norm_at(c.placement, name, swin_stages(c)); });
}

double initial_value(const InitRule& rule, const StreamKey& stream, std::uint64_t i) {
  switch (rule.distribution) {
    case Distribution::constant:
      return rule.scale;
    case Distribution::uniform: {
      const auto word = draw(stream, i);
      return rule.gain * (rule.scale * (2 * uniform(word[0], word[1]) - 1));
    }
    case Distribution::normal:
      return rule.gain * (rule.scale * normal(stream, i));
    case Distribution::truncated_normal:
      return rule.gain * (rule.scale * truncated_normal(stream, i, -rule.cut, rule.cut));
  }
  return 0.0;
}

void initialise(ParameterSet& parameters, const ViTConfig& c, std::uint64_t seed) { fill(parameters, c, seed); }
void initialise(ParameterSet& parameters, const SwinConfig& c, std::uint64_t seed) { fill(parameters, c, seed); }

}  // namespace normlab
