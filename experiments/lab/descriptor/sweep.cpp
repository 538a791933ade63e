#include "experiments/lab/descriptor/sweep.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/descriptor/condition.h"
#include "experiments/lab/descriptor/draws.h"
#include "experiments/lab/descriptor/keys.h"
#include "experiments/lab/descriptor/leave_one_out.h"
#include "experiments/lab/descriptor/merge.h"

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

/// An object, such as {"base": "big_vision", "head": "xavier"} as "base=big_vision, head=xavier". A start: null as
/// "none",
/// {"from": {"descriptor": "a.json", "seed": 1}, "weights": "ema"} as "a.json, seed=1, weights=ema".
std::string object_label(const JsonNode& node) {
  if (node.kind == JsonKind::null) return "none";
  std::string out;
  for (const JsonMember& member : node.members) {
    const bool source = member.key == "file" || member.key == "descriptor";
    out += concat(out.empty() ? "" : ", ", source || member.key == "from" ? "" : member.key + '=',
                  member.value.is_string() ? member.value.text
                  : member.key == "from"   ? object_label(member.value)
                                           : write_json(member.value, JsonStyle::compact));
  }
  return out;
}

/// A formula, such as {"formula": "a * x", "parameters": {"a": 1}} as "a * x; parameters={\"a\":1}", as placements have
/// it.
std::string formula_label(const JsonMember& formula, const JsonNode& node) {
  std::string out = formula.value.text;
  for (const JsonMember& member : node.members)
    if (&member != &formula) out += concat("; ", member.key, "=", write_json(member.value, JsonStyle::compact));
  return out;
}

bool is_axis(const std::string& name, const JsonMember& member, Problems& problems) {
  for (const std::string_view root : kSettingRoots)
    if (is_within(name, root)) return true;
  if (name == kBenchmarkAxis) return true;
  const std::string first = name.substr(0, name.find('.'));
  if (name == "seed" || name == "seeds")
    problems.add(member.key_at, "the seed cannot be an axis; set \"seeds\" next to \"sweep\"");
  else
    problems.add(member.key_at, unknown_setting(first, {std::begin(kSettingRoots), std::end(kSettingRoots)}));
  return false;
}

AxisGroup read_group(const JsonMember& member, PlacementRows& rows, Problems& problems) {
  const JsonNode& list = member.value;
  if (!list.is_array()) {
    const bool draws = list.find("log_uniform") != nullptr || list.find("uniform") != nullptr;
    problems.add(list.at, concat("expected a list of values, got ", describe(list),
                                 draws ? "; values are drawn for one key of \"tune\" at a time" : ""));
    return {};
  }
  if (list.items.empty()) {
    problems.add(list.at, "an axis needs at least one value");
    return {};
  }
  const std::vector<std::string> names = split_names(member.key);
  AxisGroup group(names.size());
  for (std::size_t a = 0; a < names.size(); ++a) {
    group[a].path = names[a];
    group[a].key_at = member.key_at;
    if (!is_axis(names[a], member, problems)) return {};
  }
  const auto add_value = [&](Axis& axis, const JsonNode& item) {
    axis.values.push_back({item, value_text(item), axis_label(axis.path, item, rows)});
  };
  for (const JsonNode& item : list.items) {
    if (names.size() == 1) {
      add_value(group[0], item);
    } else if (!item.is_array() || item.items.size() != names.size()) {
      problems.add(item.at, concat("expected a list of ", names.size(), " values, one for each of ", member.key));
      return {};
    } else {
      for (std::size_t a = 0; a < names.size(); ++a) add_value(group[a], item.items[a]);
    }
  }
  return group;
}

/// Refuses a group whose axes overwrite another axis of the grid.
bool fits_group(const Grid& grid, const AxisGroup& group, const JsonMember& member, Problems& problems) {
  std::vector<std::string> before;
  for (const AxisGroup& other : grid.groups)
    for (const Axis& axis : other) before.push_back(axis.path);
  for (const Axis& axis : group) {
    for (const std::string& other : before) {
      if (axis.path == other) return problems.add(member.key_at, concat(other, " is an axis already")), false;
      if (is_within(other, axis.path))
        return problems.add(member.key_at,
                            concat("would overwrite ", other, ", which is a part of it; put this axis first")),
               false;
      if ((!is_pattern(other) && has_form(other, axis.path)) || (!is_pattern(axis.path) && has_form(axis.path, other)))
        return problems.add(member.key_at, concat("sets the same thing as ", other, "; leave one of them out")), false;
      for (const Exclusive& pair : kExclusive) {
        const std::string a = concat(pair.object, ".", pair.a), b = concat(pair.object, ".", pair.b);
        if ((axis.path == a && other == b) || (axis.path == b && other == a))
          return problems.add(member.key_at, concat("sets the same thing as ", other, "; leave one of them out")),
                 false;
      }
    }
    before.push_back(axis.path);
  }
  return true;
}

std::string joined_labels(const AxisLabels& axes, const std::vector<std::string>& paths) {
  std::string label;
  for (const auto& [path, value] : axes) {
    const auto at = std::size_t(std::find(paths.begin(), paths.end(), path) - paths.begin());
    label += concat(label.empty() ? "" : ", ", axis_name(paths, at), "=", value);
  }
  return label;
}

}  // namespace

std::string axis_label(std::string_view path, const JsonNode& node, PlacementRows& rows) {
  if (path == "model.placement" && node.is_object()) return visible_line(placement_label(node, rows));
  const bool named_by_keys = path.starts_with("start.") || path == "model.init" || path == "model.dropout";
  if ((node.is_object() && named_by_keys) || (path == "start" && !node.is_string()))
    return visible_line(object_label(node));
  if (node.is_string()) return visible_line(node.text);
  if (const JsonMember* const formula = node.find("formula"); formula && formula->value.is_string())
    return visible_line(formula_label(*formula, node));
  return node.kind == JsonKind::real && !node.text.empty() ? node.text
                                                           : visible_line(write_json(node, JsonStyle::compact));
}

Grid read_grid(const JsonNode& node, GridPlace place, PlacementRows& rows, Problems& problems) {
  Grid out;
  std::optional<std::size_t> drawn;  // the group of drawn axes
  if (!node.is_object()) {
    problems.add(node.at, "expected an object of axes such as {\"model.placement\": [\"pre_pre\", \"dpn\"]}, got " +
                              describe(node));
    return out;
  }
  for (const JsonMember& member : node.members) {
    if (place == GridPlace::list && member.key == "seeds") {
      out.seeds = read_seeds(member.value, problems);
      continue;
    }
    if (place == GridPlace::tune && member.value.is_object() && member.key != kLeaveOneOutAxis) {
      AxisGroup group;
      if (is_axis(member.key, member, problems)) group.push_back(read_draw(member, rows, problems));
      if (group.empty() || group.front().values.empty() || !fits_group(out, group, member, problems)) continue;
      if (!drawn) {
        drawn = out.groups.size();
        out.groups.push_back(std::move(group));
        continue;
      }
      AxisGroup& together = out.groups[*drawn];
      if (const std::size_t n = together.front().values.size(); n != group.front().values.size())
        problems.add(member.value.at,
                     concat("drawn together with ", together.front().path, "; give both the same \"n\", such as ", n));
      else
        together.push_back(std::move(group.front()));
      continue;
    }
    const bool leaves_out = member.key == kLeaveOneOutAxis;
    AxisGroup group = leaves_out ? read_leave_one_out(member, rows, problems) : read_group(member, rows, problems);
    const bool first = std::all_of(out.groups.begin(), out.groups.end(),
                                   [](const AxisGroup& other) { return other.front().path == kBenchmarkAxis; });
    if (leaves_out && !first)
      problems.add(member.key_at, "lays its settings over the descriptor before other axes; put it before them");
    if (!group.empty() && fits_group(out, group, member, problems)) out.groups.push_back(std::move(group));
  }
  return out;
}

std::size_t Grid::size(std::size_t limit) const {
  std::size_t product = 1;
  for (const AxisGroup& group : groups) {
    const std::size_t count = group.front().values.size();
    if (product > limit / count) return limit + 1;
    product *= count;
  }
  return product;
}

std::vector<std::size_t> combination(const Grid& grid, std::size_t number) {
  std::vector<std::size_t> index(grid.groups.size());
  for (std::size_t g = index.size(); g-- > 0;) {
    const std::size_t count = grid.groups[g].front().values.size();
    index[g] = number % count;
    number /= count;
  }
  return index;
}

std::vector<Grid> read_sweep(const JsonNode& node, PlacementRows& rows, Problems& problems) {
  if (!node.is_array()) return {read_grid(node, GridPlace::sweep, rows, problems)};
  std::vector<Grid> grids;
  for (const JsonNode& item : node.items) grids.push_back(read_grid(item, GridPlace::list, rows, problems));
  if (grids.empty()) {
    problems.add(node.at, "a list of grids needs at least one grid");
    grids.emplace_back();
  }
  return grids;
}

std::vector<std::uint64_t> read_seeds(const JsonNode& node, Problems& problems) {
  std::vector<std::uint64_t> seeds;
  if (node.kind == JsonKind::natural && node.natural >= 1 && node.natural <= kMaxTrials) {
    for (std::uint64_t seed = 0; seed < node.natural; ++seed) seeds.push_back(seed);
  } else if (node.is_array() && !node.items.empty()) {
    std::set<std::uint64_t> seen;
    for (const JsonNode& item : node.items) {
      if (item.kind != JsonKind::natural)
        problems.add(item.at, "expected an integer from 0 to 2^64 - 1, got " + describe(item));
      else if (!seen.insert(item.natural).second)
        problems.add(item.at, concat("seed ", item.natural, " is given twice"));
      else
        seeds.push_back(item.natural);
    }
  } else {
    problems.add(node.at, concat("expected a number of seeds from 1 to ", kMaxTrials, ", or a list of seeds, got ",
                                 node.is_array() ? "an empty list" : describe(node),
                                 node.is_object() ? "; only \"seeds\" next to \"sweep\" can have two stages" : ""));
  }
  if (seeds.empty()) seeds.push_back(0);  // after a problem: callers need at least one
  return seeds;
}

AxisChoice read_choice(const JsonNode& node, const std::vector<Grid>& grids, Problems& problems) {
  AxisChoice choice{node.at, {}};
  if (!node.is_object() || node.members.empty()) {
    problems.add(node.at, "expected an object {axis: value}, got " +
                              (node.is_object() ? std::string("an empty one") : describe(node)));
    return choice;
  }
  const std::vector<std::string> paths = axis_paths(grids);
  for (const JsonMember& member : node.members) {
    if (std::find(paths.begin(), paths.end(), member.key) == paths.end()) {
      problems.add_unless("/sweep", member.key_at, unknown_word("axis", member.key, {paths.begin(), paths.end()}));
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
      if (!member.value.is_string()) {  // no spelling suggestions for numbers
        what = concat("unknown value ", describe(member.value), "; one of: ");
        constexpr std::size_t kShown = 12;
        for (std::size_t i = 0; i < std::min(labels.size(), kShown); ++i)
          what += concat(i > 0 ? ", " : "", shown(labels[i]));
        if (labels.size() > kShown) what += ", ...";
      }
      problems.add(member.value.at, "not a value of this axis: " + what);
    }
    choice.values.emplace_back(member.key, text);
  }
  return choice;
}

bool lay(JsonNode& tree, const Axis& axis, std::size_t value, Problems& problems) {
  if (axis.path == kBenchmarkAxis) {
    merge_over(tree, axis.values[value].node);
    return true;
  }
  const auto set = [&](const std::string& path, const JsonNode& node, const Position& key_at) {
    const std::string problem = set_path(tree, path, node, key_at);
    if (!problem.empty()) problems.add(key_at, problem);
    return problem.empty();
  };
  if (axis.path != kLeaveOneOutAxis) return set(axis.path, axis.values[value].node, axis.key_at);
  bool complete = true;
  for (const JsonMember& member : axis.values[value].node.members)
    complete = set(member.key, member.value, member.key_at) && complete;
  return complete;
}

bool lay(JsonNode& tree, const Grid& grid, const std::vector<std::size_t>& combination, Problems& problems) {
  bool complete = true;
  for (std::size_t g = 0; g < grid.groups.size(); ++g)
    for (const Axis& axis : grid.groups[g]) complete = lay(tree, axis, combination[g], problems) && complete;
  return complete;
}

AxisPlace find_axis_value(const std::vector<Grid>& grids, std::string_view path, std::string_view text) {
  for (const Grid& grid : grids)
    for (const AxisGroup& group : grid.groups)
      for (const Axis& axis : group)
        for (std::size_t v = 0; v < axis.values.size() && axis.path == path; ++v)
          if (axis.values[v].text == text) return {&axis, v};
  return {};
}

std::vector<std::string> axis_paths(const std::vector<Grid>& grids) {
  std::vector<std::string> paths;
  for (const Grid& grid : grids)
    for (const AxisGroup& group : grid.groups)
      for (const Axis& axis : group)
        if (std::find(paths.begin(), paths.end(), axis.path) == paths.end()) paths.push_back(axis.path);
  return paths;
}

std::string row_label(const AxisLabels& axes, const std::vector<std::string>& paths, const std::string& stem) {
  if (paths.size() == 1 && axes.size() == 1) return axes.front().second;  // needs no axis name
  return axes.empty() ? stem : joined_labels(axes, paths);
}

std::string choice_label(const AxisChoice& choice, const std::vector<Grid>& grids,
                         const std::vector<std::string>& paths) {
  AxisLabels axes;
  for (const auto& [path, text] : choice.values) {
    const auto [axis, value] = find_axis_value(grids, path, text);
    axes.emplace_back(path, axis->values[value].label);
  }
  return axes.size() == 1 ? axes.front().second : joined_labels(axes, paths);
}

}  // namespace normlab
