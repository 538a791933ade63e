#include "nn/model/freeze.h"

#include <algorithm>
#include <charconv>

#include "core/visible_text.h"
#include "nn/model/model.h"

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

bool fits(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = pattern.npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;  // matches nothing at first, and more characters if that fails
      taken = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != pattern.npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool name_fits(std::string_view pattern, std::string_view name) {
  return fits(pattern, name) || fits(concat(pattern, ".*"), name);
}

bool stands_for(std::string_view pattern, const ParameterInfo& p) {
  if (pattern == "stem") return p.place.layer == 0 && p.place.stage.empty();
  if (const auto range = range_in(pattern))
    return p.place.stage == range->before && range->first <= p.place.block && p.place.block <= range->last;
  return name_fits(pattern, p.name);
}

Freezing freezing(std::span<const std::string> patterns, std::span<const ParameterInfo> parameters) {
  Freezing out{std::vector<bool>(parameters.size()), {}};
  for (std::size_t p = 0; p < parameters.size(); ++p) out.marks[p] = parameters[p].fixed;
  const auto fail = [&](std::size_t pattern, const std::string& message, bool matches_none = false) {
    if (!out.problem) out.problem = FreezeProblem{pattern, matches_none, message};
  };
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const std::string quoted = in_quotes(patterns[i]);
    const auto range = range_in(patterns[i]);
    bool any = false, has_last = false;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (!stands_for(patterns[i], parameters[p])) continue;
      out.marks[p] = any = true;
      has_last = has_last || (range && parameters[p].place.block == range->last);
    }
    if (range && range->first > range->last)
      fail(i, quoted + " ends before it begins");
    else if (!any)
      fail(i, concat("no parameter matches ", quoted), true);
    else if (range && !has_last)
      fail(i, concat("there is no block ", range->last, " for ", quoted));
  }
  if (patterns.empty()) return out;
  const std::size_t last = patterns.size() - 1;
  for (std::size_t p = 1; p < parameters.size(); ++p)
    if (parameters[p].stacked && out.marks[p] != out.marks[p - 1])
      fail(last, concat("freezes only one of ", parameters[p - 1].name, " and ", parameters[p].name,
                        "; one product computes queries, keys and values, so freeze all three or none"));
  if (std::find(out.marks.begin(), out.marks.end(), false) == out.marks.end())
    fail(last, "freezes every parameter, so there is nothing to train");
  return out;
}

std::vector<bool> frozen_by(std::span<const std::string> patterns, std::span<const ParameterInfo> parameters) {
  Freezing found = freezing(patterns, parameters);
  if (found.problem) throw InputError("freeze: " + found.problem->message);
  return std::move(found.marks);
}

std::int64_t trained_values(const ModelConfig& config, std::span<const std::string> patterns) {
  ParameterSet set;
  make_model(set, config);
  set.freeze(frozen_by(patterns, set.parameters()));
  return set.trained_count();
}

}  // namespace normlab
