#include "nn/model/norm_formula.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "nn/model/sites.h"

namespace normlab {

const NormFormula* interned(NormFormula formula) {
  using Parameters = std::vector<std::tuple<std::string, bool, bool, double, bool>>;
  static std::mutex mutex;
  static std::map<std::pair<std::string, Parameters>, std::unique_ptr<const NormFormula>> known;
  Parameters parameters;
  for (const FormulaParameter& p : formula.parameters)
    parameters.emplace_back(p.name, p.per_channel, p.learned, p.value, p.decays);
  const std::scoped_lock lock(mutex);
  std::unique_ptr<const NormFormula>& one = known[{formula.text, std::move(parameters)}];
  if (!one) one = std::make_unique<const NormFormula>(std::move(formula));
  return one.get();
}

const NormFormula* without_initial_values(NormFormula formula) {
  for (FormulaParameter& p : formula.parameters)
    if (p.learned) p.value = 0;
  return interned(std::move(formula));
}

formula::Site formula_site(const NormSpec& spec, std::int64_t width, const BlockSizes& sizes, std::int64_t layer) {
  return {.channels = width,
          .tokens = sizes.tokens,
          .depth = sizes.depth,
          .block = spec.formula->tree.reads("block") ? std::min(layer, sizes.depth) : 0,
          .eps = spec.eps};
}

std::optional<FormulaParameter> undeclared_parameter(std::string_view name) {
  if (name != "gamma" && name != "beta") return std::nullopt;
  return FormulaParameter{{.name = std::string(name), .per_channel = true, .value = name == "gamma" ? 1.0 : 0.0}};
}

Statistics statistics_of(const NormSpec& spec) {
  if (!spec.formula) return parts_of(spec.kind).over;
  if (spec.formula->tree.over_tokens()) return Statistics::image;
  return spec.formula->tree.reduces() ? Statistics::row : Statistics::none;
}

}  // namespace normlab
