#include "experiments/lab/sweep/part.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/condition.h"

namespace normlab {
namespace {

/// The value of an axis as a table shows it, or behind the axes the row's label.
FieldValue field_of(const Experiment& experiment, const Cell& row, std::size_t field) {
  std::string text = row.label;
  if (field < experiment.axes.size()) {
    const auto is = [&](const auto& axis) { return axis.first == experiment.axes[field]; };
    const auto at = std::find_if(row.axes.begin(), row.axes.end(), is);
    text = at == row.axes.end() ? "" : at->second;
  }
  return {text, parse_number(text)};
}

std::vector<const Cell*> rows_of_part(const Experiment& experiment, const Part& part) {
  const Condition holds = parse_condition(part.where, FieldNames::of_plan(experiment.axes));
  std::vector<const Cell*> rows;
  for (const Cell& row : experiment.rows)
    if (holds([&](std::size_t field) { return field_of(experiment, row, field); })) rows.push_back(&row);
  if (!rows.empty()) return rows;
  throw InputError(fmt::format("--where {}: matches no row; the rows are {}", part.where,
                               first_few(experiment.rows, [](const Cell& row) { return row.label; })));
}

void require_seeds(const Experiment& experiment, const std::vector<const Cell*>& rows, const Part& part) {
  std::set<std::uint64_t> known;
  for (const Cell* row : rows)
    for (const std::size_t t : row->trials) known.insert(experiment.trials[t].config.seed);
  if (experiment.more_to_come) return;  // seeds that do not exist yet
  for (const std::uint64_t seed : part.seeds)
    if (!known.contains(seed))
      throw InputError(fmt::format("--seed {}: no such row has this seed; they have {}", seed, fmt::join(known, ", ")));
}

/// The trials of the chosen rows and seeds, and all that they need.
std::set<std::string> chosen_ids(const Experiment& experiment, const Part& part) {
  const std::vector<const Cell*> rows = rows_of_part(experiment, part);
  require_seeds(experiment, rows, part);
  std::map<std::string, const Trial*> trials;
  for (const Trial& trial : experiment.trials) trials.emplace(trial.id, &trial);
  std::set<std::string> ids;
  const auto add = [&](const Trial* trial) {
    for (; trial != nullptr && ids.insert(trial->id).second;) {
      const auto parent = trials.find(trial->config.start.trial);
      trial = parent == trials.end() ? nullptr : parent->second;
    }
  };
  for (const Cell* row : rows) {
    for (const std::size_t t : row->tuning) add(&experiment.trials[t]);
    for (const std::size_t t : row->trials) {
      const Trial& trial = experiment.trials[t];
      if (part.seeds.empty() || std::count(part.seeds.begin(), part.seeds.end(), trial.config.seed) > 0) add(&trial);
    }
  }
  return ids;
}

}  // namespace

std::vector<std::string> ids_of_part(const Experiment& experiment, const Part& part) {
  std::vector<std::string> ids = ids_of_share(experiment, part.share);
  if (!part.some_rows()) return ids;
  const std::set<std::string> chosen = chosen_ids(experiment, part);
  std::erase_if(ids, [&](const std::string& id) { return !chosen.contains(id); });
  return ids;
}

}  // namespace normlab
