// Norms that are given by a formula.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/formula/graph.h"
#include "nn/model/placement.h"

namespace normlab {

/// A parameter of a formula, `SITE.NAME` in a network.
struct FormulaParameter : formula::Parameter {
  bool decays = false;
};

/// A formula and what its parameters are, sorted by name.
struct NormFormula {
  formula::Tree tree;
  std::string text;  // the tree's
  std::vector<FormulaParameter> parameters;
};

/// The only one of this content, which lives as long as the process.
const NormFormula* interned(NormFormula formula);

/// Whether gamma or beta, which need no declaration: per channel, at first 1 and 0.
std::optional<FormulaParameter> undeclared_parameter(std::string_view name);

}  // namespace normlab
