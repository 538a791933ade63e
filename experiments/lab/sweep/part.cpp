#include "experiments/lab/sweep/part.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/error.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/condition.h"

namespace normlab {
namespace {

/// The ids of the share's trials. By the order of all ids, so sizes differ by at most one trial.
std::vector<std::string> ids_of_share(const Experiment& experiment, const Share& share) {
  std::set<std::string> ids;
  for (const Trial& trial : experiment.trials) ids.insert(trial.id);
  std::vector<std::string> chosen;
  std::size_t place = 0;
  for (const std::string& id : ids)
    if (place++ % share.count == share.number - 1) chosen.push_back(id);
  return chosen;
}

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

std::string Share::text() const { return fmt::format("{}/{}", number, count); }

Share read_share(const std::string& text, const std::function<const char*(const char*)>& variable) {
  const auto refuse = [&](const std::string& why) {
    throw InputError(fmt::format("--share {}: {}; expected K/N with K from 1 to N, as 3/16, or auto", text, why));
  };
  const auto read = [&](const char* name) -> std::optional<std::size_t> {
    const char* const value = variable(name);
    if (value == nullptr) return std::nullopt;
    const auto number = whole_number(value);
    if (!number) refuse(fmt::format("{}={} is not a number", name, value));
    return number;
  };
  const auto slash = text.find('/');
  const std::string first = text.substr(0, slash);
  std::optional<std::size_t> count;
  if (slash != text.npos) {
    count = whole_number(std::string_view(text).substr(slash + 1));
    if (!count || *count == 0) refuse("N is not a number above 0");
  }
  std::optional<std::size_t> number = whole_number(first);
  if (first == "auto") {
    if (const auto task = read("SLURM_ARRAY_TASK_ID")) {
      const std::size_t least = read("SLURM_ARRAY_TASK_MIN").value_or(0);
      const std::size_t step = std::max<std::size_t>(1, read("SLURM_ARRAY_TASK_STEP").value_or(1));
      const auto tasks = read("SLURM_ARRAY_TASK_COUNT"), most = read("SLURM_ARRAY_TASK_MAX");
      if (*task < least) refuse(fmt::format("task {} is below SLURM_ARRAY_TASK_MIN={}", *task, least));
      // sbatch --array=3 repeats one task of an array, whose numbers Slurm no longer tells.
      const bool whole = (!tasks || !count || *tasks == *count) &&
                         (!tasks || !most || *most < least || (*most - least) / step + 1 == *tasks) &&
                         (count || least <= 1);
      if (!whole) {
        const std::string total = count ? std::to_string(*count) : "N";
        std::string shares;  // that this task may have had in the whole array
        for (const std::size_t from : {std::size_t{1}, std::size_t{0}}) {
          if (*task < from) continue;
          const std::size_t share = *task - from + 1;
          if (count && share > *count) continue;
          shares += fmt::format("{}--share {}/{} if the whole array begins at {}", shares.empty() ? ": " : ", ", share,
                                total, from);
        }
        throw InputError(fmt::format(
            "--share {}: this is not a whole array{} but {} from {}{}, so the share cannot be told from the task's "
            "number; give it{}",
            text, count ? fmt::format(" of {} tasks", total) : "", tasks ? plural(*tasks, "task") : "tasks", least,
            most ? fmt::format(" to {}", *most) : "", shares.empty() ? ", as --share 3/16" : shares));
      }
      number = (*task - least) / step + 1;
      if (!count) count = tasks;
    } else if (const auto index = read("JOB_COMPLETION_INDEX")) {
      number = *index + 1;
    } else {
      refuse("neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set");
    }
    if (!count) refuse("the number of tasks is not known; give it as auto/N");
  }
  if (!number || !count) refuse("is not a share");
  if (*number < 1 || *number > *count) refuse(fmt::format("share {} of {} does not exist", *number, *count));
  return {*number, *count};
}

std::vector<std::string> ids_of_part(const Experiment& experiment, const Part& part) {
  std::vector<std::string> ids = ids_of_share(experiment, part.share);
  if (!part.some_rows()) return ids;
  const std::set<std::string> chosen = chosen_ids(experiment, part);
  std::erase_if(ids, [&](const std::string& id) { return !chosen.contains(id); });
  return ids;
}

}  // namespace normlab
