#include <algorithm>

#include "core/error.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/descriptor/design.h"
#include "experiments/lab/descriptor/keys.h"
#include "experiments/lab/descriptor/schema_nodes.h"

namespace normlab {
namespace {

constexpr std::string_view kGroupKey = "group";

std::vector<Benchmark> read(const JsonNode& node, Problems& problems) {
  std::vector<Benchmark> benchmarks;
  if (!node.is_object())
    problems.add(node.at, "expected an object such as {\"cats\": {\"dataset\": {...}}}, got " + describe(node));
  std::vector<std::string_view> keys(std::begin(kSettingRoots), std::end(kSettingRoots));
  keys.push_back(kGroupKey);
  for (const JsonMember& entry : node.members) {
    if (!entry.value.is_object()) {
      problems.add(entry.value.at, "expected an object with the benchmark's settings, got " + describe(entry.value));
      continue;
    }
    Benchmark benchmark{entry.key, "", json_object()};
    for (const JsonMember& part : entry.value.members) {
      if (std::find(keys.begin(), keys.end(), part.key) == keys.end())
        problems.add(part.key_at, unknown_setting(part.key, keys));
      else if (part.key != kGroupKey)
        benchmark.settings.members.push_back(part);
      else if (part.value.is_string() && part.value.text == kAllBenchmarks)
        problems.add(part.value.at, "the group \"all\" is that of all benchmarks; choose another name");
      else if (part.value.is_string() && !part.value.text.empty())
        benchmark.group = part.value.text;
      else
        problems.add(part.value.at, "expected the name of a group, got " + describe(part.value));
    }
    benchmarks.push_back(std::move(benchmark));
  }
  return benchmarks;
}

void resolve(Axis& axis, const std::vector<Benchmark>& benchmarks, Problems& problems) {
  for (AxisValue& value : axis.values) {
    const auto found = std::find_if(benchmarks.begin(), benchmarks.end(), [&](const Benchmark& benchmark) {
      return value.node.is_string() && benchmark.name == value.node.text;
    });
    if (found == benchmarks.end()) {
      problems.add(value.node.at, benchmarks.empty() ? "the descriptor defines no \"benchmarks\""
                                                     : unknown_word("benchmark", value.label, names_of(benchmarks)));
      value.node = json_object();
    } else {
      value.node = found->settings;
    }
  }
}

}  // namespace

std::vector<Benchmark> read_benchmarks(const JsonMember* member, std::vector<Grid>& grids, Problems& problems) {
  std::vector<Benchmark> benchmarks;
  if (member != nullptr) benchmarks = read(member->value, problems);
  for (Grid& grid : grids)
    for (AxisGroup& group : grid.groups)
      for (Axis& axis : group) {
        if (axis.path != kBenchmarkAxis) continue;
        if (&group != grid.groups.data() || group.size() > 1)
          problems.add(axis.key_at,
                       "benchmarks are laid over the descriptor before other axes; put this axis first, alone");
        resolve(axis, benchmarks, problems);
      }
  return benchmarks;
}

}  // namespace normlab
