#include "experiments/lab/pictures/trial_data.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "core/nonfinite.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/pictures/curve_data.h"
#include "experiments/lab/sweep/plan_file.h"
#include "experiments/lab/tables/markup.h"
#include "experiments/lab/tables/trial_seed.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

using nlohmann::json;

constexpr const char* kPlacement = "model.placement";

struct DataTrial {
  PlannedTrial planned;
  std::string experiment;             // "" for a trial without a plan
  std::optional<TrialConfig> config;  // of an experiment's trial; a folder's trial stores its own
};

std::vector<DataTrial> trials_of(const TrialSource& source) {
  std::vector<DataTrial> trials;
  if (source.experiment != nullptr) {
    std::map<std::string, const TrialConfig*> configs;
    for (const Trial& trial : source.experiment->trials) configs.emplace(trial.id, &trial.config);
    for (PlannedTrial& planned : planned_trials(*source.experiment)) {
      const TrialConfig& config = *configs.at(planned.id);
      trials.push_back({std::move(planned), source.experiment->stem, config});
    }
    return trials;
  }
  std::map<std::string, DataTrial> known;
  for (PlanFile& plan : read_plan_files(source.store))
    for (PlannedTrial& planned : plan.trials) {
      const std::string id = planned.id;
      known.try_emplace(id, DataTrial{std::move(planned), plan.stem, {}});
    }
  for (const std::string& id : source.store.trial_ids()) {
    DataTrial& trial = trials.emplace_back(std::move(known[id]));
    trial.planned.id = id;
  }
  return trials;
}

/// Collects each setting by its path. A norm's kind is at the site's path, its other settings below it.
void flatten(const json& node, const std::string& path, std::map<std::string, json>& out) {
  if (!node.is_object()) {
    out[path] = node;
    return;
  }
  for (const auto& [key, value] : node.items())
    flatten(value, key == "kind" && path.starts_with(kPlacement) ? path : path.empty() ? key : path + '.' + key, out);
}

/// The columns common to all tables, as far as they are known.
json row_of(const DataTrial& trial) {
  json row{{"trial", trial.planned.id}};
  const auto put = [&](const char* key, const std::string& text) {
    if (!text.empty()) row[key] = text;
  };
  put("experiment", trial.experiment);
  put("row", trial.planned.row);
  put("baseline", trial.planned.baseline);
  if (trial.experiment.empty()) return row;
  row["seed"] = trial.planned.seed;
  row["tuning"] = trial.planned.purpose != Purpose::table;
  return row;
}

/// Calls `add(row, trial, folder, status)` for each trial that can be read. The others are added to the problems and,
/// if `show_unreadable`, as rows without settings.
template <class Add>
void for_each_trial(const TrialSource& source, DataTable& table, bool show_unreadable, Add&& add) {
  for (DataTrial& trial : trials_of(source)) {
    json row = row_of(trial);
    try {
      const TrialFolder folder = source.store.trial(trial.planned.id);
      if (!trial.config) trial.config = read_trial_config(folder);
      row["seed"] = trial.config->seed;
      const TrialStatus status = agreed_status(folder, trial.config->seed);
      add(row, trial, folder, status);
    } catch (const Error& error) {
      table.problems.emplace_back(error.what());
      table.outcome = std::max(table.outcome, error.code());
      if (!show_unreadable) continue;
      row["state"] = word_of(SeedState::unreadable);
      row["message"] = error.what();
      table.rows.push_back(std::move(row));
    }
  }
}

/// The settings of a trial by path.
class SettingsReader {
 public:
  std::map<std::string, json> read(const TrialConfig& config, const PlannedTrial& planned) {
    // Serialised again, so that older trials show newer settings at their defaults.
    json whole = parse_strict_json(full_json(config), planned.id);
    for (const char* key : {"schema", "seed"}) whole.erase(key);
    std::map<std::string, json> settings;
    flatten(whole, "", settings);
    for (const auto& [path, label] : planned.axes) settings.try_emplace(path, label);
    if (settings.contains(kPlacement)) return settings;
    const auto [known, added] = names_.try_emplace(whole["model"]["placement"].dump());
    if (added) known->second = placement_name(config.model);
    settings[kPlacement] = known->second.empty() ? json() : json(known->second);
    return settings;
  }

 private:
  std::map<std::string, std::string> names_;  // by placement
};

constexpr const char* kEnd[] = {"message",    "steps",        "diverged_step",     "diverged_site", "stopped_early",
                                "bad_images", "wall_seconds", "images_per_second", "peak_mb"};

void put_end(json& row, const TrialResult& result) {
  if (result.message) row["message"] = *result.message;
  if (result.steps > 0) row["steps"] = result.steps;
  if (result.diverged_step) row["diverged_step"] = *result.diverged_step;
  if (result.diverged_site) row["diverged_site"] = *result.diverged_site;
  if (result.stopped_early_step) row["stopped_early"] = *result.stopped_early_step;
  row["bad_images"] = result.bad_images.size();
  row["wall_seconds"] = result.wall_seconds;
  row["images_per_second"] = result.images_per_second;
  if (result.peak_mb > 0) row["peak_mb"] = result.peak_mb;
}

std::string csv_value(const json& value) {
  if (value.is_null()) return "";
  return csv_cell(value.is_string() ? value.get<std::string>() : value.dump());
}

}  // namespace

DataTable trial_data(const TrialSource& source) {
  DataTable table;
  SettingsReader settings;
  std::set<std::string> paths{kPlacement}, metrics, provenance;
  const auto add = [&](json row, const DataTrial& trial, const TrialFolder&, const TrialStatus& status) {
    row["state"] = word_of(state_of(status));
    row["progress"] = status.progress;
    for (auto& [path, value] : settings.read(*trial.config, trial.planned)) {
      paths.insert(path);
      row[path] = value;
    }
    if (status.result) {
      for (const auto& [name, value] : status.result->metrics) row[*metrics.insert(name).first] = value;
      for (const auto& [slice, facts] : slices_of(*status.result, *trial.config)) {
        row[*metrics.insert("images/" + slice).first] = facts.images;
        for (const auto& [name, value] : facts.guess)
          if (status.result->metrics.contains(slice + '/' + name))
            row[*metrics.insert("guess/" + slice + '/' + name).first] = value;
      }
      put_end(row, *status.result);
      for (const auto& [key, value] : status.result->provenance)
        row[*provenance.insert("provenance." + key).first] = value;
    }
    table.rows.push_back(std::move(row));
  };
  for_each_trial(source, table, true, add);
  table.columns = {"trial", "experiment", "row", "baseline", "tuning", "seed", "state", "progress"};
  for (const auto* part : {&paths, &metrics}) table.columns.insert(table.columns.end(), part->begin(), part->end());
  table.columns.insert(table.columns.end(), std::begin(kEnd), std::end(kEnd));
  table.columns.insert(table.columns.end(), provenance.begin(), provenance.end());
  return table;
}

DataTable curve_data(const TrialSource& source) {
  DataTable table;
  table.columns = {"trial", "experiment", "row", "seed", "step", "progress", "metric", "value", "nonfinite"};
  const auto add = [&](const json& row, const DataTrial&, const TrialFolder& folder, const TrialStatus& status) {
    for (const MetricsLine& line : trial_metrics(folder, status))
      for (const auto& [name, value] : line.values) {
        json& point = table.rows.emplace_back(row);
        point["step"] = line.step;
        point["progress"] = line.progress;
        point["metric"] = name;
        if (std::isfinite(value))
          point["value"] = value;
        else
          point["nonfinite"] = nonfinite_word(value);
      }
  };
  for_each_trial(source, table, false, add);
  return table;
}

std::string data_text(const DataTable& table, DataFormat format) {
  std::string text;
  if (format == DataFormat::csv)
    for (const std::string& column : table.columns) text += (text.empty() ? "" : ",") + csv_cell(column);
  if (format == DataFormat::csv) text += '\n';
  for (const json& row : table.rows) {
    nlohmann::ordered_json whole = nlohmann::ordered_json::object();
    std::string line;
    for (const std::string& column : table.columns) {
      const auto found = row.find(column);
      const json value = found == row.end() ? json() : *found;
      if (format == DataFormat::jsonl)
        whole[column] = value;
      else
        line += (&column == table.columns.data() ? "" : ",") + csv_value(value);
    }
    text += (format == DataFormat::jsonl ? whole.dump(-1, ' ', false, json::error_handler_t::replace) : line) + '\n';
  }
  return text;
}

}  // namespace normlab
