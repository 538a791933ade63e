// The training losses that a result reports.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

namespace normlab {

/// Collects the losses of the steps, each measured before the step's update. A checkpoint stores all of it.
struct TrainingLoss {
  static constexpr std::int64_t kWindow = 50;  // steps

  std::optional<double> first;  // of step 0; none if it was not finite, or unknown to an older checkpoint
  std::deque<double> last{};    // of the last kWindow steps, or of all, oldest first

  /// Takes the finite loss of step `step`, counted from 0.
  void add(std::int64_t step, double loss) {
    if (step == 0) first = loss;
    last.push_back(loss);
    if (std::ssize(last) > kWindow) last.pop_front();
  }

  /// Whether the losses of that many steps are there; they are not after a resume from an older version's checkpoint.
  bool complete(std::int64_t steps) const { return std::ssize(last) == std::min(steps, kWindow); }

  /// kTrainLoss: the mean of `last`, added in the order of the steps. None before the first step.
  std::optional<double> mean() const {
    if (last.empty()) return std::nullopt;
    double sum = 0.0;
    for (const double loss : last) sum += loss;
    return sum / double(last.size());
  }
};

}  // namespace normlab
