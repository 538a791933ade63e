#include "experiments/lab/sweep/share.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "core/error.h"
#include "experiments/lab/base/text_layout.h"

namespace normlab {
namespace {

std::optional<std::size_t> whole_number(std::string_view text) {
  std::size_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
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
        const std::string of = count ? std::to_string(*count) : "N";
        std::string shares;  // that this task may have had in the whole array
        for (const std::size_t from : {std::size_t{1}, std::size_t{0}}) {
          if (*task < from) continue;
          const std::size_t share = *task - from + 1;
          if (count && share > *count) continue;
          shares += fmt::format("{}--share {}/{} if the whole array begins at {}", shares.empty() ? ": " : ", ", share,
                                of, from);
        }
        throw InputError(fmt::format(
            "--share {}: this is not a whole array{} but {} from {}{}, so the share cannot be told from the task's "
            "number; give it{}",
            text, count ? fmt::format(" of {} tasks", of) : "", tasks ? plural(*tasks, "task") : "tasks", least,
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

std::vector<std::string> ids_of_share(const Experiment& experiment, const Share& share) {
  std::set<std::string> ids;
  for (const Trial& trial : experiment.trials) ids.insert(trial.id);
  std::vector<std::string> chosen;
  std::size_t place = 0;
  for (const std::string& id : ids)
    if (place++ % share.count == share.number - 1) chosen.push_back(id);
  return chosen;
}

}  // namespace normlab
