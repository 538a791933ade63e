#include "experiments/lab/sweep/plan_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>

#include "core/error.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

using Json = nlohmann::ordered_json;

Json trials_json(const Experiment& experiment, const std::vector<std::size_t>& trials) {
  Json out = Json::array();
  for (const std::size_t t : trials)
    out.push_back({{"id", experiment.trials[t].id}, {"seed", experiment.trials[t].config.seed}});
  return out;
}

/// "train.optimizer.lr 0.001 -> 0.003; train.epochs 6.0 -> 8.0 and 2 more"
std::string settings_text(const std::vector<SettingDifference>& settings) {
  constexpr std::size_t kWidest = 60;
  const auto value = [](const std::string& json) { return json.empty() ? "-" : shorten_middle(json, kWidest); };
  return first_few(settings, [&](const SettingDifference& difference) {
    return concat(difference.path, ' ', value(difference.base), " -> ", value(difference.other));
  });
}

constexpr const char* kAdvice = "; it only lists trials: delete this file, and the next run writes it again";

nlohmann::json read_plan_note(const ResultStore& store, const std::string& stem) {
  try {
    return store.note(stem, kPlanNote);
  } catch (const InputError& error) {
    throw InputError(concat(error.what(), kAdvice));
  }
}

void take_trials(const nlohmann::json& list, PlannedTrial trial, Purpose purpose, std::vector<PlannedTrial>& out) {
  trial.purpose = purpose;
  for (const nlohmann::json& entry : list) {
    trial.id = entry.at("id").get<std::string>();
    trial.seed = entry.at("seed").get<std::uint64_t>();
    out.push_back(trial);
  }
}

Json json_of(const WholeDescriptor& whole) {
  Json out{{"json", whole.json}};
  for (const auto& [path, start] : whole.starts) out["starts"][path] = json_of(start);
  for (const auto& [path, sha256] : whole.weights) out["weights"][path] = sha256;
  return out;
}

/// nlohmann's exception for anything that json_of() does not write.
WholeDescriptor take_whole(const nlohmann::json& json) {
  WholeDescriptor whole{json.at("json").get<std::string>()};
  if (json.contains("starts"))
    for (const auto& [path, start] : json.at("starts").items()) whole.starts[path] = take_whole(start);
  if (json.contains("weights")) whole.weights = json.at("weights").get<std::map<std::string, std::string>>();
  return whole;
}

}  // namespace

std::string plan_json(const Experiment& experiment) {
  Json rows = Json::array();
  for (const Cell& row : experiment.rows) {
    Json out{{"label", row.label}, {"trials", trials_json(experiment, row.trials)}};
    if (!row.tuning.empty()) out["tuning"] = trials_json(experiment, row.tuning);
    if (!row.starts.empty()) out["start"] = trials_json(experiment, row.starts);
    // Objects are built completely first: nlohmann marks a null as an object before it allocates, and a failed
    // allocation then triggers an assertion.
    Json chosen = Json::object(), axes = Json::object();
    for (const TunedValue& value : row.chosen) chosen[value.path] = value.label;
    for (const auto& [axis, label] : row.axes) axes[axis] = label;
    if (!chosen.empty()) out["chosen"] = std::move(chosen);
    if (row.baseline) out["baseline"] = experiment.rows[*row.baseline].label;
    if (!axes.empty()) out["axes"] = std::move(axes);
    rows.push_back(std::move(out));
  }
  Json plan{{"experiment", experiment.stem}, {"about", experiment.about}};
  if (!experiment.files.empty()) plan["descriptor"] = experiment.files.front().string();
  if (!experiment.whole.json.empty()) plan["whole"] = json_of(experiment.whole);
  if (experiment.fixed_seeds) plan["fixed_seeds"] = experiment.fixed_seeds->count;
  plan["rows"] = std::move(rows);
  return write_note(plan);
}

nlohmann::json anonymous_plan(const nlohmann::json& plan) {
  if (!plan.contains("descriptor")) return plan;
  Json changed = plan;
  changed["descriptor"] = std::filesystem::path(plan["descriptor"].get<std::string>()).filename().string();
  changed.erase("sha256");
  return nlohmann::json::parse(write_note(std::move(changed)));
}

std::vector<PlannedTrial> planned_trials(const Experiment& experiment) {
  std::vector<PlannedTrial> planned;
  std::unordered_set<std::string> seen;
  for (const Purpose purpose : {Purpose::table, Purpose::tuning, Purpose::start})
    for (const Cell& row : experiment.rows)
      for (const std::size_t t : purpose == Purpose::table    ? row.trials
                                 : purpose == Purpose::tuning ? row.tuning
                                                              : row.starts) {
        const Trial& trial = experiment.trials[t];
        if (!seen.insert(trial.id).second) continue;
        planned.push_back({trial.id,
                           row.label,
                           row.baseline ? experiment.rows[*row.baseline].label : "",
                           {row.axes.begin(), row.axes.end()},
                           trial.config.seed,
                           purpose});
      }
  return planned;
}

std::optional<PlanFile> read_plan_file(const ResultStore& store, const std::string& stem) {
  const std::string path = (store.exported() ? store.out() : store.out() / "experiments" / stem / kPlanNote).string();
  const nlohmann::json plan = read_plan_note(store, stem);
  if (plan.is_null()) return std::nullopt;
  if (plan.value("experiment", nlohmann::json(stem)) != stem)  // absent in plans of older versions
    throw InputError(concat(path, ": is the plan of another experiment", kAdvice));
  PlanFile out{stem, {}, {}, {}};
  try {
    if (plan.contains("descriptor")) out.descriptor = plan.at("descriptor").get<std::string>();
    if (plan.contains("whole")) out.whole = take_whole(plan.at("whole"));
    for (const nlohmann::json& row : plan.at("rows")) {
      PlannedTrial trial;
      trial.row = row.at("label").get<std::string>();
      if (row.contains("baseline")) trial.baseline = row.at("baseline").get<std::string>();
      if (row.contains("axes")) trial.axes = row.at("axes").get<std::map<std::string, std::string>>();
      if (row.contains("start")) take_trials(row.at("start"), trial, Purpose::start, out.trials);
      if (row.contains("tuning")) take_trials(row.at("tuning"), trial, Purpose::tuning, out.trials);
      take_trials(row.at("trials"), trial, Purpose::table, out.trials);
    }
  } catch (const nlohmann::json::exception&) {
    throw InputError(concat(path, ": is not a plan", kAdvice));
  }
  return out;
}

std::vector<PlanFile> read_plan_files(const ResultStore& store) {
  std::vector<PlanFile> plans;
  for (const std::string& stem : store.experiments())
    if (auto plan = read_plan_file(store, stem)) plans.push_back(std::move(*plan));
  return plans;
}

PlanChange plan_change(const Experiment& experiment, const ResultStore& store) {
  PlanChange change;
  const std::optional<PlanFile> former = read_plan_file(store, experiment.stem);
  if (!former) return change;
  std::unordered_set<std::string> before, now;
  for (const PlannedTrial& trial : former->trials) before.insert(trial.id);
  for (std::size_t t = 0; t < experiment.trials.size(); ++t) {
    now.insert(experiment.trials[t].id);
    if (!before.contains(experiment.trials[t].id)) change.added.push_back(t);
  }
  for (const PlannedTrial& trial : former->trials)
    if (!now.contains(trial.id)) change.dropped.push_back(trial);
  std::set<std::pair<std::string, Purpose>> compared;
  for (const std::size_t t : change.added) {
    const Trial& trial = experiment.trials[t];
    const std::string& row = experiment.rows[trial.row].label;
    const auto replaced = std::find_if(change.dropped.begin(), change.dropped.end(), [&](const PlannedTrial& planned) {
      return planned.row == row && planned.purpose == trial.purpose;
    });
    if (replaced == change.dropped.end() || !compared.insert({row, trial.purpose}).second) continue;
    try {
      for (SettingDifference& d : config_differences(read_trial_config(store.trial(replaced->id)), trial.config))
        if (std::find(change.settings.begin(), change.settings.end(), d) == change.settings.end())
          change.settings.push_back(std::move(d));
    } catch (const Error&) {  // removed, or it did not begin
    }
  }
  return change;
}

std::string describe(const PlanChange& change, const Experiment& experiment) {
  std::string out;
  if (!change.added.empty())
    out = concat(change.added.size(), change.added.size() == 1 ? " trial is new (" : " trials are new (",
                 first_few(change.added, [&](std::size_t t) { return experiment.trials[t].label; }), ")");
  if (!change.dropped.empty())
    out +=
        concat(out.empty() ? "" : "; ", change.dropped.size(),
               change.dropped.size() == 1 ? " is no longer part of the plan and stays on disk ("
                                          : " are no longer part of the plan and stay on disk (",
               first_few(change.dropped,
                         [](const PlannedTrial& t) { return concat(t.row, ", ", t.purpose_words(), "seed ", t.seed); }),
               ")");
  if (!change.settings.empty()) out += "; settings that differ: " + settings_text(change.settings);
  return out.empty() ? "" : "since the last run " + out;
}

std::string other_settings_note(const Experiment& experiment, const ResultStore& store) {
  PlanChange change = plan_change(experiment, store);
  std::vector<PlannedTrial>& finished = change.dropped;
  std::erase_if(finished, [&](const PlannedTrial& trial) { return !store.trial(trial.id).result_text(); });
  if (finished.empty()) return "";
  return concat(finished.size(), finished.size() == 1 ? " trial" : " trials", " of the last run of ", experiment.stem,
                finished.size() == 1 ? " has a result and is" : " have results and are", " not in this plan (",
                first_few(finished, [](const PlannedTrial& t) { return concat(t.row, ", seed ", t.seed); }),
                "): that run had other settings, from --set or in the file", change.settings.empty() ? "" : ": ",
                settings_text(change.settings));
}

}  // namespace normlab
