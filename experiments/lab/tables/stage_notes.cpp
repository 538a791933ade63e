#include "experiments/lab/tables/stage_notes.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/fields.h"
#include "experiments/lab/descriptor/json_tree.h"
#include "experiments/lab/descriptor/trials_ahead.h"
#include "experiments/lab/descriptor/tune.h"

namespace normlab {
namespace {

/// A commonly tuned hyperparameter, and its value in words.
struct Hyperparameter {
  const char* path;
  std::string (*words)(const TrialConfig&);
};

constexpr Hyperparameter kHyperparameters[] = {
    {"train.optimizer.name", [](const TrialConfig& c) { return std::string(word_of(c.train.optimizer.name)); }},
    {"train.optimizer.lr", [](const TrialConfig& c) { return "lr " + value_text(c.train.optimizer.lr); }},
    {"train.optimizer.weight_decay",
     [](const TrialConfig& c) { return "weight decay " + value_text(c.train.optimizer.weight_decay); }},
    {"train.batch_size", [](const TrialConfig& c) { return concat("batches of ", c.train.batch_size); }},
    {"train.epochs",
     [](const TrialConfig& c) {
       if (c.train.steps > 0) return plural(std::to_string(c.train.steps), "step");
       if (c.train.images > 0) return plural(std::to_string(c.train.images), "image");
       return plural(value_text(c.train.epochs), "epoch");
     }},
    {"train.schedule",
     [](const TrialConfig& c) {
       const ScheduleSettings& s = c.train.schedule;
       if (s.warmup_steps > 0) return "warm-up of " + plural(std::to_string(s.warmup_steps), "step");
       return s.warmup_epochs > 0 ? "warm-up of " + plural(value_text(s.warmup_epochs), "epoch") : "no warm-up";
     }},
    {"model.dropout", [](const TrialConfig& c) { return "dropout " + dropout_text(network(c.model).dropout); }},
    {"model.drop_path", [](const TrialConfig& c) { return "drop-path " + value_text(network(c.model).drop_path); }}};

/// The settings that all rows share.
std::string shared_settings(const Experiment& e) {
  std::vector<std::string> shared;
  for (const Hyperparameter& h : kHyperparameters) {
    const std::string words = h.words(first_trial(e, e.rows.front()).config);
    const bool tuned = e.tuned && std::any_of(e.tuned->stages().begin(), e.tuned->stages().end(), [&](const auto& s) {
                         const std::vector<std::string> axes = axis_paths({s.grid});
                         return std::find(axes.begin(), axes.end(), h.path) != axes.end();
                       });
    if (!tuned && std::all_of(e.rows.begin(), e.rows.end(),
                              [&](const Cell& row) { return h.words(first_trial(e, row).config) == words; }))
      shared.push_back(words);
  }
  return joined(shared, ", ");
}

void note_tuning(const Experiment& e, std::vector<std::string>& notes) {
  std::vector<std::string> chosen, edges;
  std::size_t waiting = 0;
  for (const Cell& row : e.rows) {
    std::vector<std::string> values;
    for (const TunedValue& value : row.chosen) {
      const std::string words = concat(value.path.substr(value.path.rfind('.') + 1), "=", value.label);
      values.push_back(words);
      if (value.at_edge) edges.push_back(concat(row.label, " ", words));
    }
    waiting += row.trials.empty();
    if (!values.empty()) chosen.push_back(concat(row.label, ": ", joined(values, ", ")));
  }
  if (!chosen.empty())
    notes.push_back(concat("Tuned for each row on images that the table does not show: ", joined(chosen, "; "), "."));
  if (!edges.empty())
    notes.push_back(concat("Warning: at the edge of the values tried, so a better value may lie outside them: ",
                           joined(edges, "; "), "."));
  if (waiting > 0)
    notes.push_back(concat(plural(waiting, "row"), waiting == 1 ? " is" : " are",
                           " still being tuned; the trials of the table follow."));
}

void note_seeds(const Experiment& e, std::vector<std::string>& notes) {
  const TwoStageSeeds& rule = *e.two_stage;
  const std::string width = concat("±", value_text(rule.gain_halfwidth), " (", rule.metric, ")");
  if (!e.fixed_seeds) {
    notes.push_back(concat("The number of seeds is set once the first ", rule.first,
                           " of all rows have finished, for gains within ", width, "; at most ", rule.max, "."));
    return;
  }
  const FixedSeeds& fixed = *e.fixed_seeds;
  std::string words = concat("Seeds in two stages (Stein 1945): ", fixed.count,
                             " for every row, fixed once from the first ", rule.first, ", for gains within ", width,
                             "; intervals keep the noise and the degrees of freedom of the first stage.");
  if (fixed.wanted == 0)
    words += concat(" Width not reached: the first ", rule.first, " show no noise, so all ", rule.max, " were run.");
  else if (!fixed.reached())
    words += concat(" Width not reached: it needs ", fixed.wanted, " seeds, but ",
                    fixed.count < rule.max ? concat("the archive holds ", fixed.count)
                                           : concat("at most ", rule.max, " are allowed"),
                    "; expected ±", value_text(std::round(fixed.halfwidth * 1000) / 1000), ".");
  notes.push_back(std::move(words));
}

}  // namespace

std::string trials_to_come(const Experiment& e) {
  if (!e.more_to_come) return "";
  std::vector<std::string> parts;
  const TrialsAhead ahead = trials_ahead(e);
  const auto count = [&](Purpose purpose) {
    return std::size_t(std::count_if(ahead.certain.begin(), ahead.certain.end(),
                                     [&](const Trial& trial) { return trial.purpose == purpose; }));
  };
  const std::size_t stages = count(Purpose::tuning), own = count(Purpose::table), starts = count(Purpose::start);
  const auto waiting = std::size_t(
      std::count_if(e.rows.begin(), e.rows.end(), [&](const Cell& row) { return e.tuned && row.trials.empty(); }));
  if (stages > 0) parts.push_back(concat(plural(stages, "trial"), " of later tuning stages"));
  if (waiting > 0)
    parts.push_back(concat(plural(own, "trial"), " of the table for ", plural(waiting, "row"), " still being tuned"));
  if (starts > 0) parts.push_back(concat(plural(starts, "trial"), " that those start from"));
  if (ahead.most() > 0)
    parts.push_back(concat("up to ", plural(ahead.most(), "trial"), ", as many as gains within ±",
                           value_text(e.two_stage->gain_halfwidth), " need"));
  return joined(parts, "; ");
}

std::vector<std::string> stage_notes(const Experiment& e) {
  std::vector<std::string> notes;
  if (e.rows.empty()) return notes;
  if (e.tuned) note_tuning(e, notes);
  // Trials that tune a row may have another length than those of the table.
  const bool all_known = std::none_of(e.rows.begin(), e.rows.end(), [](const Cell& row) { return row.trials.empty(); });
  if (const std::string shared = shared_settings(e); e.rows.size() > 1 && all_known && !shared.empty()) {
    notes.push_back(concat(e.tuned ? "Not tuned, the same in all rows: " : "Nothing was tuned; all rows: ", shared,
                           e.tuned_for ? concat(", chosen for ", *e.tuned_for) : "", "."));
  }
  if (e.two_stage) note_seeds(e, notes);
  return notes;
}

}  // namespace normlab
