// Tables of trials that no descriptor names: what differs between their settings makes the rows.

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "experiments/base/strict_json.h"
#include "experiments/base/text_layout.h"
#include "experiments/descriptor/canonical.h"
#include "experiments/results/table_filter.h"
#include "experiments/results/trial_files.h"
#include "experiments/sweep/sweep_table.h"
#include "experiments/sweep/trial_seed.h"

namespace normlab {
namespace {

using Settings = std::map<std::string, std::string>;  // path -> value, for people

constexpr const char* kPlacement = "model.placement";

void flatten(const nlohmann::json& node, const std::string& path, Settings& out) {
  if (!node.is_object()) {
    out[path] = node.is_string() ? node.get<std::string>() : node.dump();
    return;
  }
  for (const auto& [key, value] : node.items()) flatten(value, path.empty() ? key : path + "." + key, out);
}

struct FoundTrial {
  TrialFolder folder;
  TrialConfig config;
  Settings settings;                // without the seed
  std::string placement;            // "" for one without a name
  std::vector<std::string> values;  // at the axes
};

FoundTrial read_trial_folder(const std::filesystem::path& path, std::map<std::string, std::string>& names) {
  const TrialFolder folder(path);
  const std::string file = (path / "config.json").string();
  FoundTrial trial{folder, read_trial_config(folder), {}, {}, {}};
  // Written anew, so that a setting that came later stands at its default in older trials too.
  nlohmann::json json = parse_strict_json(full_json(trial.config), file);
  json.erase("seed");
  flatten(json, "", trial.settings);
  const auto [known, added] = names.try_emplace(json["model"]["placement"].dump());
  if (added) known->second = placement_name(trial.config.model);
  trial.placement = known->second;
  return trial;
}

/// Folders of trials under the given ones, sorted; the same trial in two of them is one.
std::vector<std::filesystem::path> trial_folders(std::span<const std::filesystem::path> folders) {
  std::vector<std::filesystem::path> found;
  for (const std::filesystem::path& given : folders) {
    const std::filesystem::path folder =
        given.has_filename() ? given : given.parent_path();  // "results/" has no name of its own
    if (std::filesystem::exists(folder / "config.json")) {
      found.push_back(folder);
      continue;
    }
    if (!std::filesystem::is_directory(folder / "trials"))
      throw InputError(
          concat(given.string(), ": neither a folder of results (with trials/) nor of a trial (with config.json)"));
    const ResultStore store(folder);
    for (const std::string& id : store.trial_ids()) found.push_back(store.trial(id).path());
  }
  const auto id = [](const std::filesystem::path& path) { return path.filename(); };
  std::stable_sort(found.begin(), found.end(), [&](const auto& a, const auto& b) { return id(a) < id(b); });
  found.erase(std::unique(found.begin(), found.end(), [&](const auto& a, const auto& b) { return id(a) == id(b); }),
              found.end());
  return found;
}

std::string value_at(const Settings& settings, const std::string& path) {
  const auto found = settings.find(path);
  return found == settings.end() ? "" : found->second;
}

/// Numbers by size, words by their letters.
bool comes_before(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    const auto x_number = parse_number(x), y_number = parse_number(y);
    if (x_number && y_number) return *x_number < *y_number;
    return x_number.has_value() != y_number.has_value() ? x_number.has_value() : x < y;
  });
}

TableRow row_of(const FoundTrial& trial, const TableInput& input) {
  TableRow row;
  std::vector<std::string> parts;
  for (std::size_t a = 0; a < input.axes.size(); ++a) parts.push_back(input.axes[a] + "=" + trial.values[a]);
  row.label = parts.empty() ? trial.placement : joined(parts, ", ");
  row.axes = trial.values;
  if (!input.unit.empty()) row.chance = chance_accuracy(trial.config.model);
  return row;
}

}  // namespace

TableModel folders_table_model(std::span<const std::filesystem::path> folders, const TableOptions& options) {
  std::vector<FoundTrial> trials;
  std::map<std::string, std::string> names;
  TableInput input;
  std::vector<TableRow> damaged;
  for (const std::filesystem::path& path : trial_folders(folders)) try {
      trials.push_back(read_trial_folder(path, names));
    } catch (const Error& error) {
      TableRow row;
      row.label = path.filename().string();
      TableSeed seed;
      seed.trial = row.label;
      row.seeds.push_back(unreadable(std::move(seed), error));
      damaged.push_back(std::move(row));
    }
  if (trials.empty() && damaged.empty()) throw InputError("these folders hold no trial");

  const bool all_named =
      std::all_of(trials.begin(), trials.end(), [](const FoundTrial& trial) { return !trial.placement.empty(); });
  for (FoundTrial& trial : trials) {
    if (all_named)
      std::erase_if(trial.settings,
                    [](const auto& entry) { return entry.first.starts_with(std::string(kPlacement) + "."); });
    trial.settings[kPlacement] = trial.placement.empty() ? "other" : trial.placement;
  }
  std::set<std::string> paths, differing;
  for (const FoundTrial& trial : trials)
    for (const auto& [path, value] : trial.settings) paths.insert(path);
  for (const std::string& path : paths)
    for (const FoundTrial& trial : trials)
      if (value_at(trial.settings, path) != value_at(trials.front().settings, path)) differing.insert(path);
  input.axes.assign(differing.begin(), differing.end());

  set_unit(input, options.metric);
  for (FoundTrial& trial : trials)
    for (const std::string& path : input.axes) trial.values.push_back(value_at(trial.settings, path));
  std::stable_sort(trials.begin(), trials.end(), [](const FoundTrial& a, const FoundTrial& b) {
    return a.values == b.values ? a.config.seed < b.config.seed : comes_before(a.values, b.values);
  });
  SeedReader reader(options);
  for (std::size_t t = 0; t < trials.size(); ++t) {
    const FoundTrial& trial = trials[t];
    if (t == 0 || trial.values != trials[t - 1].values) input.rows.push_back(row_of(trial, input));
    TableRow& row = input.rows.back();
    row.seeds.push_back(reader.read(trial.folder, trial.config.seed));
    if (!options.bootstrap) continue;
    input.correctness.resize(input.rows.size());
    input.correctness.back().push_back(read_seed_correctness(trial.folder, row.seeds.back()));
  }
  reader.require_metric();
  for (TableRow& row : damaged) {
    row.axes.assign(input.axes.size(), "");
    if (!row.axes.empty()) row.axes.front() = row.label;
    input.rows.push_back(std::move(row));
  }
  if (options.bootstrap) input.correctness.resize(input.rows.size());
  return table_model(input, options);
}

}  // namespace normlab
