// The training losses that a result reports.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "experiments/results/trial_result.h"

namespace normlab {

/// Collects the losses of the steps, each measured before the step's update. A checkpoint stores `first`, `sum` and
/// `count`; `mean` follows from the last metrics line.
struct TrainingLoss {
  std::optional<double> first;  // of step 0; none if it was not finite, or unknown to an older checkpoint
  double sum = 0.0;             // over the steps since the last metrics line
  std::int64_t count = 0;
  std::optional<double> mean;  // of the last metrics line

  /// Takes the finite loss of step `step`, counted from 0.
  void add(std::int64_t step, double loss) {
    if (step == 0) first = loss;
    sum += loss;
    ++count;
  }

  /// Adds the mean since the last call to a metrics line, as kTrainLoss.
  void write(std::map<std::string, double>& line) {
    if (count > 0) mean = line[kTrainLoss] = sum / double(count);
    sum = 0.0;
    count = 0;
  }

  /// Takes the mean from the last metrics line of a training that has ended.
  void read(const std::map<std::string, double>& line) {
    if (const auto found = line.find(kTrainLoss); found != line.end()) mean = found->second;
  }
};

}  // namespace normlab
