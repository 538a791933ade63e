#include "experiments/lab/tables/plan_rows.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/visible_text.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"

namespace normlab {
namespace {

std::string words_of(Purpose purpose) {
  return purpose == Purpose::tuning ? " to tune" : purpose == Purpose::start ? " to start from" : "";
}

/// "rows 1-3", "row 2 to tune".
std::string rows_text(const std::vector<const PlanPart*>& parts) {
  std::vector<std::string> names;
  for (const Purpose purpose : {Purpose::table, Purpose::tuning, Purpose::start}) {
    std::vector<std::int64_t> rows;
    for (const PlanPart* part : parts)
      if (part->purpose == purpose) rows.push_back(std::int64_t(part->row) + 1);
    if (!rows.empty()) names.push_back((rows.size() > 1 ? "rows " : "row ") + runs_name(rows) + words_of(purpose));
  }
  return joined(names, ", ");
}

/// Digits that distinguish all trial ids, at least eight.
std::size_t digits_of(const Experiment& experiment) {
  std::vector<std::string_view> ids;
  for (const Trial& trial : experiment.trials) ids.push_back(trial.id);
  std::sort(ids.begin(), ids.end());
  std::size_t digits = 8;
  for (std::size_t i = 1; i < ids.size(); ++i) {
    const auto differ = std::mismatch(ids[i].begin(), ids[i].end(), ids[i - 1].begin(), ids[i - 1].end());
    digits = std::max(digits, std::size_t(differ.first - ids[i].begin()) + 1);
  }
  return digits;
}

void print_line(const std::string& text) { print_text("{}\n", broken_lines(visible(text), text_columns())); }

}  // namespace

void print_costs(const std::vector<PlanPart>& parts) {
  print_text("Cost of a trial (1 mac is 2 flops):\n");
  for (std::size_t line = 0; line < std::tuple_size_v<TrialCosts>; ++line) {
    std::vector<std::pair<std::string, std::vector<const PlanPart*>>> same;
    for (const PlanPart& part : parts) {
      const auto is_same = [&](const auto& known) { return known.first == part.costs[line]; };
      auto found = std::find_if(same.begin(), same.end(), is_same);
      if (found == same.end()) found = same.insert(same.end(), {part.costs[line], {}});
      found->second.push_back(&part);
    }
    for (const auto& [cost, of] : same)
      if (!cost.empty()) print_line(fmt::format("  {}{}", same.size() == 1 ? "" : rows_text(of) + ": ", cost));
  }
}

void print_trials(const Experiment& experiment, const std::vector<PlanPart>& parts,
                  const std::vector<TrialStatus>& status, const std::set<std::size_t>& added) {
  const std::size_t digits = digits_of(experiment);
  struct Group {
    std::string what, ids;
  };
  std::vector<std::vector<Group>> of_parts;
  std::set<std::string> kinds;
  for (const PlanPart& part : parts) {
    std::vector<Group>& groups = of_parts.emplace_back();
    for (std::size_t i = 0; i < part.trials.size();) {
      const auto state_of = [&](std::size_t t) {
        return std::string(word_of(status[t].state)) + (added.contains(t) ? ", new" : "");
      };
      const std::string state = state_of(part.trials[i]);
      Group group;
      std::vector<std::int64_t> seeds;
      for (; i < part.trials.size() && state_of(part.trials[i]) == state; ++i) {
        const Trial& trial = experiment.trials[part.trials[i]];
        const bool in_table = part.purpose == Purpose::table;
        if (!group.ids.empty()) group.ids += in_table ? " " : "; ";
        if (part.purpose == Purpose::tuning)
          group.ids += trial.label.substr(experiment.rows[part.row].label.size() + 2) + " ";
        if (part.purpose == Purpose::start) group.ids += trial.label + " ";
        group.ids += trial.id.substr(0, digits);
        seeds.push_back(std::int64_t(trial.config.seed));
      }
      const bool ordered = std::is_sorted(seeds.begin(), seeds.end());
      if (part.purpose == Purpose::table)
        group.what = fmt::format("{} {} ", seeds.size() > 1 ? "seeds" : "seed",
                                 ordered ? runs_name(seeds) : fmt::format("{}", fmt::join(seeds, ", ")));
      group.what += state;
      kinds.insert(group.what);
      groups.push_back(std::move(group));
    }
    if (part.ahead > 0) kinds.insert(groups.emplace_back(Group{fmt::format("{} to come", part.ahead), ""}).what);
  }
  const bool timed = std::any_of(parts.begin(), parts.end(), [](const PlanPart& part) { return !part.time.empty(); });
  print_text("\n");
  print_line(fmt::format("Rows{} and their trials{}:", timed ? ", the time of a trial on one core," : "",
                         kinds.size() == 1 ? ", " + *kinds.begin() : ""));
  for (std::size_t p = 0; p < parts.size(); ++p) {
    std::string line = fmt::format("{} {}{}{}:", parts[p].row + 1, experiment.rows[parts[p].row].label,
                                   parts[p].purpose == Purpose::table ? "" : "," + words_of(parts[p].purpose),
                                   parts[p].time.empty() ? "" : ", " + parts[p].time);
    for (const Group& group : of_parts[p])
      line += (line.ends_with(":") ? " " : "; ") + joined(kinds.size() == 1 || group.ids.empty()
                                                              ? std::vector{group.ids.empty() ? group.what : group.ids}
                                                              : std::vector{group.what, group.ids},
                                                          " ");
    print_line("  " + line);
  }
}

}  // namespace normlab
