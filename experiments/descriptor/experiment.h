// A descriptor, read and expanded: what question it asks, and every trial that answers it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "experiments/descriptor/class_counts.h"
#include "experiments/descriptor/paper.h"
#include "experiments/descriptor/probes.h"

namespace normlab {

class TunedRows;

/// "seeds" as an object: every row runs `first` seeds; then their number is fixed once for all rows, so that the gains'
/// intervals are no wider than +- gain_halfwidth, but not above `max` (Stein's two stages; experiments/sweep/stages.h).
struct TwoStageSeeds {
  std::size_t first = 0, max = 0;
  double gain_halfwidth = 0;  // in the table's unit: percentage points for a metric that ends in "accuracy"
  std::string metric = "eval/accuracy";
  bool operator==(const TwoStageSeeds&) const = default;
};

/// What was fixed once the first seeds of a two-stage sweep had finished.
struct FixedSeeds {
  std::size_t wanted = 0;  // by the rule; 0 where the first seeds tell no noise
  std::size_t count = 0;   // the smaller of `wanted` and max
  double halfwidth = 0;    // expected of the widest interval with so many seeds, in the table's unit
  bool reached() const { return wanted == count; }
};

/// A value that tuning chose for a row.
struct TunedValue {
  std::string path, label;
  bool at_edge = false;  // the least or the largest of the values tried, unless it is 0
};

/// One row of the result table: a combination of axis values, whatever the seed.
struct Cell {
  std::vector<std::pair<std::string, std::string>> axes;  // path of the axis -> label of its value, in the grid's order
  std::string label;  // "placement=dpn, warmup_steps=500"; "dpn" for one axis; the file's stem for none
  std::optional<std::size_t> baseline;  // row it is compared with; itself for a baseline
  std::vector<std::size_t> trials;      // indices, in the order of the row's seeds; none before tuning is over
  std::vector<std::size_t> tuning;      // indices of trials that choose this row's values: in no cell of the table
  std::vector<TunedValue> chosen;       // by the stages of "tune" that are over for this row, in their order
};

struct Trial {
  TrialConfig config;
  std::string id;  // trial_id(config)
  std::size_t row = 0;
  std::size_t seed_index = 0;  // among the row's seeds
  std::string label;           // the row's, and the seed
  bool tuning = false;         // judged on a minival to choose a value; in Cell::tuning, not in Cell::trials
};

struct Experiment {
  std::string about;
  std::string stem;                          // of the file's name; names the folder of results
  std::vector<std::filesystem::path> files;  // the descriptor and what it extends
  std::vector<std::string> axes;             // paths, in order of first appearance
  std::vector<Cell> rows;
  std::vector<Trial> trials;  // row by row, each with its tuning trials, then its seeds in order
  CheckpointConfig checkpoint;
  ProbeConfig probes;
  PaperConfig paper;
  std::size_t duplicates = 0;  // trials that came up more than once and run once

  // Trials that depend on results: next_stage() of experiments/sweep/stages.h fills in what is known by now.
  std::optional<TwoStageSeeds> two_stage;
  std::optional<FixedSeeds> fixed_seeds;
  std::shared_ptr<const TunedRows> tuned;  // of "tune"; none without it
  std::optional<std::string> tuned_for;    // label of the row for which the settings that all rows share were chosen
  bool more_to_come = false;               // finishing these trials brings up others
};

/// Adds a trial of a row of `out`, at the end of its seeds.
void add_trial(Experiment& out, std::size_t row, const TrialConfig& config, std::uint64_t seed);

/// A trial of the row as it will be run, to show its settings: where values are still to be tuned, the first ones.
const Trial& first_trial(const Experiment& experiment, const Cell& row);

/// More trials than this in one descriptor are taken for a mistake.
inline constexpr std::size_t kMaxTrials = 100'000;

/// Reads a descriptor, applies `sets` ("path=value") and expands it. Rows stand in the order of the grids, in a grid in
/// the order of its axes, the last one fastest; a row that comes up again adds its new seeds to the first. InputError
/// with all problems, one a line: "file:line:column: /json/pointer: what; did you mean "..."?"; more than `max_trials`
/// are one. `classes` is asked where num_classes is left to a data set that is not known by its name, so that the
/// trials' settings and ids state the number; without it that is a problem too.
Experiment load_experiment(const std::filesystem::path& file, std::span<const std::string> sets = {},
                           std::size_t max_trials = kMaxTrials, const ClassCounts& classes = nullptr);

}  // namespace normlab
