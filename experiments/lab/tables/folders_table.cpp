// Tables of trials without a descriptor: their differing settings define the rows.

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/tasks.h"
#include "experiments/lab/sweep/plan_file.h"
#include "experiments/lab/tables/lr_sensitivity.h"
#include "experiments/lab/tables/sweep_table.h"
#include "experiments/lab/tables/table_filter.h"
#include "experiments/lab/tables/trial_seed.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

using Settings = std::map<std::string, std::string>;  // path -> value, for display

constexpr const char *kPlacement = "model.placement", *kStart = "start.trial";

/// A norm's kind is at the site's path, its other settings below it.
void flatten(const nlohmann::json& node, const std::string& path, Settings& out) {
  if (!node.is_object()) {
    out[path] = node.is_string() ? node.get<std::string>() : node.dump();
    return;
  }
  for (const auto& [key, value] : node.items())
    flatten(value, key == "kind" && path.starts_with(kPlacement) ? path : path.empty() ? key : path + "." + key, out);
}

struct FoundTrial {
  TrialFolder folder;
  TrialConfig config;
  Settings settings;                // without those of seed and placement
  std::string placement;            // named by the plan or the program; "" if unnamed
  std::string sites;                // the complete placement as text
  bool built_in = false;            // the program's placement of that name
  bool varied = false;              // the plan changes it further, so the name is not the full description
  std::string experiment, row;      // names of the plans that list it, and of its row there
  std::string start_row;            // id, with seed 0, of the trial that this one starts from if both have one seed
  std::vector<std::string> values;  // of the axes
};

/// The id with seed 0 of the trial in `trials` that `config` starts from, if both have the same seed; otherwise "",
/// also if that trial cannot be read.
std::string start_row_of(const std::filesystem::path& trials, const TrialConfig& config) try {
  const TrialFolder folder(trials / config.start.trial);
  if (config.start.trial.empty() || !std::filesystem::exists(folder.path() / "config.json")) return "";
  TrialConfig start = read_trial_config(folder);
  if (start.seed != config.seed) return "";
  if (const std::string before = start_row_of(trials, start); !before.empty()) start.start.trial = before;
  start.seed = 0;
  return trial_id(start);
} catch (const InputError&) {
  return "";
}

class FolderReader {
 public:
  FoundTrial read(const std::filesystem::path& path) {
    const TrialFolder folder(path);
    FoundTrial trial{folder, read_trial_config(folder), {}, {}, {}, false, false, {}, {}, {}, {}};
    trial.start_row = start_row_of(path.parent_path(), trial.config);
    // Serialised again, so that older trials show newer settings at their defaults.
    nlohmann::json json = parse_strict_json(full_json(trial.config), (path / "config.json").string());
    json.erase("seed");
    trial.sites = json["model"]["placement"].dump();
    json["model"].erase("placement");
    flatten(json, "", trial.settings);
    const auto [known, added] = names_.try_emplace(trial.sites);
    if (added) known->second = placement_name(trial.config.model);
    trial.placement = known->second;
    trial.built_in = !trial.placement.empty();
    read_plan(path, trial);
    return trial;
  }

  /// Experiments without a plan, whose rows have no name.
  const std::vector<std::string>& unnamed() const { return unnamed_; }

 private:
  struct Planned {
    std::string experiment, row;
    Settings axes;
  };

  void read_plan(const std::filesystem::path& path, FoundTrial& trial) {
    if (path.parent_path().filename() != "trials") return;  // copied from elsewhere, without a plan
    const auto [plans, added] = planned_.try_emplace(path.parent_path().parent_path());
    if (added) {
      const ResultStore store(plans->first);
      for (const std::string& stem : store.experiments())
        if (store.note(stem, kPlanNote).is_null()) unnamed_.push_back(stem);
      for (PlanFile& plan : read_plan_files(store))
        for (PlannedTrial& planned : plan.trials) {
          Planned known{plan.stem, planned.row, std::move(planned.axes)};
          const auto [place, is_new] = plans->second.try_emplace(planned.id, std::move(known));
          if (is_new || place->second.experiment == plan.stem) continue;
          place->second.experiment += ", " + plan.stem;
          if (place->second.row != planned.row) place->second.row += ", " + planned.row;
        }
    }
    const auto found = plans->second.find(path.filename().string());
    if (found == plans->second.end()) return;
    trial.experiment = found->second.experiment;
    trial.row = found->second.row;
    if (trial.built_in) return;
    for (const auto& [axis, label] : found->second.axes) {
      if (axis == kPlacement) trial.placement = label;
      trial.varied = trial.varied || axis.starts_with(std::string(kPlacement) + ".");
    }
  }

  std::vector<std::string> unnamed_;
  std::map<std::string, std::string> names_;                                 // by placement
  std::map<std::filesystem::path, std::map<std::string, Planned>> planned_;  // by results folder and trial
};

/// For trials whose placements share an ambiguous name or have none, adds the settings that are not at their default;
/// of several placements, only those that differ.
void add_sites(const std::vector<FoundTrial*>& trials, bool several) {
  std::vector<Settings> sites;
  std::set<std::string> paths;
  for (const FoundTrial* trial : trials) {
    const nlohmann::json changes = parse_strict_json(canonical_json(trial->config), trial->folder.path().string());
    const nlohmann::json& model = changes.at("model");
    Settings& settings = sites.emplace_back();
    if (model.contains("placement")) flatten(model.at("placement"), kPlacement, settings);
    for (const auto& [path, value] : settings) paths.insert(path);
  }
  for (const std::string& path : paths) {
    const auto same = [&](const Settings& other) { return found_or(other, path) == found_or(sites.front(), path); };
    if (several && std::all_of(sites.begin(), sites.end(), same)) continue;
    for (std::size_t t = 0; t < trials.size(); ++t)
      if (sites[t].contains(path)) trials[t]->settings[path] = sites[t][path];
  }
}

void add_placements(std::vector<FoundTrial>& trials) {
  std::map<std::string, std::vector<FoundTrial*>> by_name;
  for (FoundTrial& trial : trials) {
    trial.settings[kPlacement] = trial.placement.empty() ? "other" : trial.placement;
    by_name[trial.placement].push_back(&trial);
  }
  for (const auto& [name, named] : by_name) {
    bool built_in = true, varied = name.empty();
    std::set<std::string> placements;
    for (const FoundTrial* trial : named) {
      built_in = built_in && trial->built_in;
      varied = varied || trial->varied;
      placements.insert(trial->sites);
    }
    if (!built_in && (varied || placements.size() > 1)) add_sites(named, placements.size() > 1);
  }
}

/// Seeds that each start from their own trial of one row have the same start. Where a row starts all seeds from one
/// trial, its id stays.
void join_starts(std::vector<FoundTrial>& trials) {
  std::map<std::pair<std::string, Settings>, std::vector<FoundTrial*>> rows;
  for (FoundTrial& trial : trials) {
    if (trial.config.start.trial.empty()) continue;
    Settings others = trial.settings;
    others.erase(kStart);
    rows[{trial.sites, std::move(others)}].push_back(&trial);
  }
  for (const auto& [row, members] : rows)
    if (std::none_of(members.begin(), members.end(), [](const FoundTrial* t) { return t->start_row.empty(); }))
      for (FoundTrial* trial : members) trial->settings[kStart] = trial->start_row;
}

/// Folders of trials below the given ones, sorted; a trial that occurs twice is listed once.
std::vector<std::filesystem::path> trial_folders(std::span<const std::filesystem::path> folders) {
  std::vector<std::filesystem::path> found;
  for (const std::filesystem::path& given : folders) {
    const std::filesystem::path folder =
        given.has_filename() ? given : given.parent_path();  // "results/" has an empty file name
    if (std::filesystem::exists(folder / "config.json")) {
      found.push_back(folder);
      continue;
    }
    if (!std::filesystem::is_directory(folder / "trials"))
      throw InputError(concat(given.string(),
                              ": is neither a folder of results (with trials/) nor one of a trial (with config.json)"));
    const ResultStore store(folder);
    for (const std::string& id : store.trial_ids()) found.push_back(store.trial(id).path());
  }
  const auto id = [](const std::filesystem::path& path) { return path.filename(); };
  std::stable_sort(found.begin(), found.end(), [&](const auto& a, const auto& b) { return id(a) < id(b); });
  found.erase(std::unique(found.begin(), found.end(), [&](const auto& a, const auto& b) { return id(a) == id(b); }),
              found.end());
  return found;
}

/// Numbers compare by value, words alphabetically.
bool comes_before(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    const auto x_number = parse_number(x), y_number = parse_number(y);
    if (x_number && y_number) return *x_number < *y_number;
    return x_number.has_value() != y_number.has_value() ? x_number.has_value() : x < y;
  });
}

TableRow trial_row(const FoundTrial& trial, const TableInput& input, const std::string& metric) {
  TableRow row;
  std::vector<std::string> parts;
  for (std::size_t a = 0; a < input.axes.size(); ++a)
    if (!trial.values[a].empty()) parts.push_back(axis_name(input.axes, a) + "=" + trial.values[a]);
  row.label = parts.empty() ? trial.placement : joined(parts, ", ");
  row.axes = trial.values;
  row.experiment = trial.experiment;
  row.name = trial.row;
  row.chance = chance_of(metric, trial.config.model);
  set_cost(row, trial.config.model);
  return row;
}

/// "All rows: dataset.name gratings, model.depth 2, ...": the settings that are not at their default, and equal in all.
std::string settings_of_all(const std::vector<FoundTrial>& trials, const std::set<std::string>& differing) {
  Settings shared;
  for (const FoundTrial& trial : trials) {
    nlohmann::json changes = parse_strict_json(canonical_json(trial.config), trial.folder.path().string());
    changes.erase("seed");
    if (changes.contains("model")) changes["model"].erase("placement");
    Settings own;
    flatten(changes, "", own);
    own[kPlacement] = found_or(trial.settings, kPlacement);
    if (&trial == &trials.front())
      shared = own;
    else
      std::erase_if(shared, [&](const auto& setting) { return found_or(own, setting.first) != setting.second; });
  }
  std::vector<std::string> parts;
  for (const auto& [path, value] : shared)
    if (!differing.contains(path) && path != "schema") parts.push_back(path + " " + value);
  return parts.empty() ? "" : "All rows: " + joined(parts, ", ") + ".";
}

}  // namespace

TableModel folders_table_model(std::span<const std::filesystem::path> folders, const TableOptions& given) {
  std::vector<FoundTrial> trials;
  FolderReader folder_reader;
  TableInput input;
  std::vector<TableRow> damaged;
  for (const std::filesystem::path& path : trial_folders(folders)) try {
      trials.push_back(folder_reader.read(path));
    } catch (const Error& error) {
      TableRow row;
      row.label = path.filename().string();
      TableSeed seed;
      seed.trial = row.label;
      row.seeds.push_back(unreadable(std::move(seed), error));
      damaged.push_back(std::move(row));
    }
  if (trials.empty() && damaged.empty()) throw InputError("these folders hold no trials");

  TableOptions options = given;
  if (!trials.empty()) options.metric = metric_for(task_of(trials.front().config.model), given.metric);
  add_placements(trials);
  join_starts(trials);
  std::set<std::string> paths, differing;
  for (const FoundTrial& trial : trials)
    for (const auto& [path, value] : trial.settings) paths.insert(path);
  for (const std::string& path : paths)
    for (const FoundTrial& trial : trials)
      if (found_or(trial.settings, path) != found_or(trials.front().settings, path)) differing.insert(path);
  input.axes.assign(differing.begin(), differing.end());

  const auto of_first = [&](const FoundTrial& trial) { return trial.experiment == trials.front().experiment; };
  if (!trials.empty() && !trials.front().experiment.empty() && std::all_of(trials.begin(), trials.end(), of_first))
    input.remarks.push_back("All rows are of the experiment " + trials.front().experiment + ".");
  if (!trials.empty())
    if (std::string shared = settings_of_all(trials, differing); !shared.empty())
      input.remarks.push_back(std::move(shared));
  for (const std::string& stem : folder_reader.unnamed())
    input.remarks.push_back(fmt::format(
        "experiments/{}/{} is missing, so rows of this experiment stand without its name.", stem, kPlanNote));
  set_unit(input, options.metric);
  for (FoundTrial& trial : trials)
    for (const std::string& path : input.axes) trial.values.push_back(found_or(trial.settings, path));
  std::stable_sort(trials.begin(), trials.end(), [](const FoundTrial& a, const FoundTrial& b) {
    return a.values == b.values ? a.config.seed < b.config.seed : comes_before(a.values, b.values);
  });
  SeedReader reader(options);
  for (std::size_t t = 0; t < trials.size(); ++t) {
    const FoundTrial& trial = trials[t];
    if (t == 0 || trial.values != trials[t - 1].values) input.rows.push_back(trial_row(trial, input, options.metric));
    input.rows.back().seeds.push_back(reader.read(trial.folder, trial.config));
  }
  reader.require_metric();
  for (TableRow& row : damaged) {
    row.axes.assign(input.axes.size(), "");
    if (!row.axes.empty()) row.axes.front() = row.label;
    input.rows.push_back(std::move(row));
  }
  if (options.lr_sensitivity) return table_model(lr_sensitivity_input(input, options), lr_sensitivity_options(options));
  return table_model(input, options);
}

}  // namespace normlab
