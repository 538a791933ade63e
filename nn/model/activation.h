// The function between the linear layers of an MLP.
#pragma once

#include "core/kernel_settings.h"
#include "core/words.h"

namespace normlab {

struct NormFormula;  // nn/model/norm_formula.h

/// plain: fc2(f(fc1 x)). gated: fc2(f(fc1 x) * fc3 x) ("GLU Variants Improve Transformer", arXiv:2002.05202).
enum class MlpForm : std::uint8_t { plain, gated };
constexpr auto stated_words(MlpForm) { return words<MlpForm>("plain", "gated"); }

/// silu: x sigmoid(x). relu_squared: relu(x)^2 (Primer, arXiv:2109.08668).
enum class ActivationKind : std::uint8_t {
  gelu,
  relu,
  silu,
  relu_squared,
  formula  // has no word: the text takes its place
};
constexpr auto stated_words(ActivationKind) { return words<ActivationKind, 1>("gelu", "relu", "silu", "relu_squared"); }

struct ActivationConfig {
  ActivationKind kind = ActivationKind::gelu;
  const NormFormula* formula = nullptr;  // formula: the only one of its content
  bool operator==(const ActivationConfig&) const = default;
};
/// That of an MLP without one.
constexpr ActivationConfig default_activation(MlpForm form) {
  return {form == MlpForm::gated ? ActivationKind::silu : ActivationKind::gelu};
}

inline constexpr const char
    *kActivationDoc =
        "between the layers of the MLP: a word or {\"formula\"} of x and, with mlp gated, of g; "
        "with mlp gated silu if omitted",
    *kMlpDoc = "plain: fc2(f(fc1 x)); gated: fc2(f(fc1 x) * fc3 x), where a formula reads fc3 x as g";

/// What is computed, of the hidden layer x and, in a gated MLP, of the gate g. Null for gelu in a plain MLP, which has
/// kernels of its own.
const NormFormula* function_of(const ActivationConfig& activation, MlpForm form, GeluForm gelu);

/// Tensors as wide as the hidden layer that the backward pass reads.
constexpr std::int64_t hidden_tensors(MlpForm form) { return form == MlpForm::gated ? 3 : 2; }

}  // namespace normlab
