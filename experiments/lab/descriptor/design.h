// What a descriptor asks for: all but its rows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/lab/descriptor/benchmarks.h"
#include "experiments/lab/descriptor/start_source.h"
#include "experiments/lab/descriptor/tune.h"

namespace normlab {

/// Axis values that select rows, and whether any row matched.
struct Choice {
  AxisChoice axes;
  bool found = false;
};

struct Design {
  JsonNode root;  // has no "extends" left
  std::string stem;
  ClassCounts classes;
  std::size_t max_trials;
  std::shared_ptr<Sources> sources;
  PlacementRows placements{};
  Benchmarks benchmarks{};
  std::vector<Grid> grids{};
  std::vector<std::string> paths{};     // of the axes
  JsonNode base = json_object();        // the settings that every row starts from
  std::vector<std::uint64_t> seeds{0};  // of grids without their own
  std::vector<Choice> exclude{};
  std::optional<Choice> baseline{}, tuned_for{};
  std::vector<std::pair<JsonNode, AxisChoice>> apart{};  // a row's name, or values of axes
  std::optional<TwoStageSeeds> two_stage{};
  std::shared_ptr<TunedRows> tuned{};

  Position position_of(std::string_view key) const {
    const JsonMember* member = root.find(key);
    return member == nullptr ? root.at : member->key_at;
  }
  const std::vector<std::uint64_t>& seeds_of(const Grid& grid) const { return grid.seeds ? *grid.seeds : seeds; }
};

/// Completes `design` and the parts of `out` that concern no row. `set_paths`: of --set.
void read_design(Design& design, const std::vector<std::string>& set_paths, Problems& problems, Experiment& out);

using AxisValues = std::vector<std::pair<std::string, std::string>>;  // axis path -> value_text

struct GridRow {
  Cell cell{};
  TrialConfig config{};
  std::vector<std::uint64_t> seeds{};
  std::vector<AxisValues> values{};  // its own, and those of the same row in later grids
  const Grid* grid = nullptr;
  JsonNode tree{};  // for tuned sweeps: the tree that values are laid over
};

struct GridRows {
  std::vector<GridRow> rows;
  std::size_t duplicates = 0;         // as in Experiment
  std::vector<std::string> repeated;  // as in Experiment
};

/// The rows of all grids that are not excluded, with their baselines. InputError with all problems.
GridRows read_rows(Design& design, StartSources& starts, Problems& problems);

}  // namespace normlab
