// "tune": values chosen per row by results on a minival, in stages, before the row itself is trained and evaluated on
// the test set. Defines the trials; experiments/lab/sweep/stages.h makes the choices.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/descriptor/sweep.h"

namespace normlab {

enum class TuneMetric : std::uint8_t { accuracy, loss, ema_accuracy, ema_loss, miou, ema_miou };
constexpr auto stated_words(TuneMetric) {
  return words<TuneMetric>("eval/accuracy", "eval/loss", "eval/ema_accuracy", "eval/ema_loss", "eval/miou",
                           "eval/ema_miou");
}
/// What the row itself is trained on, once tuned.
enum class ThenTrainOn : std::uint8_t { train, train_and_minival };
constexpr auto stated_words(ThenTrainOn) { return words<ThenTrainOn>("train", "train+minival"); }

/// Settings of T that are laid over those of a row; null: none.
template <class T>
struct Overlay {
  JsonNode settings{};
};

struct TuneStage {
  Position at{};                   // of the stage in the descriptor
  Grid grid;                       // the candidates
  Overlay<DatasetConfig> dataset;  // of these trials only
  Overlay<TrainConfig> train;
  std::vector<std::uint64_t> seeds{0};
  TuneMetric metric = TuneMetric::accuracy;
  /// Whether these trials are evaluated on the row's minival, in place of the overlay's slice.
  bool by_minival = true;
  ThenTrainOn then_train_on = ThenTrainOn::train;  // of the last stage

  std::size_t candidates() const { return grid.size(kMaxTrials); }
  /// A candidate's value for each axis. Candidates are numbered like rows: the last axis fastest.
  std::vector<TunedValue> values(std::size_t candidate) const;
  /// "lr=1e-3, weight_decay=0.1"
  std::string label(std::size_t candidate) const;
  /// For losses, the lower value wins.
  bool lower_is_better() const { return word_of(metric).ends_with("loss"); }
};

template <std::same_as<TuneStage> T>
constexpr auto rows_of(const T*) {
  return Fields{field("axes", &T::grid).needed("a stage needs \"axes\""),
                field("dataset", &T::dataset),
                field("train", &T::train),
                field("seeds", &T::seeds),
                field("metric", &T::metric),
                field("then_train_on", &T::then_train_on, "", {.expected = "\"train\" or \"train+minival\""})};
}

/// `swept` are the axes of the sweep, which cannot also be tuned. Invalid stages are reported and omitted.
std::vector<TuneStage> read_tune(const JsonNode& node, const std::vector<std::string>& swept, PlacementRows& rows,
                                 Problems& problems);

/// Makes any trial of any stage of a tuned sweep.
class TunedRows {
 public:
  /// `classes`: as for load_experiment.
  TunedRows(std::vector<TuneStage> stages, std::shared_ptr<Sources> sources, ClassCounts classes)
      : stages_(std::move(stages)), sources_(std::move(sources)), classes_(std::move(classes)) {}

  const std::vector<TuneStage>& stages() const { return stages_; }

  /// Adds the trials of stage chosen.size() to row `row` of `out`. `chosen` are the winning candidates of earlier
  /// stages; axes of later stages keep the descriptor's values. Returns for each candidate the indices of its trials,
  /// one per seed; existing trials of the row are reused. InputError if values are inconsistent.
  std::vector<std::vector<std::size_t>> add_stage(Experiment& out, std::size_t row,
                                                  std::span<const std::size_t> chosen) const;
  /// The settings of a row with these candidates of the first stages: of the trials of `stage`, or without it its own.
  /// InputError if they are inconsistent.
  TrialConfig config(std::size_t row, std::span<const std::size_t> chosen, const TuneStage* stage = nullptr) const;
  /// As in the descriptor.
  const std::vector<std::uint64_t>& seeds(std::size_t row) const { return swept_.at(row).seeds; }

  // --- while a descriptor is read

  /// Reads every candidate of every stage for a row given as a tree, with other stages at their first candidate, both
  /// as a trial of that stage and as the row's own trial. Problems are collected. Returns the row's settings with the
  /// first candidates, and a text that is equal for rows whose trials are all the same.
  std::pair<TrialConfig, std::string> check_row(const JsonNode& tree, PlacementRows& rows, Problems& problems) const;
  struct Row {
    JsonNode tree;
    StartConfig start;  // with the file's hash, or without the trial, which depends on the seed
    std::vector<std::uint64_t> seeds;
  };
  void add_row(Row row) { swept_.push_back(std::move(row)); }
  /// Takes ownership of what the trees' placements refer to.
  void keep(JsonNode root, PlacementRows rows) {
    root_ = std::move(root);
    rows_ = std::move(rows);
  }

 private:
  bool apply(JsonNode& tree, std::size_t stage, std::size_t candidate, Problems& problems) const;
  /// The settings of a row's own trials, and of those of a stage.
  TrialConfig read_own(const JsonNode& tree, PlacementRows& rows, Problems& problems) const;
  TrialConfig read_tuning(JsonNode tree, const TuneStage& stage, PlacementRows& rows, Problems& problems) const;
  void check_slices(const TuneStage& stage, const DatasetConfig& own, const DatasetConfig& tuning,
                    Problems& problems) const;

  std::vector<TuneStage> stages_;
  std::shared_ptr<Sources> sources_;
  ClassCounts classes_;
  JsonNode root_;
  mutable PlacementRows rows_;  // reads rows on first use
  std::vector<Row> swept_;
};

}  // namespace normlab
