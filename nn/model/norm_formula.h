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

struct BlockSizes;
/// What a formula sees at a site of this width in the block `layer`, counted from 1; 0 before them. `block` is 0 in a
/// formula that does not read it.
formula::Site formula_site(const NormSpec& spec, std::int64_t width, const BlockSizes& sizes, std::int64_t layer);

/// The only one of this content, which lives as long as the process.
const NormFormula* interned(NormFormula formula);

/// The same formula, whose learned parameters have any initial values.
const NormFormula* without_initial_values(NormFormula formula);

/// Whether gamma or beta, which need no declaration: per channel, at first 1 and 0.
std::optional<FormulaParameter> undeclared_parameter(std::string_view name);

}  // namespace normlab
