// A network measured on a slice of images, and what is said where that gives no numbers.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "experiments/data/dataset.h"
#include "experiments/statistics/correctness.h"
#include "experiments/train/batches.h"

namespace normlab {

class Engine;

/// Evaluates all of `images`, the evaluation slice of `batches`, and gives PREFIXaccuracy, a share, and PREFIXloss, the
/// mean. `right`, where given, is replaced by which images are right. The same for any number of threads.
/// NonFiniteError names the first image whose logits or loss are not finite; there is no accuracy then.
std::map<std::string, double> evaluate_slice(Engine& engine, BatchSource& batches, const ImageSet& images,
                                             ShardPool& pool, const std::string& prefix, Correctness* right = nullptr);

/// NonFiniteError names the first tensor of a checkpoint of `engine` that is not finite: a network may answer in finite
/// numbers all the same, as tanh of infinity is 1.
void require_finite_state(Engine& engine);

/// What a training measures of itself: the evaluation slice and the minival, each with the weights and their average.
class TrialEvaluation {
 public:
  /// All must outlive it; `batches` are those of the training.
  TrialEvaluation(const TrialConfig& config, const DataPair& data, Engine& engine, BatchSource& batches,
                  ShardPool& pool);
  /// NonFiniteError where a number of it, or of the state that it was measured in, is not finite; what is left of it is
  /// then no result.
  void measure();
  /// Of the last measurement: "eval/accuracy", "minival/ema_loss" and the like.
  const std::map<std::string, double>& metrics() const { return metrics_; }
  /// Which images of the evaluation slice the weights got right.
  const Correctness& right() const { return right_; }

 private:
  void measure_as(const std::string& prefix, Correctness* right);
  const DataPair& data_;
  Engine& engine_;
  BatchSource& batches_;
  ShardPool& pool_;
  std::optional<BatchSource> minival_batches_;
  std::map<std::string, double> metrics_;
  Correctness right_;
};

}  // namespace normlab
