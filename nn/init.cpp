#include "nn/init.h"

#include <cmath>
#include <functional>

#include "core/random.h"

namespace normlab {
namespace {

constexpr double kTruncatedDeviation = 0.87962566103423978;  // standard deviation of a unit normal cut at +-2

/// The value at position i of a parameter's stream.
using Draw = std::function<double(const StreamKey&, std::uint64_t)>;

Draw constant(double value) {
  return [value](const StreamKey&, std::uint64_t) { return value; };
}
Draw uniform_within(double a) {
  return [a](const StreamKey& key, std::uint64_t i) {
    const auto word = draw(key, i);
    return a * (2 * uniform(word[0], word[1]) - 1);
  };
}
Draw gaussian(double std) {
  return [std](const StreamKey& key, std::uint64_t i) { return std * normal(key, i); };
}
Draw gaussian_cut(double sigma, double at) {  // cut at `at` standard deviations
  return [=](const StreamKey& key, std::uint64_t i) { return sigma * truncated_normal(key, i, -at, at); };
}
Draw lecun(std::int64_t fan_in) { return gaussian_cut(std::sqrt(1.0 / double(fan_in)) / kTruncatedDeviation, 2); }

bool is_attention(std::string_view name) { return name.find(".attn.") != std::string_view::npos; }
bool is_qkv(std::string_view name) {
  return name.find(".attn.q.") != std::string_view::npos || name.find(".attn.k.") != std::string_view::npos ||
         name.find(".attn.v.") != std::string_view::npos;
}
bool is_mlp(std::string_view name) { return name.find(".mlp.fc") != std::string_view::npos; }

Draw weight(const ViTConfig& c, std::string_view name, const Shape& shape) {
  const auto out = shape[0], in = shape[1];
  const double by_fan_in = std::sqrt(1.0 / double(in));
  const bool patches = name == "patch_embed.weight", head = name == "head.weight" || name == "head_dist.weight";
  switch (c.init) {
    case Init::big_vision:
      if (head) return constant(0);
      if (patches || name == "rep.weight") return lecun(in);
      return uniform_within(std::sqrt(6.0 / double(in + out)));
    case Init::timm:
      if (patches) return uniform_within(by_fan_in);
      return gaussian_cut(0.02, 2 / 0.02);
    case Init::torch:
      if (is_qkv(name)) return uniform_within(std::sqrt(1.5 / double(in)));
      return uniform_within(by_fan_in);
  }
  return constant(0);
}

Draw bias(const ViTConfig& c, std::string_view name, std::int64_t fan_in) {
  if ((name == "head.bias" || name == "head_dist.bias") && c.head_bias_init != 0.0) return constant(c.head_bias_init);
  const bool patches = name == "patch_embed.bias";
  switch (c.init) {
    case Init::big_vision:
      return is_mlp(name) ? gaussian(1e-6) : constant(0);
    case Init::timm:
      return patches ? uniform_within(std::sqrt(1.0 / double(fan_in))) : constant(0);
    case Init::torch:
      return is_attention(name) ? constant(0) : uniform_within(std::sqrt(1.0 / double(fan_in)));
  }
  return constant(0);
}

Draw other(const ViTConfig& c, std::string_view last) {
  if (last == "pos_embed") return gaussian(c.init == Init::big_vision ? 1 / std::sqrt(double(c.embed_dim)) : 0.02);
  if (last == "cls_token") return c.init == Init::timm ? gaussian(1e-6) : constant(0);
  if (last == "dist_token") return gaussian_cut(0.02, 2 / 0.02);  // DeiT
  if (last == "layer_scale") return constant(layer_scale_init(c.placement.layer_scale, c.depth));
  if (last == "beta") return constant(0);
  return constant(1);  // gamma, head_scale, residual_scale
}

/// alpha and beta of a dyt site start as its NormSpec says. `name` without its last part is the site's path,
/// "blocks.I." cut off.
double site_value(const ViTConfig& c, std::string_view name, double NormSpec::*value, double otherwise) {
  std::string_view path = name.substr(0, name.rfind('.'));
  if (path.starts_with("blocks.")) path = path.substr(path.find('.', 7) + 1);
  double result = otherwise;
  visit_sites(c.placement, [&](std::string_view site, const NormSpec& spec) {
    if (site == path && spec.kind == NormKind::dyt) result = spec.*value;
  });
  return result;
}

}  // namespace

void initialise(ParameterSet& parameters, const ViTConfig& c, std::uint64_t seed) {
  const double gain = init_gain(c.placement.init_gain, c.depth);
  for (std::size_t p = 0; p < parameters.parameters().size(); ++p) {
    const ParameterInfo& info = parameters.parameters()[p];
    const std::string_view name = info.name, last = name.substr(name.rfind('.') + 1);
    Draw value;
    if (last == "weight") {
      value = weight(c, name, info.shape);
    } else if (last == "bias") {
      const int owner = parameters.find(concat(name.substr(0, name.rfind('.')), ".weight"));
      value = bias(c, name, parameters.parameters()[static_cast<std::size_t>(owner)].shape.back());
    } else if (last == "alpha") {
      value = constant(site_value(c, name, &NormSpec::alpha_init, 0.5));
    } else if (last == "beta") {
      value = constant(site_value(c, name, &NormSpec::beta_init, 0.0));
    } else {
      value = other(c, last);
    }
    const bool has_gain = last == "weight" &&
                          (name.find(".attn.v.") != name.npos || name.find(".attn.proj.") != name.npos || is_mlp(name));
    const double factor = has_gain ? gain : 1.0;
    const StreamKey key = stream_key(seed, "init", name);
    const Tensor t = parameters.value(static_cast<int>(p));
    for (std::int64_t i = 0; i < t.size(); ++i) {
      const double v = factor * value(key, static_cast<std::uint64_t>(i));
      if (t.dtype() == DType::f64)
        t.data<double>()[i] = v;
      else
        t.data<float>()[i] = static_cast<float>(v);
    }
  }
}

}  // namespace normlab
