// One trial on disk as a cell of a table.
#pragma once

#include <set>
#include <string>

#include "core/error.h"
#include "experiments/results/store.h"
#include "experiments/results/table_model.h"
#include "nn/model_config.h"

namespace normlab {

/// Of a trial that was begun and ended without a result: stopped.
SeedState state_of(const TrialStatus& status);

/// The state of a trial. InputError where its result cannot be read, contradicts its files or is of another seed.
TrialStatus agreed_status(const TrialFolder& folder, std::uint64_t seed);

/// The cell of a trial that cannot be read, and why.
TableSeed unreadable(TableSeed seed, const Error& error);

/// Reads trials for one table and knows what it met.
class SeedReader {
 public:
  explicit SeedReader(const TableOptions& options) : options_(options) {}

  /// State, value and words of one trial. What is damaged gives SeedState::unreadable with the reason. Safe from
  /// several threads only with a reader each.
  TableSeed read(const TrialFolder& folder, std::uint64_t seed);

  /// InputError with a suggestion where trials are finished and none has the metric.
  void require_metric() const;

 private:
  const TableOptions& options_;
  std::set<std::string> known_;  // metrics that were met instead
  bool found_ = false;
};

/// What an accuracy is shown in, and everything else as it is.
void set_unit(TableInput& input, const std::string& metric);

/// Accuracy of a network that guesses: one over its classes.
double chance_accuracy(const ModelConfig& model);

/// Bits of the images that a done run gets right, where they were stored.
std::optional<Correctness> read_seed_correctness(const TrialFolder& folder, const TableSeed& seed);

}  // namespace normlab
