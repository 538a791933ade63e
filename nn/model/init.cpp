#include "nn/model/init.h"

#include <cmath>
#include <type_traits>

#include "nn/model/text_tower.h"

namespace normlab {
namespace {

constexpr double kTruncatedDeviation = 0.87962566103423978;  // standard deviation of a unit normal cut at +-2

InitRule constant(double value) { return {.scale = value}; }
InitRule uniform_within(double a, std::string_view source) {
  return {.distribution = Distribution::uniform, .scale = a, .source = source};
}
InitRule gaussian(double std) { return {.distribution = Distribution::normal, .scale = std}; }
InitRule gate_normal() { return {.distribution = Distribution::truncated_normal, .scale = 0.02, .cut = 3}; }
InitRule timm_normal() {  // PyTorch's trunc_normal_ cuts at +-2, not at two deviations
  return {.distribution = Distribution::truncated_normal, .scale = 0.02, .cut = 2 / 0.02};
}
InitRule lecun(std::int64_t fan_in, Truncation truncation) {
  const bool uncorrected = truncation == Truncation::uncorrected;
  return {.distribution = Distribution::truncated_normal,
          .scale = std::sqrt(1.0 / double(fan_in)) / (uncorrected ? 1.0 : kTruncatedDeviation),
          .cut = 2,
          .source = uncorrected ? "LeCun, narrowed by the cut" : "LeCun"};
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

bool in_mlp(Role role) { return role == Role::fc1 || role == Role::fc2 || role == Role::fc3; }
bool is_head(Role role) { return role == Role::head || role == Role::head_dist; }

/// Whether the code base is Big Vision's, or follows it in linear layers.
bool like_big_vision(Init base) { return base == Init::big_vision || base == Init::timm_jax; }

/// The code base's choice of each part; `base` where it has a rule of its own.
InitConfig parts_of(Init base) {
  InitConfig parts(base);
  if (base != Init::timm && base != Init::deit)
    parts.qkv = base == Init::big_vision ? QkvInit::xavier : QkvInit::xavier_fused;
  parts.truncation = Truncation::corrected;
  parts.patch_embed = like_big_vision(base) ? PatchInit::lecun : PatchInit::conv2d_uniform;
  if (like_big_vision(base)) {
    parts.head = HeadInit::zero;
    parts.out_proj = OutProjInit::xavier;
  }
  if (base == Init::torch) {
    parts.head = HeadInit::linear;
    parts.out_proj = OutProjInit::linear;
  }
  return parts;
}

/// With the code base's choices in place of `base`.
InitConfig resolved(InitConfig init) {
  const InitConfig base = parts_of(init.base);
  for_each_field<InitConfig>([&](const auto& row) {
    auto& part = init.*row.member;
    if constexpr (!std::is_same_v<std::remove_reference_t<decltype(part)>, Init>)
      if (part == std::remove_reference_t<decltype(part)>{}) part = base.*row.member;
  });
  return init;
}

InitRule weight(const ViTConfig& c, const ParameterInfo& info) {
  const auto out = info.shape[0], in = info.fan_in;
  const InitConfig init = resolved(c.init);
  if (info.role == Role::head && c.task == Task::segment)
    return {.distribution = Distribution::truncated_normal, .scale = 0.02, .cut = 2, .source = "Segmenter"};
  if (info.role == Role::patch_embed)
    return init.patch_embed == PatchInit::lecun    ? lecun(in, init.truncation)
           : init.patch_embed == PatchInit::normal ? timm_normal()
                                                   : by_fan_in(in);
  if (is_head(info.role) && init.head != HeadInit::base)
    return init.head == HeadInit::zero ? constant(0) : init.head == HeadInit::xavier ? xavier(in, out) : by_fan_in(in);
  if (info.role == Role::proj && init.out_proj != OutProjInit::base)
    return init.out_proj == OutProjInit::xavier ? xavier(in, out) : by_fan_in(in);
  if (is_qkv(info.role) && init.qkv != QkvInit::base)
    return init.qkv == QkvInit::xavier         ? xavier(in, out)
           : init.qkv == QkvInit::xavier_fused ? fused_xavier(in)
                                               : by_fan_in(in);
  if (like_big_vision(init.base)) return info.role == Role::rep ? lecun(in, init.truncation) : xavier(in, out);
  return init.base == Init::torch ? by_fan_in(in) : timm_normal();
}

InitRule bias(const ViTConfig& c, const ParameterInfo& info) {
  if (is_head(info.role) && (c.head_bias_init != 0.0 || c.task == Task::segment)) return constant(c.head_bias_init);
  const InitConfig init = resolved(c.init);
  if (is_head(info.role) && init.head == HeadInit::linear) return by_fan_in(info.fan_in);
  if (info.role == Role::patch_embed)
    return init.patch_embed == PatchInit::conv2d_uniform ? by_fan_in(info.fan_in) : constant(0);
  const bool linear_attention = init.qkv == QkvInit::linear;
  if (is_qkv(info.role)) return linear_attention ? by_fan_in(info.fan_in) : constant(0);
  if (init.base == Init::torch)
    return info.role == Role::proj && !linear_attention ? constant(0) : by_fan_in(info.fan_in);
  return like_big_vision(init.base) && in_mlp(info.role) ? gaussian(1e-6) : constant(0);
}

InitRule class_token(Init init) {
  if (init == Init::deit) return timm_normal();
  return init == Init::timm || init == Init::timm_jax ? gaussian(1e-6) : constant(0);
}

InitRule linear(const ViTConfig& c, const ParameterInfo& info) { return info.decays ? weight(c, info) : bias(c, info); }
InitRule linear(const SwinConfig& c, const ParameterInfo& info) {
  if (info.role == Role::patch_embed) return by_fan_in(info.fan_in);
  if (info.decays) return timm_normal();
  return constant(info.role == Role::head ? c.head_bias_init : 0.0);
}

InitRule token(const ViTConfig& c, Role role) {
  if (role == Role::distill_token) return timm_normal();  // DeiT
  if (role == Role::class_token) return c.init.token_std > 0 ? gaussian(c.init.token_std) : class_token(c.init.base);
  const bool as_timm = c.init.base == Init::timm || c.init.base == Init::timm_jax;
  if (role == Role::register_tokens) return gaussian(as_timm ? 1e-6 : 0.02);
  if (c.init.position_std > 0) return gaussian(c.init.position_std);
  return gaussian(c.init.base == Init::big_vision ? 1 / std::sqrt(double(c.embed_dim)) : 0.02);
}
InitRule token(const SwinConfig&, Role) { return timm_normal(); }  // the table of position biases

template <class Config>
InitRule rule_of(const ParameterInfo& info, const Config& c) {
  if (is_linear(info.role)) {
    InitRule rule = linear(c, info);
    const bool in_gain = in_mlp(info.role) || info.role == Role::v || info.role == Role::proj;
    if (info.decays && in_gain) rule.gain = init_gain(c.placement.init_gain, block_count(c));
    return rule;
  }
  if (info.role == Role::layer_scale) return constant(layer_scale_init(c.placement.layer_scale, block_count(c)));
  if (info.role == Role::norm && info.fan_in > 0) return gate_normal();
  return info.role == Role::norm || info.role == Role::gain ? constant(info.start) : token(c, info.role);
}

}  // namespace

void simplify_init(ViTConfig& c) {
  const InitConfig base = parts_of(c.init.base);
  for_each_field<InitConfig>([&](const auto& row) {
    if (row.key != "base" && c.init.*row.member == base.*row.member) c.init.*row.member = InitConfig{}.*row.member;
  });
  const InitConfig init = resolved(c.init);
  const bool has_rep = (c.rep_size > 0 || c.task == Task::contrast) && like_big_vision(init.base);
  if (init.patch_embed != PatchInit::lecun && !has_rep) c.init.truncation = Truncation::base;
}

InitRule init_rule(const ParameterSet& parameters, int parameter, const ModelConfig& config) {
  const ParameterInfo& info = parameters.parameters()[static_cast<std::size_t>(parameter)];
  if (info.place.stage == kTextStage) return rule_of(info, text_tower(std::get<ViTConfig>(config)));
  return std::visit([&](const auto& c) { return rule_of(info, c); }, config);
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

void initialise(ParameterSet& parameters, const ModelConfig& config, std::uint64_t seed) {
  for (std::size_t p = 0; p < parameters.parameters().size(); ++p) {
    const InitRule rule = init_rule(parameters, static_cast<int>(p), config);
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

}  // namespace normlab
