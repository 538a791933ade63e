#include "nn/model/norm_formula.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "nn/model/sites.h"

namespace normlab {

const NormFormula* interned(NormFormula formula) {
  static std::mutex mutex;
  static std::multimap<std::string, const NormFormula> known;
  const std::scoped_lock lock(mutex);
  const auto [first, end] = known.equal_range(formula.text);
  const auto same = [&](const auto& one) { return one.second.parameters == formula.parameters; };
  const auto found = std::find_if(first, end, same);
  return found != end ? &found->second : &known.emplace(formula.text, std::move(formula))->second;
}

const NormFormula* rows_formula(std::string text) {
  NormFormula function{.text = std::move(text)};
  function.tree = formula::parse_rows(function.text);
  return interned(std::move(function));
}

const NormFormula* without_initial_values(NormFormula formula) {
  for (FormulaParameter& p : formula.parameters)
    if (p.learned) p.init = {0};
  return interned(std::move(formula));
}

std::vector<formula::Parameter> NormFormula::parameters_at(const formula::Site& site) const {
  const double values[] = {double(site.channels), double(site.tokens), double(site.depth), double(site.block)};
  std::vector<formula::Parameter> out;
  for (const auto& [name, init, per, learned, decay] : parameters)
    out.push_back({name, per == ParameterPer::channel, learned,
                   init.text.empty() ? init.number : formula::evaluate(formula::parse_number(init.text), values)});
  if (tree.reads(kProgress)) out.push_back({.name = std::string(kProgress), .value = 0});
  return out;
}

formula::Site formula_site(const NormFormula& of, double eps, std::int64_t width, const BlockSizes& sizes,
                           std::int64_t layer) {
  const auto reads_block = [](const FormulaParameter& p) {
    return !p.init.text.empty() && formula::parse_number(p.init.text).reads("block");
  };
  const auto& [tree, text, parameters] = of;
  const bool by_block = tree.reads("block") || std::any_of(parameters.begin(), parameters.end(), reads_block);
  return {.channels = width,
          .tokens = sizes.tokens,
          .depth = sizes.depth,
          .block = by_block ? std::min(layer, sizes.depth) : 0,
          .eps = eps};
}

Statistics statistics_of(const NormSpec& spec) {
  if (!spec.formula) return parts_of(spec.kind).over;
  if (spec.formula->tree.over_tokens()) return Statistics::image;
  return spec.formula->tree.reduces() ? Statistics::row : Statistics::none;
}

}  // namespace normlab
