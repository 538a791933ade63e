#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "experiments/base/suggest.h"
#include "experiments/descriptor/sweep.h"

namespace normlab {

TwoStageSeeds read_two_stage_seeds(const JsonNode& node, const JsonPath& path, Problems& problems) {
  TwoStageSeeds seeds{2, 2, 1, "eval/accuracy"};
  const std::vector<std::string_view> keys{"first", "max", "gain_halfwidth", "metric"};
  const auto report = [&](const Position& at, const JsonPath& where, const std::string& what) {
    problems.add(at, where.pointer(), what);
  };
  const auto count = [&](const JsonMember& member, std::size_t& out) {
    const JsonPath here{&path, member.key, &member.value.at};
    if (member.value.kind != JsonKind::natural || member.value.natural < 2 || member.value.natural > kMaxTrials)
      return report(member.value.at, here,
                    concat("expected a number of seeds from 2 to ", kMaxTrials, ", got ", describe(member.value),
                           member.key == "first" ? "; a single seed tells no noise" : ""));
    out = member.value.natural;
  };
  for (const JsonMember& member : node.members) {
    const JsonPath here{&path, member.key, &member.value.at};
    const JsonNode& value = member.value;
    if (member.key == "first") {
      count(member, seeds.first);
    } else if (member.key == "max") {
      count(member, seeds.max);
    } else if (member.key == "gain_halfwidth") {
      seeds.gain_halfwidth = value.kind == JsonKind::real      ? value.real
                             : value.kind == JsonKind::natural ? double(value.natural)
                                                               : 0.0;
      if (!(seeds.gain_halfwidth > 0) || !std::isfinite(seeds.gain_halfwidth))
        report(value.at, here, "expected a number above 0 in the table's unit, got " + describe(value));
    } else if (member.key == "metric") {
      if (value.is_string())
        seeds.metric = value.text;
      else
        report(value.at, here, "expected a word, got " + describe(value));
    } else {
      report(member.key_at, JsonPath{&path, member.key, &member.key_at}, unknown_key(member.key, keys));
    }
  }
  for (const char* key : {"first", "max", "gain_halfwidth"})
    if (node.find(key) == nullptr) report(node.at, path, concat("give its \"", key, "\""));
  if (const JsonMember* max = node.find("max"); max != nullptr && problems.empty() && seeds.max < seeds.first)
    report(max->value.at, JsonPath{&path, max->key, &max->value.at}, concat("is below \"first\", ", seeds.first));
  return seeds;
}

}  // namespace normlab
