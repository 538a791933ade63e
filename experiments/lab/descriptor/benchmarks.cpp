#include "experiments/lab/descriptor/benchmarks.h"

#include <algorithm>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/descriptor/keys.h"
#include "experiments/lab/descriptor/unknown_setting.h"

namespace normlab {
namespace {

constexpr std::string_view kGroupKey = "group", kAllGroup = "all";

/// Whether `settings` give this dotted path, a part of it, or a value that holds it.
bool gives(const JsonNode& settings, std::string_view path) {
  const JsonNode* node = &settings;
  for (std::string_view rest = path; node->is_object();) {
    const std::size_t dot = rest.find('.');
    const JsonMember* member = node->find(rest.substr(0, dot));
    if (member == nullptr) return false;
    if (dot == rest.npos) return true;
    node = &member->value;
    rest.remove_prefix(dot + 1);
  }
  return true;
}

}  // namespace

Benchmarks::Benchmarks(const JsonMember* member, std::vector<Grid>& grids, Problems& problems) {
  if (member != nullptr) read(member->value, problems);
  for (Grid& grid : grids)
    for (AxisGroup& group : grid.groups)
      for (Axis& axis : group) {
        if (axis.path != kBenchmarkAxis) continue;
        if (&group != grid.groups.data() || group.size() > 1)
          problems.add(axis.key_at,
                       "benchmarks are laid over the descriptor before other axes; put this axis first, alone");
        resolve(axis, problems);
      }
}

void Benchmarks::read(const JsonNode& node, Problems& problems) {
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
      else if (part.value.is_string() && part.value.text == kAllGroup)
        problems.add(part.value.at, "the group \"all\" is that of all benchmarks; choose another name");
      else if (part.value.is_string() && !part.value.text.empty())
        benchmark.group = part.value.text;
      else
        problems.add(part.value.at, "expected the name of a group, got " + describe(part.value));
    }
    benchmarks_.push_back(std::move(benchmark));
  }
}

void Benchmarks::resolve(Axis& axis, Problems& problems) const {
  for (AxisValue& value : axis.values) {
    const auto found = std::find_if(benchmarks_.begin(), benchmarks_.end(), [&](const Benchmark& benchmark) {
      return value.node.is_string() && benchmark.name == value.node.text;
    });
    if (found == benchmarks_.end()) {
      std::vector<std::string_view> names;
      for (const Benchmark& benchmark : benchmarks_) names.push_back(benchmark.name);
      problems.add(value.node.at, names.empty() ? "the descriptor defines no \"benchmarks\""
                                                : unknown_word("benchmark", value.label, names));
      value.node = json_object();
    } else {
      value.node = found->settings;
    }
  }
}

std::string Benchmarks::conflict(const std::string& path) const {
  for (const Benchmark& benchmark : benchmarks_)
    if (gives(benchmark.settings, path))
      return concat("the benchmark ", in_quotes(benchmark.name), " sets this itself; set \"benchmarks.", benchmark.name,
                    ".", path, "\" instead");
  return "";
}

std::vector<BenchmarkGroup> Benchmarks::groups() const {
  std::vector<BenchmarkGroup> groups;
  BenchmarkGroup all{std::string(kAllGroup), {}};
  for (const Benchmark& benchmark : benchmarks_) {
    all.benchmarks.push_back(benchmark.name);
    if (benchmark.group.empty()) continue;
    auto found =
        std::find_if(groups.begin(), groups.end(), [&](const BenchmarkGroup& g) { return g.name == benchmark.group; });
    if (found == groups.end()) found = groups.insert(found, {benchmark.group, {}});
    found->benchmarks.push_back(benchmark.name);
  }
  if (!groups.empty()) groups.push_back(std::move(all));
  return groups;
}

}  // namespace normlab
