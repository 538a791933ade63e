#include "experiments/lab/ledger/row_names.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "experiments/lab/base/text_layout.h"

namespace normlab {
namespace {

std::string short_value(const std::string& value) {
  const auto json = nlohmann::json::parse(value, nullptr, false);
  if (!json.is_object()) return value;
  for (const char* key : {"name", "dialect", "kind"})
    if (const auto found = json.find(key); found != json.end() && found->is_string()) return found->get<std::string>();
  return value;
}

/// Whether each value of `axis` belongs to one combination of `kept` only.
bool follows_from(const std::vector<std::string>& axis, const std::vector<std::vector<std::string>>& kept) {
  std::map<std::vector<std::string>, std::string> seen;
  for (std::size_t r = 0; r < axis.size(); ++r) {
    std::vector<std::string> others;
    for (const auto& values : kept) others.push_back(values[r]);
    if (seen.emplace(others, axis[r]).first->second != axis[r]) return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> row_names(const Experiment& experiment) {
  const std::size_t rows = experiment.rows.size();
  std::vector<std::string> axes = experiment.axes;
  const auto bare = [](const std::string& path) { return path == "model.placement" || path == "row"; };
  std::stable_partition(axes.begin(), axes.end(), bare);
  std::vector<std::vector<std::string>> kept;
  std::vector<std::vector<std::string>> words(rows);
  for (const std::string& path : axes) {
    std::vector<std::string> values(rows), shown(rows);
    for (std::size_t r = 0; r < rows; ++r)
      for (const auto& [axis, label] : experiment.rows[r].axes)
        if (axis == path) values[r] = label, shown[r] = short_value(label);
    // A value that only some rows have tells these rows apart, so it is shown even if it follows from others.
    const std::set<std::string> all(values.begin(), values.end());
    if (follows_from(values, kept) && !(all.size() == 2 && all.contains(""))) continue;
    const auto distinct = [](const std::vector<std::string>& list) {
      return std::set<std::string>(list.begin(), list.end()).size();
    };
    if (distinct(shown) < distinct(values)) shown = values;
    kept.push_back(std::move(values));
    for (std::size_t r = 0; r < rows; ++r)
      if (!shown[r].empty())
        words[r].push_back(bare(path) ? shown[r] : path.substr(path.rfind('.') + 1) + " " + shown[r]);
  }
  std::vector<std::string> names;
  for (std::size_t r = 0; r < rows; ++r)
    names.push_back(words[r].empty() ? experiment.rows[r].label : joined(words[r], ", "));
  return names;
}

}  // namespace normlab
