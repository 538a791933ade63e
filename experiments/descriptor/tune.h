// "tune": axes whose value is chosen for each row by its results on a minival, stage after stage, before the row itself
// is trained and shown on the test set. What the trials are stands here; experiments/sweep/stages.h chooses.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/descriptor/experiment.h"
#include "experiments/descriptor/sweep.h"

namespace normlab {

struct TuneStage {
  Position at{};                     // of the stage in the descriptor
  Grid grid;                         // of what is tried
  JsonNode overlay = json_object();  // "dataset" and "train" of these trials alone, laid over the row's own
  std::vector<std::uint64_t> seeds{0};
  std::string metric = "eval/accuracy";

  std::size_t candidates() const { return grid.size(kMaxTrials); }
  /// What a candidate has at each axis. Candidates are counted as rows are: the last axis fastest.
  std::vector<TunedValue> values(std::size_t candidate) const;
  /// "lr=1e-3, weight_decay=0.1"
  std::string label(std::size_t candidate) const;
  /// The lower one wins.
  bool lower_is_better() const { return metric.ends_with("loss"); }
};

/// The value of "tune", a list of objects {"axes", "dataset", "train", "seeds", "metric"}. `swept` are the axes of the
/// sweep, which cannot be tuned as well. What is wrong is noted and left out.
std::vector<TuneStage> read_tune(const JsonNode& node, const std::vector<std::string>& swept, PlacementRows& rows,
                                 Problems& problems);

/// The rows of a sweep that is tuned, from which any trial of any stage can be made.
class TunedRows {
 public:
  /// `classes`: as load_experiment takes it.
  TunedRows(std::vector<TuneStage> stages, std::shared_ptr<Sources> sources, ClassCounts classes)
      : stages_(std::move(stages)), sources_(std::move(sources)), classes_(std::move(classes)) {}

  const std::vector<TuneStage>& stages() const { return stages_; }

  /// Adds to row `row` of `out` the trials of stage chosen.size(), where `chosen` are the candidates that won the
  /// stages before; the axes of later stages stand as the descriptor has them. Gives for each candidate the indices of
  /// its trials, one a seed; a trial that the row has already is not added again. InputError where values do not fit
  /// together.
  std::vector<std::vector<std::size_t>> add_stage(Experiment& out, std::size_t row,
                                                  std::span<const std::size_t> chosen) const;
  /// Settings of the row once every stage has its candidate. InputError where they do not fit together.
  TrialConfig final_config(std::size_t row, std::span<const std::size_t> chosen) const;
  /// Seeds that the descriptor gives the row.
  const std::vector<std::uint64_t>& seeds(std::size_t row) const { return seeds_.at(row); }

  // --- while a descriptor is read

  /// Reads every candidate of every stage for a row given as a tree, the other stages at their first candidate, as a
  /// trial of that stage and as the row's own; problems are noted. Gives the row's settings with the first candidates
  /// alone, and a text that is equal for rows that have all their trials in common.
  std::pair<TrialConfig, std::string> check_row(const JsonNode& tree, PlacementRows& rows, Problems& problems) const;
  void add_row(JsonNode tree, std::vector<std::uint64_t> seeds) {
    trees_.push_back(std::move(tree));
    seeds_.push_back(std::move(seeds));
  }
  /// Takes over what the trees' placements refer to.
  void keep(JsonNode root, PlacementRows rows) {
    root_ = std::move(root);
    rows_ = std::move(rows);
  }

 private:
  bool apply(JsonNode& tree, std::size_t stage, std::size_t candidate, Problems& problems) const;
  TrialConfig read(std::size_t row, std::span<const std::size_t> chosen, const JsonNode* overlay) const;
  void check_slices(const TuneStage& stage, const DatasetConfig& own, const DatasetConfig& tuning,
                    Problems& problems) const;

  std::vector<TuneStage> stages_;
  std::shared_ptr<Sources> sources_;
  ClassCounts classes_;
  JsonNode root_;
  mutable PlacementRows rows_;  // reads its rows when they are first asked for
  std::vector<JsonNode> trees_;
  std::vector<std::vector<std::uint64_t>> seeds_;
};

}  // namespace normlab
