#include "experiments/lab/tables/table_parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/statistics/proportions.h"
#include "experiments/lab/trials/trial_result.h"

namespace normlab {
namespace {

constexpr std::string_view kProgramPart = " | ";

/// "2/3 ": the share of seeds, "" for all of them.
std::string share(std::size_t count, std::size_t planned) {
  return count == planned ? "" : fmt::format("{}/{} ", count, planned);
}

std::string step_range(const std::vector<std::int64_t>& steps) {
  const auto [first, last] = std::minmax_element(steps.begin(), steps.end());
  return *first == *last ? fmt::format("@{}", *first) : fmt::format("@{}..{}", *first, *last);
}

bool is_finished(const TableSeed& seed) { return seed.state == SeedState::done || seed.state == SeedState::diverged; }

bool is_of(const TableEnvironment& known, const TableSeed& seed) {
  return known.environment == seed.environment && known.program == seed.program;
}

std::set<std::string> parts_of(const std::string& program) {
  std::set<std::string> parts;
  for (std::size_t begin = 0; begin < program.size();) {
    const std::size_t end = std::min(program.find(kProgramPart, begin), program.size());
    parts.insert(program.substr(begin, end - begin));
    begin = end + kProgramPart.size();
  }
  return parts;
}

/// For programs that share an environment, adds the parts that not all of them share: "binary 874d53191452c54b".
void tell_programs_apart(std::vector<TableEnvironment>& all) {
  std::map<std::string, std::map<std::string, std::size_t>> programs_with;  // environment -> part -> count
  std::map<std::string, std::size_t> programs;                              // environment -> count
  for (const TableEnvironment& one : all) {
    ++programs[one.environment];
    for (const std::string& part : parts_of(one.program)) ++programs_with[one.environment][part];
  }
  for (TableEnvironment& one : all)
    for (const std::string& part : parts_of(one.program))
      if (programs_with[one.environment][part] < programs[one.environment])
        one.words += (one.words.empty() ? "" : ", ") + part;
}

}  // namespace

std::vector<std::string> state_notes(const std::vector<TableSeed>& seeds, const std::string& metric) {
  std::size_t missing = 0, running = 0, stopped = 0, unmeasured = 0, not_finite = 0, finished = 0;
  double running_progress = 0, stopped_progress = 0;
  std::vector<std::int64_t> diverged;
  std::set<std::string> sites;
  std::map<std::string, std::size_t> failed, unreadable;
  for (const TableSeed& seed : seeds) {
    finished += is_finished(seed) ? 1 : 0;
    switch (seed.state) {
      case SeedState::done:
        unmeasured += seed.value ? 0 : 1;
        not_finite += seed.value && !std::isfinite(*seed.value) ? 1 : 0;
        break;
      case SeedState::diverged:
        diverged.push_back(seed.diverged_step);
        sites.insert(seed.diverged_site);
        break;
      case SeedState::failed:
        ++failed[seed.message];
        break;
      case SeedState::unreadable:
        ++unreadable[seed.message];
        break;
      case SeedState::running:
        ++running, running_progress += seed.progress;
        break;
      case SeedState::stopped:
        ++stopped, stopped_progress += seed.progress;
        break;
      case SeedState::missing:
        ++missing;
        break;
    }
  }
  const auto percent = [](double sum, std::size_t count) { return percent_done(sum / double(count)); };
  std::vector<std::string> notes;
  if (!diverged.empty()) {
    const Bounds interval = clopper_pearson(std::int64_t(diverged.size()), std::int64_t(finished));
    std::string note = fmt::format("{}/{} diverged {}", diverged.size(), seeds.size(), step_range(diverged));
    if (sites.size() == 1 && !sites.begin()->empty()) note += " in " + *sites.begin();
    notes.push_back(note + fmt::format(" (rate {:.0f} to {:.0f}%)", 100 * interval.low, 100 * interval.high));
  }
  for (const auto& [message, count] : failed)
    notes.push_back(share(count, seeds.size()) + "failed" + (message.empty() ? "" : ": " + message));
  for (const auto& [message, count] : unreadable)
    notes.push_back(share(count, seeds.size()) + "unreadable: " + message);
  if (running > 0)
    notes.push_back(fmt::format("{}running {}", share(running, seeds.size()), percent(running_progress, running)));
  if (stopped > 0)
    notes.push_back(fmt::format("{}stopped at {}", share(stopped, seeds.size()), percent(stopped_progress, stopped)));
  if (missing > 0) notes.push_back(share(missing, seeds.size()) + "missing");
  const auto above =
      std::size_t(std::count_if(seeds.begin(), seeds.end(), [](const TableSeed& seed) { return seed.above_guessing; }));
  if (above > 0) notes.push_back(share(above, seeds.size()) + "loss above guessing");
  if (unmeasured > 0) notes.push_back(share(unmeasured, seeds.size()) + "without " + metric);
  if (not_finite > 0) notes.push_back(share(not_finite, seeds.size()) + "not finite");
  return notes;
}

std::vector<TableEnvironment> environments_of(const std::vector<TableRow>& rows) {
  std::vector<TableEnvironment> all;
  const TableEnvironment* last = nullptr;  // most seeds match the one before
  for (const TableRow& row : rows)
    for (const TableSeed& seed : row.seeds) {
      if (!row.has_runs() || !is_finished(seed) || (last != nullptr && is_of(*last, seed))) continue;
      auto found = std::find_if(all.begin(), all.end(), [&](const auto& known) { return is_of(known, seed); });
      if (found == all.end()) found = all.insert(found, {seed.environment, seed.program, seed.environment});
      last = &*found;
    }
  tell_programs_apart(all);
  return all;
}

std::string environment_note(const TableRow& row, const std::vector<TableEnvironment>& environments) {
  std::set<std::size_t> numbers;
  if (!row.has_runs()) return "";
  for (const TableSeed& seed : row.seeds)
    for (std::size_t e = 0; e < environments.size(); ++e)
      if (is_finished(seed) && is_of(environments[e], seed)) numbers.insert(e + 1);
  std::vector<std::string> words;
  for (const std::size_t number : numbers) words.push_back(fmt::format("{}", number));
  return words.empty() ? "" : "env " + joined(words, "+");
}

std::string early_stop_note(const std::vector<TableSeed>& seeds) {
  std::vector<std::int64_t> steps;
  for (const TableSeed& seed : seeds)
    if (is_finished(seed) && seed.early_stopped_step) steps.push_back(*seed.early_stopped_step);
  return steps.empty() ? "" : share(steps.size(), seeds.size()) + "stopped early " + step_range(steps);
}

std::string mixed_train_losses(std::size_t last_steps, std::size_t older) {
  if (last_steps == 0 || older == 0) return "";
  return fmt::format(
      "Mixed {}: the mean of the last 50 steps in {}, and in {} that of an older version, of 50 steps or "
      "fewer.",
      kTrainLoss, plural(last_steps, "run"), plural(older, "run"));
}

bool has_not_learned(const std::vector<TableSeed>& seeds, double share) {
  double first = 0, last = 0;
  for (const TableSeed& seed : seeds)
    if (seed.first_loss && seed.final_loss) first += *seed.first_loss, last += *seed.final_loss;
  return last > share * first;
}

}  // namespace normlab
