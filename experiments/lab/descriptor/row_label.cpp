#include "experiments/lab/descriptor/row_label.h"

#include <algorithm>

#include "core/error.h"

namespace normlab {
namespace {

/// The last key of an axis's path, or the whole path if two axes share that key.
std::string short_name(const std::string& path, const std::vector<std::string>& paths) {
  const auto last = [](const std::string& p) { return p.substr(p.rfind('.') + 1); };
  const std::string name = last(path);
  const auto same = std::count_if(paths.begin(), paths.end(), [&](const std::string& p) { return last(p) == name; });
  return same > 1 ? path : name;
}

std::string joined_labels(const AxisLabels& axes, const std::vector<std::string>& paths) {
  std::string label;
  for (const auto& [path, value] : axes)
    label += concat(label.empty() ? "" : ", ", short_name(path, paths), "=", value);
  return label;
}

}  // namespace

std::string row_label(const AxisLabels& axes, const std::vector<std::string>& paths, const std::string& stem) {
  if (paths.size() == 1 && axes.size() == 1) return axes.front().second;  // needs no axis name
  return axes.empty() ? stem : joined_labels(axes, paths);
}

std::string choice_label(const AxisChoice& choice, const std::vector<Grid>& grids,
                         const std::vector<std::string>& paths) {
  AxisLabels axes;
  for (const auto& [path, text] : choice.values) {
    const auto [axis, value] = find_axis_value(grids, path, text);
    axes.emplace_back(path, axis->values[value].label);
  }
  return axes.size() == 1 ? axes.front().second : joined_labels(axes, paths);
}

}  // namespace normlab
