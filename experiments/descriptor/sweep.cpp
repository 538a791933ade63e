#include "experiments/descriptor/sweep.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/base/suggest.h"
#include "experiments/descriptor/keys.h"
#include "experiments/descriptor/merge.h"

namespace normlab {
namespace {

std::vector<std::string> split_names(std::string_view names) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    std::string_view name = names.substr(begin, end - begin);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    out.emplace_back(name);
    begin = end + 1;
  }
  return out;
}

std::string label_of(std::string_view path, const JsonNode& node, PlacementRows& rows) {
  if (path == "model.placement" && node.is_object()) return visible_line(placement_label(node, rows));
  if (node.is_string()) return visible_line(node.text);
  return node.kind == JsonKind::real && !node.text.empty() ? node.text
                                                           : visible_line(write_json(node, JsonStyle::compact));
}

class SweepReader {
 public:
  SweepReader(PlacementRows& rows, Sources& sources, Problems& problems)
      : rows_(rows), sources_(sources), problems_(problems) {}

  Grid grid(const JsonNode& node, const JsonPath& path, bool may_have_seeds) {
    Grid out;
    if (!node.is_object()) {
      report(node.at, path, "expected an object of axes, got " + describe(node));
      return out;
    }
    for (const JsonMember& member : node.members) {
      const JsonPath here{&path, member.key, &member.value.at};
      if (may_have_seeds && member.key == "seeds") {
        out.seeds = read_seeds(member.value, here, problems_);
        continue;
      }
      AxisGroup group = axes(member, path);
      if (!group.empty() && fits(out, group, member, here)) out.groups.push_back(std::move(group));
    }
    return out;
  }

 private:
  void report(const Position& at, const JsonPath& path, const std::string& what) {
    problems_.add(at, path.pointer(), what);
  }

  AxisGroup axes(const JsonMember& member, const JsonPath& path) {
    const JsonPath here{&path, member.key, &member.value.at};
    const JsonNode& list = member.value;
    if (list.kind != JsonKind::array) {
      report(list.at, here, "expected a list of values, got " + describe(list));
      return {};
    }
    if (list.items.empty()) {
      report(list.at, here, "an axis needs at least one value");
      return {};
    }
    const std::vector<std::string> names = split_names(member.key);
    AxisGroup group(names.size());
    for (std::size_t a = 0; a < names.size(); ++a) {
      group[a].path = names[a];
      group[a].key_at = member.key_at;
      group[a].key_at.pointer = sources_.keep(JsonPath{&path, member.key, nullptr}.pointer());
      if (!is_axis(names[a], member, here)) return {};
    }
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      const JsonNode& item = list.items[i];
      const std::string number = std::to_string(i);
      const JsonPath at{&here, number, nullptr};
      if (names.size() == 1) {
        add_value(group[0], item, at);
      } else if (item.kind != JsonKind::array || item.items.size() != names.size()) {
        report(item.at, at, concat("expected a list of ", names.size(), " values, one for each of ", member.key));
        return {};
      } else {
        for (std::size_t a = 0; a < names.size(); ++a)
          add_value(group[a], item.items[a], JsonPath{&at, std::to_string(a), nullptr});
      }
    }
    return group;
  }

  bool is_axis(const std::string& name, const JsonMember& member, const JsonPath& path) {
    for (const std::string_view root : {"dataset", "model", "train"})
      if (is_within(name, root)) return true;
    const std::string first = name.substr(0, name.find('.'));
    if (name == "seed" || name == "seeds")
      report(member.key_at, path, "seeds are no axis; set \"seeds\" beside \"sweep\"");
    else
      report(member.key_at, path, unknown_key(first, {"dataset", "model", "train"}));
    return false;
  }

  void add_value(Axis& axis, const JsonNode& item, const JsonPath& path) {
    AxisValue value{item, value_text(item), label_of(axis.path, item, rows_)};
    value.node.at.pointer = sources_.keep(path.pointer());
    axis.values.push_back(std::move(value));
  }

  /// No axis of a group may undo another of its grid.
  bool fits(const Grid& grid, const AxisGroup& group, const JsonMember& member, const JsonPath& path) {
    std::vector<std::string> before;
    for (const AxisGroup& other : grid.groups)
      for (const Axis& axis : other) before.push_back(axis.path);
    for (const Axis& axis : group) {
      for (const std::string& other : before) {
        if (axis.path == other) return report(member.key_at, path, concat(other, " is an axis already")), false;
        if (is_within(other, axis.path))
          return report(member.key_at, path, concat("would undo ", other, ", which lies inside; put this axis first")),
                 false;
        for (const Exclusive& pair : kExclusive) {
          const std::string a = concat(pair.object, ".", pair.a), b = concat(pair.object, ".", pair.b);
          if ((axis.path == a && other == b) || (axis.path == b && other == a))
            return report(member.key_at, path, concat("says the same thing as ", other, "; leave one of them out")),
                   false;
        }
      }
      before.push_back(axis.path);
    }
    return true;
  }

  PlacementRows& rows_;
  Sources& sources_;
  Problems& problems_;
};

}  // namespace

std::size_t Grid::size(std::size_t limit) const {
  std::size_t product = 1;
  for (const AxisGroup& group : groups) {
    const std::size_t count = group.front().values.size();
    if (product > limit / count) return limit + 1;
    product *= count;
  }
  return product;
}

std::vector<Grid> read_sweep(const JsonNode& node, PlacementRows& rows, Sources& sources, Problems& problems) {
  const JsonPath root{}, path{&root, "sweep", &node.at};
  SweepReader reader(rows, sources, problems);
  if (node.kind != JsonKind::array) return {reader.grid(node, path, /*may_have_seeds=*/false)};
  std::vector<Grid> grids;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const std::string number = std::to_string(i);
    grids.push_back(reader.grid(node.items[i], JsonPath{&path, number, &node.items[i].at}, /*may_have_seeds=*/true));
  }
  if (grids.empty()) {
    problems.add(node.at, path.pointer(), "a list of grids needs at least one");
    grids.emplace_back();
  }
  return grids;
}

Grid read_axes(const JsonNode& node, const JsonPath& path, PlacementRows& rows, Sources& sources, Problems& problems) {
  return SweepReader(rows, sources, problems).grid(node, path, /*may_have_seeds=*/false);
}

std::vector<std::uint64_t> read_seeds(const JsonNode& node, const JsonPath& path, Problems& problems) {
  std::vector<std::uint64_t> seeds;
  const auto report = [&](const Position& at, const JsonPath& where, const std::string& what) {
    problems.add(at, where.pointer(), what);
  };
  if (node.kind == JsonKind::natural && node.natural >= 1 && node.natural <= kMaxTrials) {
    for (std::uint64_t seed = 0; seed < node.natural; ++seed) seeds.push_back(seed);
  } else if (node.kind == JsonKind::array && !node.items.empty()) {
    std::set<std::uint64_t> seen;
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const JsonNode& item = node.items[i];
      const std::string number = std::to_string(i);
      const JsonPath here{&path, number, &item.at};
      if (item.kind != JsonKind::natural)
        report(item.at, here, "expected an integer from 0, got " + describe(item));
      else if (!seen.insert(item.natural).second)
        report(item.at, here, concat("seed ", item.natural, " is given twice"));
      else
        seeds.push_back(item.natural);
    }
  } else {
    report(node.at, path,
           concat("expected how many seeds, from 1 to ", kMaxTrials, ", or a list of them, got ",
                  node.kind == JsonKind::array ? "an empty list" : describe(node),
                  node.is_object() ? "; two stages are for \"seeds\" beside \"sweep\" alone" : ""));
  }
  if (seeds.empty()) seeds.push_back(0);  // a problem was noted; what follows has something to go on with
  return seeds;
}

AxisChoice read_choice(const JsonNode& node, const JsonPath& path, const std::vector<Grid>& grids, Problems& problems) {
  AxisChoice choice{node.at, path.pointer(), {}};
  if (!node.is_object() || node.members.empty()) {
    problems.add(
        node.at, path.pointer(),
        "expected an object {axis: value}, got " + (node.is_object() ? std::string("an empty one") : describe(node)));
    return choice;
  }
  const std::vector<std::string> paths = axis_paths(grids);
  for (const JsonMember& member : node.members) {
    const JsonPath here{&path, member.key, &member.value.at};
    if (std::find(paths.begin(), paths.end(), member.key) == paths.end()) {
      problems.add(member.key_at, here.pointer(), unknown_word("axis", member.key, {paths.begin(), paths.end()}));
      continue;
    }
    const std::string text = value_text(member.value);
    bool found = false;
    std::vector<std::string_view> labels;
    for (const Grid& grid : grids)
      for (const AxisGroup& group : grid.groups)
        for (const Axis& axis : group)
          for (const AxisValue& value : axis.values) {
            if (axis.path != member.key) continue;
            found = found || value.text == text;
            if (std::find(labels.begin(), labels.end(), value.label) == labels.end()) labels.push_back(value.label);
          }
    if (!found) {
      std::string what = unknown_word("value", member.value.text, labels);
      if (!member.value.is_string()) {  // numbers are not misspelt
        what = concat("unknown value ", describe(member.value), "; one of: ");
        constexpr std::size_t kShown = 12;
        for (std::size_t i = 0; i < std::min(labels.size(), kShown); ++i)
          what += concat(i > 0 ? ", " : "", shown(labels[i]));
        if (labels.size() > kShown) what += ", ...";
      }
      problems.add(member.value.at, here.pointer(), "no value of this axis: " + what);
    }
    choice.values.emplace_back(member.key, text);
  }
  return choice;
}

std::vector<std::string> axis_paths(const std::vector<Grid>& grids) {
  std::vector<std::string> paths;
  for (const Grid& grid : grids)
    for (const AxisGroup& group : grid.groups)
      for (const Axis& axis : group)
        if (std::find(paths.begin(), paths.end(), axis.path) == paths.end()) paths.push_back(axis.path);
  return paths;
}

}  // namespace normlab
