// A descriptor's question and all trials that answer it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/words.h"
#include "experiments/lab/descriptor/config.h"
#include "experiments/lab/descriptor/external_numbers.h"
#include "experiments/lab/descriptor/printed_numbers.h"
#include "experiments/lab/descriptor/probes.h"
#include "experiments/lab/descriptor/tested_claim.h"

namespace normlab {

class TunedRows;

/// More are treated as a mistake.
inline constexpr std::size_t kMaxTrials = 100'000;

/// "seeds" as an object. Every row runs `first` seeds. Their number is then fixed once for all rows so that the gains'
/// intervals are at most +- gain_halfwidth, but not above `max` (Stein's two stages; experiments/lab/sweep/stages.h).
struct TwoStageSeeds {
  std::size_t first = 2, max = 2;
  double gain_halfwidth = 1;  // in the table's unit: percentage points for a share
  std::string metric = "eval/accuracy";
  bool operator==(const TwoStageSeeds&) const = default;
};

template <std::same_as<TwoStageSeeds> T>
constexpr auto rows_of(const T*) {
  constexpr Range kSeeds{.low = 2, .high = kMaxTrials, .expected = "a number of seeds from 2 to 100000"};
  Range first = kSeeds;
  first.why = "a single seed shows no noise";
  return Fields{field("first", &T::first, "", first).needed(), field("max", &T::max, "", kSeeds).needed(),
                field("gain_halfwidth", &T::gain_halfwidth, "",
                      {.low = 0, .low_open = true, .expected = "a number above 0, in the table's unit"})
                    .needed(),
                field("metric", &T::metric, "", {.expected = "a word"})};
}

/// Fixed once the first seeds of a two-stage sweep have finished.
struct FixedSeeds {
  std::size_t wanted = 0;  // by the rule; 0 if the first seeds give no estimate of noise
  std::size_t count = 0;   // the smaller of `wanted` and max
  double halfwidth = 0;    // expected for the widest interval with this many seeds, in the table's unit
  bool reached() const { return wanted == count; }
};

/// A value that tuning chose for a row.
struct TunedValue {
  std::string path, label;
  bool at_edge = false;  // the largest value tried, or the least unless it is 0
};

/// The trial that a row's trials start from.
struct StartRow {
  TrialConfig config;  // without its seed, and without the trial that it starts from in turn
  std::string label;
  std::optional<std::uint64_t> seed{};      // none: that of the trial that starts from it
  std::shared_ptr<const StartRow> start{};  // what it starts from in turn
};

/// A combination of axis values, for all seeds.
struct Cell {
  std::vector<std::pair<std::string, std::string>> axes;  // axis path -> label of its value, in the grid's order
  std::string label;  // "placement=dpn, warmup_steps=500"; "dpn" for one axis; the file's stem for none
  std::optional<std::size_t> baseline;      // row it is compared with; itself for a baseline
  bool apart = false;                       // by "apart": its noise is not compared with that of other rows
  std::vector<std::size_t> trials;          // indices in the order of the row's seeds; empty until tuning ends
  std::vector<std::size_t> tuning;          // indices of trials that tune this row; not in the table
  std::vector<std::size_t> starts;          // indices of trials that this row starts from; not in the table
  std::vector<TunedValue> chosen;           // values from the completed stages of "tune", in order
  std::shared_ptr<const StartRow> start{};  // null unless it starts from trials
};

/// tuning: chooses a value on a minival (Cell::tuning). start: trains the weights of others (Cell::starts).
enum class Purpose : std::uint8_t { table, tuning, start };
constexpr auto stated_words(Purpose) { return words<Purpose>("table", "tuning", "start"); }

struct Trial {
  TrialConfig config;
  std::string id;  // trial_id(config)
  std::size_t row = 0;
  std::string label;  // the row's label and the seed
  Purpose purpose = Purpose::table;
};

/// Benchmarks whose mean a table shows.
struct BenchmarkGroup {
  std::string name;
  std::vector<std::string> benchmarks;  // labels of the axis "benchmark"
};

/// A descriptor that needs no other file: merged with what it extends and with `--set`, as are those that its trials
/// start from.
struct WholeDescriptor {
  std::string json;                                 // "": it cannot be written so
  std::map<std::string, WholeDescriptor> starts{};  // by the path in "start"
  std::map<std::string, std::string> weights{};     // SHA-256 of the files of weights, by the path in "start"
};

struct Experiment {
  std::string about;
  std::string stem;                          // of the file's name; names the results folder
  std::vector<std::filesystem::path> files;  // the descriptor and the files it extends
  WholeDescriptor whole;
  std::vector<std::string> axes;                // paths, in order of first appearance
  std::vector<BenchmarkGroup> groups;           // of "benchmarks"; empty without groups
  std::map<std::string, std::string> labels{};  // names of rows, values of axes and metrics -> what to show
  std::vector<Cell> rows;
  std::vector<Trial> trials;  // by row: its tuning trials, then its seeds in order; then the trials they start from
  CheckpointConfig checkpoint;
  ProbeConfig probes;
  PaperConfig paper;
  TestedClaim claim;
  PrintedNumbers printed;
  std::vector<ExternalNumbers> external;
  std::size_t duplicates = 0;  // repeated trials, which run once
  /// "row \"a\" repeats \"b\": ..." for each row with the settings of another one, which it is a part of.
  std::vector<std::string> repeated_rows{};

  // For trials that depend on results: next_stage() of experiments/lab/sweep/stages.h fills in what is known so far.
  std::optional<TwoStageSeeds> two_stage;
  std::optional<FixedSeeds> fixed_seeds;
  std::shared_ptr<const TunedRows> tuned;  // rows of "tune"; null without it
  std::optional<std::string> tuned_for;    // label of the row for which the shared settings were chosen
  bool more_to_come = false;               // finishing these trials leads to more
};

/// The row's settings with that seed and the id of the trial that they start from.
TrialConfig with_seed(const TrialConfig& config, const std::shared_ptr<const StartRow>& start, std::uint64_t seed);
/// Adds the trials that others start from, unless they are trials of the experiment already. Call it once all others
/// are known; a former call's trials are replaced.
void add_start_trials(Experiment& experiment);

/// After the row's other seeds.
void add_trial(Experiment& out, std::size_t row, const TrialConfig& config, std::uint64_t seed);

/// Represents the row's settings; values still to be tuned have their first candidates.
const Trial& first_trial(const Experiment& experiment, const Cell& row);

/// Reads a descriptor, applies `sets` ("path=value") and expands it. Rows follow the order of the grids, and within a
/// grid that of its axes with the last one fastest; a repeated row adds its new seeds to the first. InputError with all
/// problems, one per line: "file:line:column: /json/pointer: what; did you mean "..."?"; more than `max_trials` trials
/// are a problem. `classes` counts classes if num_classes is omitted for a dataset not known by name, so that the
/// trials' settings and ids include the number; without `classes` that is a problem too.
Experiment load_experiment(const std::filesystem::path& file, std::span<const std::string> sets = {},
                           std::size_t max_trials = kMaxTrials, const ClassCounts& classes = nullptr);

/// The same for a descriptor that `file` holds under the name `stem`.
Experiment load_experiment(const WholeDescriptor& descriptor, const std::filesystem::path& file,
                           const std::string& stem, std::span<const std::string> sets, std::size_t max_trials,
                           const ClassCounts& classes);

}  // namespace normlab
