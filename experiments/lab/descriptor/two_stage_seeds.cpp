#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/descriptor/sweep.h"

namespace normlab {

TwoStageSeeds read_two_stage_seeds(const JsonNode& node, Problems& problems) {
  TwoStageSeeds seeds{2, 2, 1, "eval/accuracy"};
  const std::vector<std::string_view> keys{"first", "max", "gain_halfwidth", "metric"};
  const auto count = [&](const JsonMember& member, std::size_t& out) {
    if (member.value.kind != JsonKind::natural || member.value.natural < 2 || member.value.natural > kMaxTrials)
      return problems.add(member.value.at,
                          concat("expected a number of seeds from 2 to ", kMaxTrials, ", got ", describe(member.value),
                                 member.key == "first" ? "; a single seed shows no noise" : ""));
    out = member.value.natural;
  };
  for (const JsonMember& member : node.members) {
    const JsonNode& value = member.value;
    if (member.key == "first") {
      count(member, seeds.first);
    } else if (member.key == "max") {
      count(member, seeds.max);
    } else if (member.key == "gain_halfwidth") {
      seeds.gain_halfwidth = value.number();
      if (!(seeds.gain_halfwidth > 0) || !std::isfinite(seeds.gain_halfwidth))
        problems.add(value.at, "expected a number above 0, in the table's unit, got " + describe(value));
    } else if (member.key == "metric") {
      if (value.is_string())
        seeds.metric = value.text;
      else
        problems.add(value.at, "expected a word, got " + describe(value));
    } else {
      problems.add(member.key_at, unknown_key(member.key, keys));
    }
  }
  for (const char* key : {"first", "max", "gain_halfwidth"})
    if (node.find(key) == nullptr) problems.add(node.at, concat("the key \"", key, "\" is missing"));
  if (const JsonMember* max = node.find("max"); max != nullptr && problems.empty() && seeds.max < seeds.first)
    problems.add(max->value.at, concat("is below \"first\", which is ", seeds.first));
  return seeds;
}

}  // namespace normlab
