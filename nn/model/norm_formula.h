// Norms and activations that are given by a formula.
#pragma once

#include <string>
#include <vector>

#include "core/field.h"
#include "core/formula/graph.h"
#include "core/words.h"
#include "nn/model/placement.h"

namespace normlab {

/// A number, or the text of a formula of kSiteValues.
struct InitialValue {
  double number = 1;
  std::string text{};  // "": the number
  bool operator==(const InitialValue&) const = default;
};

enum class ParameterPer : std::uint8_t { one, channel };
constexpr auto stated_words(ParameterPer) { return words<ParameterPer>("one", "channel"); }

/// A parameter of a formula, `SITE.NAME` in a network.
struct FormulaParameter {
  std::string name{};
  InitialValue init{};
  ParameterPer per = ParameterPer::one;
  bool learned = true, decay = false;
  bool operator==(const FormulaParameter&) const = default;
};
template <std::same_as<FormulaParameter> T>
constexpr auto rows_of(const T*) {
  return Fields{
      field("init", &T::init, "initial value, or a formula of C, N, depth and block that gives it at each site")
          .needed("give the initial value, \"{}\""),
      field("per", &T::per, "one value, or one for each channel"),
      field("learned", &T::learned, "false: a constant, which a sweep may vary"),
      field("decay", &T::decay, "train.optimizer.weight_decay applies to it")};
}

/// The progress of the training: no parameter of a network, but one of programs, which a step sets.
inline constexpr std::string_view kProgress = "progress";

/// gamma and beta, which need no declaration.
inline const FormulaParameter kUsualParameters[] = {{.name = "beta", .init = {0}, .per = ParameterPer::channel},
                                                    {.name = "gamma", .per = ParameterPer::channel}};

/// A formula and what its parameters are, sorted by name.
struct NormFormula {
  formula::Tree tree{};
  std::string text{};  // the tree's
  std::vector<FormulaParameter> parameters{};
  /// With their initial values at a site; at the end kProgress, if the formula reads it.
  std::vector<formula::Parameter> parameters_at(const formula::Site& site) const;
};

struct BlockSizes;
/// What a formula sees at a site of this width in the block `layer`, counted from 1; 0 before them. `block` is 0 where
/// neither the formula nor an initial value reads it.
formula::Site formula_site(const NormFormula& of, double eps, std::int64_t width, const BlockSizes& sizes,
                           std::int64_t layer);

/// The only one of this content, which lives as long as the process.
const NormFormula* interned(NormFormula formula);

/// A function of each row, and perhaps of kGate, by its text.
const NormFormula* rows_formula(std::string text);

/// The same formula, whose learned parameters have any initial values.
const NormFormula* without_initial_values(NormFormula formula);

}  // namespace normlab
