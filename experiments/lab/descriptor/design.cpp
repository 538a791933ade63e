#include "experiments/lab/descriptor/design.h"

#include <algorithm>

#include "core/error.h"
#include "experiments/lab/descriptor/forms.h"
#include "experiments/lab/descriptor/merge.h"

namespace normlab {
namespace {

void check_top_level(const JsonNode& root, Problems& problems) {
  std::vector<std::string_view> keys(kKeysOf<TrialConfig>.begin(), kKeysOf<TrialConfig>.end());
  std::erase(keys, "seed");
  for (const TopLevelKey& known : kTopLevelKeys) keys.push_back(known.key);
  for (const JsonMember& member : root.members) {
    if (std::find(keys.begin(), keys.end(), member.key) == keys.end())
      problems.add(member.key_at, unknown_setting(member.key, keys));
    if (member.key == "extends") problems.add(member.key_at, "can only be set in the file, not by --set");
  }
}

void read_blocks(Design& design, Problems& problems, Experiment& out) {
  for (const char* key : {"$schema", "about"}) {
    const JsonMember* member = design.root.find(key);
    if (member == nullptr) continue;
    if (!member->value.is_string())
      problems.add(member->value.at, "expected a string, got " + describe(member->value));
    else if (member->key == "about")
      out.about = member->value.text;
  }
  const auto read = [&]<class T>(const char* key, T& block, ReadMode mode = ReadMode::block) {
    if (const JsonMember* member = design.root.find(key))
      block = read_value<T>(member->value, design.placements, problems, mode);
  };
  read("checkpoint", out.checkpoint, ReadMode::descriptor);
  read("probes", out.probes);
  read("paper", out.paper);
  read("claim", out.claim);
  read("printed", out.printed);
  const JsonMember* seeds = design.root.find("seeds");
  if (seeds == nullptr) return;
  if (!seeds->value.is_object()) return read("seeds", design.seeds);
  read("seeds", design.two_stage.emplace());
  design.seeds.resize(design.two_stage->first);
  for (std::size_t s = 0; s < design.seeds.size(); ++s) design.seeds[s] = s;
}

/// The rule concerns gains, and requires the same seeds for all rows.
void check_two_stage(const Design& design, bool own_seeds, Problems& problems) {
  const Position at = design.root.find("seeds")->value.at;
  if (!design.has_baselines())
    problems.add(at,
                 "two-stage seeds fix the width of the gains' intervals; add the \"baseline\" that gains are measured "
                 "against");
  if (own_seeds)
    problems.add(at, "with two-stage seeds every row runs the same seeds; leave out the seeds of the grids");
}

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

/// Why --set cannot set this path: a benchmark would overwrite it. "" if none does.
std::string conflict_with(const std::vector<Benchmark>& benchmarks, const std::string& path) {
  for (const Benchmark& benchmark : benchmarks)
    if (gives(benchmark.settings, path))
      return concat("the benchmark ", in_quotes(benchmark.name), " sets this itself; set \"benchmarks.", benchmark.name,
                    ".", path, "\" instead");
  return "";
}

/// Refuses a `--set` setting that an axis would overwrite.
void refuse_swept(const Design& design, const std::vector<std::string>& set_paths, Problems& problems) {
  std::vector<Grid> tuned;
  if (design.tuned)
    for (const TuneStage& stage : design.tuned->stages()) tuned.push_back(stage.grid);
  for (const Source& source : design.sources->all())
    for (const std::string& set : set_paths) {
      if (source.has_lines || !source.name.starts_with("--set " + set + "=")) continue;
      std::string pointer = "/" + set;
      std::replace(pointer.begin(), pointer.end(), '.', '/');
      const auto refuse = [&](const std::vector<std::string>& axes, std::string_view what) {
        for (const std::string& axis : axes)
          if (is_within(set, axis) || has_form(set, axis)) problems.add({&source}, pointer, concat(axis, what));
      };
      refuse(design.paths, " is an axis of the sweep, which would overwrite this value; set \"sweep\" instead");
      if (std::string why = conflict_with(design.benchmarks, set); !why.empty()) problems.add({&source}, pointer, why);
      for (const Grid& grid : design.grids)
        if (const Axis* axis = leave_one_out_axis(grid))
          for (const AxisValue& value : axis->values)
            for (const JsonMember& member : value.node.members) refuse({member.key}, " is set by \"leave_one_out\"");
      refuse(axis_paths(tuned), " is tuned, which would overwrite this value; set \"tune\" instead");
    }
}

void refuse_swept_metrics(const Design& design, Problems& problems) {
  for (const Grid& grid : design.grids)
    for (const AxisGroup& group : grid.groups)
      for (const Axis& axis : group)
        if (axis.path == "eval.metrics")
          problems.add(axis.key_at,
                       "metrics change no training, so the rows would be the same trials; set \"eval\": {\"metrics\": "
                       "[...]} outside the sweep");
}

void read_choices(Design& design, Problems& problems) {
  const JsonNode& root = design.root;
  if (const JsonMember* member = root.find("exclude")) {
    if (!member->value.is_array())
      problems.add(member->value.at, "expected a list of objects, got " + describe(member->value));
    for (const JsonNode& item : member->value.items)
      design.exclude.push_back({read_choice(item, design.grids, problems)});
  }
  if (const JsonMember* member = root.find("baseline"))
    design.baseline = Choice{read_choice(member->value, design.grids, problems)};
  if (const JsonMember* member = root.find("tuned_for"))
    design.tuned_for = Choice{read_choice(member->value, design.grids, problems)};
  const JsonMember* apart = root.find("apart");
  if (apart == nullptr) return;
  if (!apart->value.is_array()) problems.add(apart->value.at, "expected a list of rows, got " + describe(apart->value));
  if (!design.has_baselines())
    problems.add(apart->value.at, "concerns gains; add the \"baseline\" that they are measured against");
  for (const JsonNode& item : apart->value.items)
    if (!item.is_string() && !item.is_object())
      problems.add(item.at, "expected the name of a row or {\"axis\": value}, got " + describe(item));
    else
      design.apart.emplace_back(item, item.is_string() ? AxisChoice{} : read_choice(item, design.grids, problems));
}

}  // namespace

void read_design(Design& design, const std::vector<std::string>& set_paths, Problems& problems, Experiment& out) {
  const JsonNode& root = design.root;
  check_top_level(root, problems);
  design.placements = PlacementRows(value_of(root, kNormsKey), value_of(root, "placements"), problems);
  read_blocks(design, problems, out);
  const JsonMember* sweep = root.find("sweep");
  design.grids = sweep == nullptr ? std::vector<Grid>(1) : read_sweep(sweep->value, design.placements, problems);
  design.benchmarks = read_benchmarks(root.find("benchmarks"), design.grids, problems);
  const auto has_seeds = [](const Grid& grid) { return grid.seeds.has_value(); };
  if (root.find("seeds") != nullptr && std::all_of(design.grids.begin(), design.grids.end(), has_seeds))
    problems.add(design.position_of("seeds"), "/seeds", "every grid has its own seeds; leave these out");
  design.paths = axis_paths(design.grids);
  if (const JsonMember* tune = root.find("tune"))
    design.tuned = std::make_shared<TunedRows>(read_tune(tune->value, design.paths, design.placements, problems),
                                               design.sources, design.classes);
  refuse_swept(design, set_paths, problems);
  refuse_swept_metrics(design, problems);
  read_choices(design, problems);
  if (design.two_stage)
    check_two_stage(design, std::any_of(design.grids.begin(), design.grids.end(), has_seeds), problems);
  for (const std::string_view key : kSettingRoots)
    if (const JsonMember* member = root.find(key)) design.base.members.push_back(*member);
  design.base.at = root.at;
  check_values(design.base, design.placements, problems);
}

}  // namespace normlab
