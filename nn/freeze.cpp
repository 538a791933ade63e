#include "nn/freeze.h"

#include <algorithm>
#include <charconv>

#include "core/visible_text.h"
#include "nn/model.h"
#include "nn/update_factors.h"

namespace normlab {
namespace {

/// "blocks.0-3", or "stages.1.blocks.0-1" with the stage in `before`.
struct Range {
  std::string_view before;
  std::int64_t first = 0, last = 0;
};
std::optional<Range> range_in(std::string_view pattern) {
  const std::size_t at = pattern.rfind("blocks.");
  if (at == pattern.npos) return {};
  const std::string_view numbers = pattern.substr(at + 7);
  Range range{pattern.substr(0, at)};
  const char* const end = numbers.data() + numbers.size();
  const auto [dash, no_first] = std::from_chars(numbers.data(), end, range.first);
  if (no_first != std::errc() || dash == end || *dash != '-') return {};
  const auto [rest, no_last] = std::from_chars(dash + 1, end, range.last);
  if (no_last != std::errc() || rest != end) return {};
  return range;
}

}  // namespace

bool stands_for(std::string_view pattern, const ParameterInfo& p) {
  if (pattern == "stem") return p.place.layer == 0;
  if (const auto range = range_in(pattern))
    return p.place.stage == range->before && range->first <= p.place.block && p.place.block <= range->last;
  return fits(pattern, p.name) || fits(concat(pattern, ".*"), p.name);
}

std::optional<FreezeProblem> problem_of_freeze(std::span<const std::string> patterns,
                                               std::span<const ParameterInfo> parameters) {
  std::vector<bool> frozen(parameters.size());
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    bool any = false;
    for (std::size_t p = 0; p < parameters.size(); ++p)
      if (stands_for(patterns[i], parameters[p])) frozen[p] = any = true;
    if (const auto range = range_in(patterns[i]); range && range->first > range->last)
      return FreezeProblem{i, false, in_quotes(patterns[i]) + " ends before it begins"};
    if (!any) return FreezeProblem{i, true, concat("no parameter matches ", in_quotes(patterns[i]))};
    if (const auto range = range_in(patterns[i]))
      if (std::none_of(parameters.begin(), parameters.end(), [&](const ParameterInfo& p) {
            return p.place.stage == range->before && p.place.block == range->last;
          }))
        return FreezeProblem{i, false, concat("there is no block ", range->last, " for ", in_quotes(patterns[i]))};
  }
  if (patterns.empty()) return {};
  const std::size_t last = patterns.size() - 1;
  for (std::size_t p = 1; p < parameters.size(); ++p)
    if (parameters[p].stacked && frozen[p] != frozen[p - 1])
      return FreezeProblem{last, false,
                           concat("freezes only one of ", parameters[p - 1].name, " and ", parameters[p].name,
                                  "; one product computes queries, keys and values, so freeze all three or none")};
  if (std::find(frozen.begin(), frozen.end(), false) == frozen.end())
    return FreezeProblem{last, false, "freezes every parameter, so there is nothing to train"};
  return {};
}

std::vector<bool> frozen_by(std::span<const std::string> patterns, std::span<const ParameterInfo> parameters) {
  if (const auto problem = problem_of_freeze(patterns, parameters)) throw InputError("freeze: " + problem->message);
  std::vector<bool> frozen(parameters.size());
  for (std::size_t p = 0; p < parameters.size(); ++p)
    frozen[p] = std::any_of(patterns.begin(), patterns.end(),
                            [&](const std::string& pattern) { return stands_for(pattern, parameters[p]); });
  return frozen;
}

std::int64_t trained_values(const ModelConfig& config, std::span<const std::string> patterns) {
  if (patterns.empty()) return model_cost(config).parameters;
  ParameterSet set;
  make_model(set, config);
  set.freeze(frozen_by(patterns, set.parameters()));
  return set.trained_count();
}

}  // namespace normlab
