// What the rules of optimisers and of clipping are told, the same for all devices.
#pragma once

#include <cstdint>

namespace normlab {

struct AdamWSettings {
  double beta1, beta2, eps, weight_decay;
};
struct SgdSettings {
  double momentum, weight_decay;
  bool nesterov;
};
/// How beta times a moment stored in bf16 is computed. wide: in float. constant: beta itself is rounded to bf16, 0.9 to
/// 0.8984375, the product is float (what jitted optax does). rounded: the product is rounded as well (optax unjitted).
enum class MomentProduct : std::uint8_t { wide, constant, rounded };
struct BigVisionAdamSettings {
  double beta1, beta2, eps, weight_decay;
  MomentProduct product;
};
struct MomentumSettings {
  double momentum, weight_decay;
  bool nesterov;
  MomentProduct product;
};
struct LionSettings {
  double beta1, beta2, weight_decay;
};
/// What some parameters have on top of an optimiser's settings.
struct UpdateFactors {
  double lr = 1.0, weight_decay = 1.0;
  bool operator==(const UpdateFactors&) const = default;
};
/// torch: gradients times min(1, limit / (norm + 1e-6)). optax: times limit / norm where norm >= limit.
enum class ClipForm : std::uint8_t { torch, optax };

}  // namespace normlab
