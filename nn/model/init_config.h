// Which initial values a ViT draws. The field names are the JSON keys of a descriptor's "model.init".
#pragma once

#include "core/field.h"

namespace normlab {

/// Code bases, see nn/model/init.h.
enum class Init : std::uint8_t { big_vision, timm, torch, timm_jax, deit };
constexpr auto stated_words(Init) { return words<Init>("big_vision", "timm", "torch", "timm_jax", "deit"); }

// Parts in which the code bases differ; `base`: as the code base does.

/// xavier: uniform, each of q, k and v alone. xavier_fused: over the three as one matrix, half the variance.
/// linear: like PyTorch's nn.Linear, uniform 1/sqrt(fan-in), biases too.
enum class QkvInit : std::uint8_t { base, xavier, xavier_fused, linear };
constexpr auto stated_words(QkvInit) { return words<QkvInit>("base", "xavier", "xavier_fused", "linear"); }
/// lecun: truncated normal and a bias of zero. conv2d_uniform: like PyTorch's nn.Conv2d. normal: deviation 0.02 and a
/// bias of zero, as timm draws other layers.
enum class PatchInit : std::uint8_t { base, lecun, conv2d_uniform, normal };
constexpr auto stated_words(PatchInit) { return words<PatchInit>("base", "lecun", "conv2d_uniform", "normal"); }
/// The weight of attention's output layer. linear: like PyTorch's nn.Linear, uniform 1/sqrt(fan-in).
enum class OutProjInit : std::uint8_t { base, xavier, linear };
constexpr auto stated_words(OutProjInit) { return words<OutProjInit>("base", "xavier", "linear"); }
/// linear: like PyTorch's nn.Linear, weight and bias uniform 1/sqrt(fan-in).
enum class HeadInit : std::uint8_t { base, zero, xavier, linear };
constexpr auto stated_words(HeadInit) { return words<HeadInit>("base", "zero", "xavier", "linear"); }
/// Whether LeCun's normal is widened so that its deviation survives the cut at two deviations.
enum class Truncation : std::uint8_t { base, corrected, uncorrected };
constexpr auto stated_words(Truncation) { return words<Truncation>("base", "corrected", "uncorrected"); }

struct InitConfig {
  Init base = Init::big_vision;
  QkvInit qkv = QkvInit::base;
  OutProjInit out_proj = OutProjInit::base;
  Truncation truncation = Truncation::base;
  PatchInit patch_embed = PatchInit::base;
  HeadInit head = HeadInit::base;
  double position_std = 0, token_std = 0;
  InitConfig() = default;
  constexpr InitConfig(Init all) : base(all) {}
  bool operator==(const InitConfig&) const = default;
};
template <std::same_as<InitConfig> T>
constexpr auto rows_of(const T*) {
  return Fields{
      field("base", &T::base, "code base whose initial values are used; timm_jax: timm's weight_init \"jax\"")
          .needed("give the \"base\" whose parts the other keys change, such as \"big_vision\""),
      field("qkv", &T::qkv,
            "q, k and v: Xavier's bound for each alone, or for the three as one matrix; linear: "
            "PyTorch's nn.Linear, with biases"),
      field("out_proj", &T::out_proj,
            "weight of attention's output layer: Xavier's bound; linear: PyTorch's nn.Linear"),
      field("truncation", &T::truncation,
            "whether the truncated normal of patches and rep keeps LeCun's deviation; "
            "uncorrected: the cut makes it 0.88 of that"),
      field("patch_embed", &T::patch_embed,
            "weight and bias of the patch embedding; conv2d_uniform: PyTorch's nn.Conv2d; normal: deviation 0.02"),
      field("head", &T::head, "weight of the head; linear: weight and bias of PyTorch's nn.Linear"),
      field("position_std", &T::position_std, "deviation of learned positions, drawn normal; 0: as the base does",
            kNotNegative),
      field("token_std", &T::token_std, "deviation of the class token, drawn normal; 0: as the base does",
            kNotNegative)};
}

}  // namespace normlab
