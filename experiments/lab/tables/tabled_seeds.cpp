#include "experiments/lab/tables/sweep_table.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/strict_json.h"

namespace normlab {
namespace {

std::string folder_of(const Experiment& e) { return e.stem + "/tabled"; }

std::size_t seeds_of(const Experiment& e) {
  std::size_t most = 0;
  for (const Cell& row : e.rows) most = std::max(most, row.trials.size());
  return most;
}

/// The number in "seeds-5.json"; 0 for other files.
std::size_t number_in(const std::string& name) {
  std::size_t number = 0;
  if (!name.starts_with("seeds-") || !name.ends_with(".json")) return 0;
  const char *begin = name.data() + 6, *end = name.data() + name.size() - 5;
  const auto parsed = std::from_chars(begin, end, number);
  return parsed.ec == std::errc() && parsed.ptr == end ? number : 0;
}

/// Whether the table shows a comparison: two seeds of one row have ended.
bool tells_something(const Experiment& e, const ResultStore& store) {
  const auto finished = [&](std::size_t t) {
    try {
      return store.finished(e.trials[t].id);
    } catch (const InputError&) {  // a damaged result, which the table reports
      return false;
    }
  };
  return std::any_of(e.rows.begin(), e.rows.end(), [&](const Cell& row) {
    std::size_t ended = 0;
    for (const std::size_t t : row.trials)
      if (finished(t) && ++ended == 2) return true;
    return false;
  });
}

}  // namespace

bool note_tabled_seeds(const Experiment& e, const ResultStore& store) {
  const std::size_t seeds = seeds_of(e);
  const std::filesystem::path folder = store.out() / "experiments" / folder_of(e),
                              path = folder / concat("seeds-", seeds, ".json");
  if (seeds < 2 || store.exported() != nullptr || std::filesystem::exists(path)) return true;
  if (!std::filesystem::exists(folder.parent_path() / "plan.json") || !tells_something(e, store)) return true;
  nlohmann::ordered_json note{{"seeds", seeds}, {"by_rule", e.two_stage.has_value()}};
  for (const Cell& row : e.rows)
    if (!row.trials.empty()) note["rows"].push_back(e.trials[row.trials.front()].id);
  try {
    make_folders(folder);
    publish(path, write_note(note));
  } catch (const EnvironmentError&) {
    return false;
  }
  return true;
}

std::string raised_seeds_note(const Experiment& e, const ResultStore& store) {
  const std::size_t now = seeds_of(e);
  std::set<std::size_t> before;
  std::unordered_set<std::string> rows;
  for (const std::string& name : store.note_names(folder_of(e))) {
    const std::size_t seeds = number_in(name);
    if (seeds == 0 || seeds >= now) continue;
    if (rows.empty())
      for (const Trial& trial : e.trials) rows.insert(trial.id);
    const nlohmann::json note = store.note(folder_of(e), name);
    if (!note.contains("rows") || !note["rows"].is_array() || note.value("seeds", nlohmann::json()) != seeds)
      throw InputError(concat((store.out() / "experiments" / folder_of(e) / name).string(),
                              ": is not a note of a table; delete this file"));
    if (e.two_stage && note.value("by_rule", false)) continue;
    if (std::any_of(note["rows"].begin(), note["rows"].end(),
                    [&](const nlohmann::json& id) { return id.is_string() && rows.contains(id.get<std::string>()); }))
      before.insert(seeds);
  }
  if (before.empty()) return "";
  std::string numbers;
  for (const std::size_t n : before) numbers += concat(numbers.empty() ? "" : ", then ", n);
  return concat("Seeds were raised ", before.size() == 1 ? "once" : concat(before.size(), " times"),
                " after results had been read (with ", numbers, "; now ", now,
                "): adding seeds after looking makes intervals too narrow, and these are not corrected for it; "
                "two-stage seeds ({\"first\", \"max\", \"gain_halfwidth\"}) are.");
}

}  // namespace normlab
