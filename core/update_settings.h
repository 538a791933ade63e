// The settings of optimisers and clipping, the same for all devices. The rule of each optimiser for one value is
// in core/update_rules.h.
//
// Gradients g are multiplied by state->clip_factor. lr is state->lr times the parameter's factor. wd is the decay times
// the parameter's factor, where the parameter decays. m' and v' are moments divided by their bias correction.
#pragma once

#include <cstdint>
#include <variant>

#include "core/step_state.h"
#include "core/tensor.h"
#include "core/words.h"

namespace normlab {

/// m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g g; p -= lr wd p, p -= lr m' / (sqrt(v') + eps). The rate is
/// state->lr. If `peak` is not negative, it is state->schedule times `peak`: this AdamW then runs beside Muon, which
/// has another rate.
struct AdamWSettings {
  double beta1, beta2, eps, weight_decay;
  double peak = -1;
};
/// m = b1 m + (1 - b1) (g + wd p), v = b2 v + (1 - b2) (g + wd p)^2; p -= lr m' / (sqrt(v') + eps).
struct AdamSettings {
  double beta1, beta2, eps, weight_decay;
};
/// m = momentum m + (g + wd p); p -= lr m, or lr (g + wd p + momentum m) for nesterov.
struct SgdSettings {
  double momentum, weight_decay;
  bool nesterov;
};
/// How beta times a moment stored in bf16 is computed. wide: in float. constant: beta is rounded to bf16 (0.9 to
/// 0.8984375), the product is float (jitted optax). rounded: the product is rounded too (optax without jit).
enum class MomentProduct : std::uint8_t { wide, constant, rounded };
constexpr auto stated_words(MomentProduct) { return words<MomentProduct>("wide", "constant", "rounded"); }
/// AdamW with state->schedule in place of lr in the decay: p -= lr m' / (sqrt(v') + eps) + schedule wd p. m is bf16 or
/// p's type; the step uses m before it is rounded.
struct BigVisionAdamSettings {
  double beta1, beta2, eps, weight_decay;
  MomentProduct product;
};
/// m = g + momentum m; p -= lr (m, or g + momentum m for nesterov) + schedule wd p. m as above.
struct MomentumSettings {
  double momentum, weight_decay;
  bool nesterov;
  MomentProduct product;
};
/// p -= lr wd p, p -= lr sign(b1 m + (1 - b1) g); m = b2 m + (1 - b2) g.
struct LionSettings {
  double beta1, beta2, weight_decay;
};
/// r = m' / (sqrt(v') + eps) + wd p with AdamW's moments, already updated by lamb_moments; p -= lr *trust_ratio r.
/// `decays` holds for the whole tensor.
struct LambSettings {
  AdamWSettings adamw;
  bool decays;
  const double* trust_ratio;  // of the tensor, in the backend's memory
};
/// Sums of squares of the parameters and of r.
struct LambSquares {
  double parameters = 0.0, direction = 0.0;
};
/// The factor of Muon's step for a matrix [rows, cols]. original: sqrt(max(1, rows / cols)). match_rms_adamw:
/// 0.2 sqrt(max(rows, cols)), with which AdamW's rate and decay can be kept (Liu et al. 2025, "Muon is Scalable for LLM
/// Training", eq. 4).
enum class MuonScale : std::uint8_t { original, match_rms_adamw };
constexpr auto stated_words(MuonScale) { return words<MuonScale>("original", "match_rms_adamw"); }
/// Muon (K. Jordan 2024) for one matrix, as in torch.optim.Muon:
///   m = momentum m + (1 - momentum) g;  u = (1 - momentum) g + momentum m for nesterov, else m;
///   p -= lr wd p, p -= lr scale X(u).
/// X(u) is u / max(|u|, 1e-7) after five steps X = a X + (b A + c A A) X with A = X X', a = 3.4445, b = -4.7750,
/// c = 2.0315, which bring its singular values near 1. `bf16`: the factors of these products are rounded to bf16, like
/// those of other products.
struct MuonSettings {
  double momentum, weight_decay;
  bool nesterov;
  MuonScale scale;
  bool bf16;
};
inline constexpr double kMuonA = 3.4445, kMuonB = -4.7750, kMuonC = 2.0315, kMuonSmallest = 1e-7;
inline constexpr int kMuonSteps = 5;

struct UpdateRule {
  std::variant<AdamWSettings, AdamSettings, SgdSettings, BigVisionAdamSettings, MomentumSettings, LionSettings,
               LambSettings>
      settings;
};

/// Factors on the optimiser's settings, for some parameters.
struct UpdateFactors {
  double lr = 1.0, weight_decay = 1.0;
  bool operator==(const UpdateFactors&) const = default;
};
/// A range of values with all that its update needs. decay u8 [n]: 1 where weight decay applies. v is empty if the
/// optimiser has no second moment. rounded bf16 [n], or empty: gets p for the next step's products.
struct ParameterUpdate {
  UpdateFactors factors;
  const StepState* state;
  Tensor gradient, decay, p, m, v, rounded;
};
/// A matrix that Muon updates. `first`: its first value in the flat buffers, -1 where another process updates it.
struct MuonMatrix {
  std::int64_t first;
  UpdateFactors factors;
};
/// `count` matrices [rows, cols], listed in the backend's memory.
struct MuonBatch {
  std::int64_t rows, cols, count;
  const MuonMatrix* matrices;
};
/// torch: gradients times min(1, limit / (norm + 1e-6)). optax: times limit / norm where norm >= limit.
enum class ClipForm : std::uint8_t { torch, optax };
constexpr auto stated_words(ClipForm) { return words<ClipForm>("torch", "optax"); }

}  // namespace normlab
