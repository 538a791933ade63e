#include <cmath>

#include "core/random.h"
#include "nn/swin.h"

namespace normlab {
namespace {

constexpr double kDeviation = 0.02, kCut = 2.0;  // timm cuts at +-2, a hundred deviations

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> endings) {
  for (const std::string_view ending : endings)
    if (name.ends_with(ending)) return true;
  return false;
}

/// The NormSpec of the site that a parameter belongs to: "stages.2.blocks.0.attn.pre.beta" is attn.pre,
/// "stages.1.merge.beta" merge.
NormSpec spec_of(const Placement& placement, std::string_view name) {
  std::string_view site = name.substr(0, name.rfind('.'));
  if (site.starts_with("stages.")) site.remove_prefix(site.find('.', 7) + 1);
  if (site.starts_with("blocks.")) site.remove_prefix(site.find('.', 7) + 1);
  NormSpec found;
  visit_sites(placement, [&](std::string_view path, const NormSpec& spec) {
    if (path == site) found = spec;
  });
  return found;
}

/// The value that all elements share, for what is not drawn.
double constant_of(const SwinConfig& c, std::string_view name) {
  if (name == "head.bias") return c.head_bias_init;
  if (name.ends_with(".bias")) return 0.0;
  if (name.ends_with(".alpha")) return spec_of(c.placement, name).alpha_init;
  if (name.ends_with(".layer_scale")) return layer_scale_init(c.placement.layer_scale, c.depth());
  if (!name.ends_with(".beta")) return 1.0;  // gamma, head_scale, residual_scale
  const NormSpec spec = spec_of(c.placement, name);
  return spec.kind == NormKind::dyt ? spec.beta_init : 0.0;
}

}  // namespace

void initialise(ParameterSet& parameters, const SwinConfig& c, std::uint64_t seed) {
  const double patches = std::sqrt(1.0 / double(c.patch_pixels()));  // a of PyTorch's convolution
  const double gain = init_gain(c.placement.init_gain, c.depth());
  for (std::size_t p = 0; p < parameters.parameters().size(); ++p) {
    const std::string_view name = parameters.parameters()[p].name;
    const StreamKey key = stream_key(seed, "init", name);
    const bool in_gain = ends_with_any(name, {".attn.v.weight", ".attn.proj.weight", ".fc1.weight", ".fc2.weight"});
    const auto value = [&](std::uint64_t i) {
      if (name.starts_with("patch_embed.")) {
        const auto word = draw(key, i);
        return patches * (2 * uniform(word[0], word[1]) - 1);
      }
      if (!ends_with_any(name, {".weight", ".bias_table"})) return constant_of(c, name);
      const double drawn = kDeviation * truncated_normal(key, i, -kCut / kDeviation, kCut / kDeviation);
      return in_gain ? gain * drawn : drawn;
    };
    const Tensor t = parameters.value(static_cast<int>(p));
    for (std::int64_t i = 0; i < t.size(); ++i) {
      const double v = value(std::uint64_t(i));
      if (t.dtype() == DType::f64)
        t.data<double>()[i] = v;
      else
        t.data<float>()[i] = static_cast<float>(v);
    }
  }
}

}  // namespace normlab
