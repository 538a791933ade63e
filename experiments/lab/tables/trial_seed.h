// The table entry of one trial on disk.
#pragma once

#include <set>
#include <string>

#include "core/error.h"
#include "experiments/lab/descriptor/config.h"
#include "experiments/lab/tables/table_model.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

/// The seed's state; a trial that began and ended without a result is stopped.
SeedState state_of(const TrialStatus& status);

/// The status of a trial. InputError if its result cannot be read, contradicts its files or belongs to another seed.
TrialStatus agreed_status(const TrialFolder& folder, std::uint64_t seed);

/// The entry of a trial that cannot be read, with the reason.
TableSeed unreadable(TableSeed seed, const Error& error);

/// Reads the trials of one table and collects the metrics they have.
class SeedReader {
 public:
  explicit SeedReader(const TableOptions& options) : options_(options) {}

  /// State, value and texts of one trial. Damaged files give SeedState::unreadable with the reason. Not thread-safe:
  /// use one reader per thread.
  TableSeed read(const TrialFolder& folder, const TrialConfig& config);

  /// InputError with a suggestion if trials are finished and none has the metric.
  void require_metric() const;

 private:
  /// Images, guess and above_guessing of a done trial.
  void add_slice(TableSeed& cell, const TrialResult& result, const TrialConfig& config) const;
  const TableOptions& options_;
  std::set<std::string> known_;  // metrics found instead
  bool found_ = false;
};

/// Sets percent for accuracies, and no unit for other metrics.
void set_unit(TableInput& input, const std::string& metric);

/// What a network that chooses among the classes at random reaches on average in an accuracy of classification, a
/// balanced or a top-5 accuracy. None for other metrics, few-shot accuracies among them, whose classes may be others.
std::optional<double> chance_of(std::string_view metric, const ModelConfig& model);

/// What plan and explain count.
void set_cost(TableRow& row, const ModelConfig& model);

/// The slices of a done result. Of an older version, which did not record them: the evaluation slice of a data set that
/// is known to have as many images of each class and was evaluated whole; else none.
EvaluatedSlices slices_of(const TrialResult& result, const TrialConfig& config);

}  // namespace normlab
