// What a descriptor asks for: all but its rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/lab/descriptor/leave_one_out.h"
#include "experiments/lab/descriptor/tune.h"

namespace normlab {

/// An entry of "benchmarks", which the axis "benchmark" lays over the rest.
struct Benchmark {
  std::string name, group;
  JsonNode settings;
};
inline constexpr std::string_view kAllBenchmarks = "all";  // the group of all

/// An object {name: {"group", "dataset", "model", ...}}; null: none. Gives the values of each axis "benchmark" of the
/// grids the settings that they name. Reports invalid entries, unknown names, and an axis before it.
std::vector<Benchmark> read_benchmarks(const JsonMember* member, std::vector<Grid>& grids, Problems& problems);

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
  const WholeDescriptor* whole = nullptr;    // read instead of the files that starts name; null: files
  std::set<std::filesystem::path> around{};  // canonical: other descriptors that start from this one, in turn
  PlacementRows placements{};
  std::vector<Benchmark> benchmarks{};
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
  /// A row that leaves features out is compared with the one that has them all, unless the descriptor says otherwise.
  bool has_baselines() const { return baseline || std::any_of(grids.begin(), grids.end(), leave_one_out_axis); }
  const std::vector<std::uint64_t>& seeds_of(const Grid& grid) const { return grid.seeds ? *grid.seeds : seeds; }
};

/// Completes `design` and the parts of `out` that concern no row. `set_paths`: of --set.
void read_design(Design& design, const std::vector<std::string>& set_paths, Problems& problems, Experiment& out);

struct GridRow {
  Cell cell{};
  TrialConfig config{};
  std::vector<std::uint64_t> seeds{};
  std::vector<AxisLabels> values{};  // axis path -> value_text: its own, and those of the same row in later grids
  const Grid* grid = nullptr;
  JsonNode tree{};  // for tuned sweeps: the tree that values are laid over
};

struct GridRows {
  std::vector<GridRow> rows;
  std::size_t duplicates = 0;                   // as in Experiment
  std::vector<std::string> repeated;            // as in Experiment
  std::map<std::string, std::string> labels{};  // as in Experiment
};

/// A path in a descriptor is relative to that file, and one of `--set` to the current folder.
std::filesystem::path relative_to(const Position& at, const std::string& path);

/// The text of an axis; null if it has none.
const std::string* find_value(const AxisLabels& values, const std::string& path);
bool matches(const AxisLabels& values, const AxisLabels& wanted);

/// Finds what rows start from: files and descriptors, each read once.
class StartSources {
 public:
  StartSources(Design& design, Problems& problems) : design_(design), problems_(problems) {}
  void resolve(GridRow& row);
  /// Adds all that was read. A path that two files mean differently cannot be written: then `to.json` is emptied.
  void write(WholeDescriptor& to) const;

 private:
  std::nullptr_t fail(const StartConfig& start, const std::string& what);
  void note_path(const std::string& written, const std::string& meant);
  void take_file_hash(StartConfig& start);
  const Experiment* descriptor_at(const StartConfig& start);
  std::shared_ptr<StartRow> row_of_this(const GridRow& row, const StartConfig& start);
  std::shared_ptr<StartRow> row_of_other(const StartConfig& start, const AxisLabels& axes);

  Design& design_;
  Problems& problems_;
  int depth_ = 0;
  std::map<std::string, std::string> paths_;  // as written -> as meant
  bool ambiguous_ = false;
  std::map<std::string, std::string> hashes_;      // of files, by path as meant
  std::map<std::string, Experiment> descriptors_;  // by path as meant
};

/// The rows of all grids that are not excluded, with their baselines. InputError with all problems.
GridRows read_rows(Design& design, StartSources& starts, Problems& problems);

/// load_experiment() of a file that those in `around` start from.
Experiment load_experiment(const std::filesystem::path& file, std::span<const std::string> sets, std::size_t max_trials,
                           const ClassCounts& classes, std::set<std::filesystem::path> around);

}  // namespace normlab
