// Axes and grids: values to set at paths of the tree.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/descriptor/json_tree.h"
#include "experiments/lab/descriptor/problems.h"
#include "experiments/lab/descriptor/reader.h"

namespace normlab {

struct AxisValue {
  JsonNode node;      // with positions in the sweep; of a benchmark: its settings
  std::string text;   // value_text, for comparison
  std::string label;  // for people
};

struct Axis {
  std::string path;
  Position key_at{};
  std::vector<AxisValue> values;
  std::optional<std::array<double, 2>> drawn_from{};  // the range of values that are drawn; none: they are listed
};

/// Axes that move together, usually one.
using AxisGroup = std::vector<Axis>;

struct Grid {
  std::vector<AxisGroup> groups;
  std::optional<std::vector<std::uint64_t>> seeds;

  /// Capped at `limit` + 1.
  std::size_t size(std::size_t limit) const;
};

/// One value per axis, as in "baseline" and in the entries of "exclude".
struct AxisChoice {
  Position at{};
  std::vector<std::pair<std::string, std::string>> values;  // path -> value_text
};

/// A value of an axis for people: "dpn", "1e-3".
std::string axis_label(std::string_view path, const JsonNode& node, PlacementRows& rows);

/// An object or a list of objects. Invalid entries are reported and omitted.
std::vector<Grid> read_sweep(const JsonNode& node, PlacementRows& rows, Problems& problems);

/// An object of axes: the only grid of a sweep, one of several, which may have "seeds", or the "axes" of a tuning stage,
/// which may be drawn. Drawn axes are one group.
enum class GridPlace : std::uint8_t { sweep, list, tune };
Grid read_grid(const JsonNode& node, GridPlace place, PlacementRows& rows, Problems& problems);

/// A number n for 0 to n - 1, or a list.
std::vector<std::uint64_t> read_seeds(const JsonNode& node, Problems& problems);

/// An object {axis: value}, whose axes and values must occur in the grids.
AxisChoice read_choice(const JsonNode& node, const std::vector<Grid>& grids, Problems& problems);

/// The first value of that text on an axis with that path; no axis if there is none.
struct AxisPlace {
  const Axis* axis = nullptr;
  std::size_t value = 0;
};
AxisPlace find_axis_value(const std::vector<Grid>& grids, std::string_view path, std::string_view text);

/// In order of first appearance.
std::vector<std::string> axis_paths(const std::vector<Grid>& grids);

/// The value of each group in a combination of the grid, from 0 to size() - 1: the last group fastest.
std::vector<std::size_t> combination(const Grid& grid, std::size_t number);

/// False, with a problem, if the path does not exist in the tree.
bool lay(JsonNode& tree, const Axis& axis, std::size_t value, Problems& problems);
/// All axes.
bool lay(JsonNode& tree, const Grid& grid, const std::vector<std::size_t>& combination, Problems& problems);

/// Of a row: axis path -> label.
using AxisLabels = std::vector<std::pair<std::string, std::string>>;

/// "placement=pre_pre, depth=12" from a row's axes; the value alone if `paths`, the axes of the sweep, are only one;
/// `stem`, the descriptor's name, without axes.
std::string row_label(const AxisLabels& axes, const std::vector<std::string>& paths, const std::string& stem);

/// The same for a choice of rows.
std::string choice_label(const AxisChoice& choice, const std::vector<Grid>& grids,
                         const std::vector<std::string>& paths);

}  // namespace normlab
