// Networks with norms and activations that are given by formulas.
#pragma once

#include <array>

#include "nn/model/norm_formula.h"
#include "tests/cuda_emulation/formulas.h"
#include "tests/nn/model/small_network.h"

namespace normlab {

/// A norm by a formula that may read alpha, beta, gamma and progress.
inline NormSpec norm_by(const char* text) {
  static const std::array known{FormulaParameter{.name = "alpha", .init = {0.7}}, FormulaParameter(kUsualParameters[0]),
                                FormulaParameter(kUsualParameters[1])};
  std::vector<formula::Name> names{{"progress"}};
  std::vector<FormulaParameter> parameters;
  for (const FormulaParameter& p : known) {
    if (std::string(text).find(p.name) == std::string::npos) continue;
    parameters.push_back(p);
    names.push_back({p.name, p.per == ParameterPer::channel ? formula::kChannel : formula::Axes(0)});
  }
  NormFormula norm{.tree = formula::parse(text, names), .text = text, .parameters = parameters};
  return {.kind = NormKind::formula, .formula = interned(std::move(norm))};
}
/// The small ViT with those of tests/cuda_emulation/formulas.h.
inline ViTConfig with_formulas() {
  ViTConfig c = small_vit("pre_pre");
  c.placement.attn.pre = norm_by(formula::kOfImages);
  c.placement.attn.query = c.placement.attn.key = norm_by(formula::kOfHeads);
  c.placement.mlp.pre = norm_by(formula::kOfTokens);
  return c;
}
/// The small ViT with that norm in place of its own, and perhaps of those of heads.
inline ViTConfig with_norm(const NormSpec& spec, bool heads) {
  ViTConfig c = small_vit("pre_pre");
  c.placement.attn.pre = c.placement.mlp.pre = c.placement.final = spec;
  if (heads) c.placement.attn.query = c.placement.attn.key = spec;
  return c;
}
inline ViTConfig with_gated_norms() { return with_norm(norm_of(NormKind::gated_norm), true); }
inline ViTConfig with_prep_bn() {
  NormSpec spec = norm_of(NormKind::prep_bn);
  spec.decay_share = 0.75;
  return with_norm(spec, false);
}
/// The small ViT with a gated MLP whose formula reads its training's progress.
inline ViTConfig with_gates() {
  ViTConfig c = small_vit("pre_pre");
  c.mlp = MlpForm::gated;
  c.activation = {ActivationKind::formula,
                  interned({.tree = formula::parse_elementwise(formula::kOfHidden), .text = formula::kOfHidden})};
  return c;
}
/// With everything that attention does to its heads, of unit queries and keys.
template <class Config>
Config with_heads(Config c, AttnGate gate) {
  c.placement.attn_gate = gate;
  c.placement.attn_scale = AttnScale::learned;
  c.placement.attn.exclude_self = true;
  c.placement.attn.query = c.placement.attn.key = norm_of(NormKind::l2);
  return c;
}

}  // namespace normlab
