#include "nn/model/activation.h"

#include "core/error.h"
#include "nn/model/norm_formula.h"

namespace normlab {

const NormFormula* function_of(const ActivationConfig& activation, MlpForm form, GeluForm gelu) {
  if (activation.formula) return activation.formula;
  if (form == MlpForm::plain && activation.kind == ActivationKind::gelu) return nullptr;
  constexpr std::string_view kTexts[] = {"gelu(x)", "relu(x)", "silu(x)", "relu(x)^2"};
  std::string_view text = kTexts[std::size_t(activation.kind)];
  if (activation.kind == ActivationKind::gelu && gelu == GeluForm::tanh)
    text = "0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))";
  return rows_formula(concat(text, form == MlpForm::gated ? " * g" : ""));
}

}  // namespace normlab
