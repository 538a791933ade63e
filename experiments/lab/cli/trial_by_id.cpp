#include "experiments/lab/cli/trial_by_id.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/sweep/plan_file.h"

namespace normlab {
namespace {

bool is_hexadecimal(const std::string& text) {
  return !text.empty() && text.size() <= 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace

bool may_be_id(const std::string& text) { return is_hexadecimal(text) && !std::filesystem::exists(text); }

std::vector<std::string> ids_that_begin(const ResultStore& store, const std::string& prefix) {
  if (!is_hexadecimal(prefix))
    throw InputError(
        concat(in_quotes(prefix), " is not the beginning of a trial's id, which has 64 digits from 0 to 9 and a to f"));
  std::set<std::string> ids;
  for (const std::string& id : store.trial_ids())
    if (id.starts_with(prefix)) ids.insert(id);
  for (const PlanFile& plan : read_plan_files(store))
    for (const PlannedTrial& trial : plan.trials)
      if (trial.id.starts_with(prefix)) ids.insert(trial.id);
  if (ids.empty())
    throw InputError(concat("no trial or plan in ", store.out().string(), " has an id that begins with ", prefix,
                            "; give another folder with --out"));
  return {ids.begin(), ids.end()};
}

std::string id_that_begins(const ResultStore& store, const std::string& prefix) {
  const std::vector<std::string> ids = ids_that_begin(store, prefix);
  if (ids.size() == 1) return ids.front();
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min<std::size_t>(ids.size(), 5); ++i)
    shown.push_back(ids[i].substr(0, prefix.size() + 8));
  throw InputError(concat(ids.size(), " ids begin with ", prefix, ": ", joined(shown, ", "),
                          ids.size() > 5 ? ", ..." : "", "; give more digits"));
}

TrialFolder trial_named(const std::string& folder_or_id, const std::string& out) {
  const std::filesystem::path folder(folder_or_id);
  if (std::error_code no_path; std::filesystem::exists(folder / "config.json", no_path))
    return TrialFolder(std::filesystem::weakly_canonical(folder));
  if (!is_hexadecimal(folder_or_id))
    throw InputError(
        concat(in_quotes(folder_or_id),
               " is neither a trial's folder, which contains config.json, nor the beginning of a trial's id"));
  const ResultStore store(out);
  return store.trial(id_that_begins(store, folder_or_id));
}

}  // namespace normlab
