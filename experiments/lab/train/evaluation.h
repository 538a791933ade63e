// Evaluates a network on a slice of images, and reports results that are not finite.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "experiments/lab/data/dataset.h"
#include "experiments/lab/metrics/correctness.h"
#include "experiments/lab/train/batches.h"
#include "experiments/lab/train/few_shot.h"
#include "experiments/lab/trials/trial_result.h"

namespace normlab {

class Engine;
struct TrialOptions;

/// Evaluates all `images`, the evaluation slice of `batches`, for the network's task. Returns the task's metrics
/// (TaskRules): PREFIXaccuracy, a share, and PREFIXloss, the mean. `right`, if given, receives which images are
/// answered correctly, and `facts` what else a reader needs. Results do not depend on the number of threads.
/// NonFiniteError names the first image whose outputs or loss are not finite; there are no metrics then.
std::map<std::string, double> evaluate_slice(Engine& engine, BatchSource& batches, const ImageSet& images,
                                             ShardPool& pool, const std::string& prefix, Correctness* right = nullptr,
                                             EvaluatedSlice* facts = nullptr);

/// The metrics of a trained network without one of its blocks, which passes its input on unchanged, for each block:
/// "without_block.loss/3". A block without which they are not finite is left out and logged.
std::map<std::string, double> evaluate_without_each_block(const TrialConfig& config, const ImageSet& images,
                                                          Engine& engine, BatchSource& batches, ShardPool& pool,
                                                          const std::function<void(const std::string&)>& log);

/// NonFiniteError names the first tensor of the engine's state that is not finite. Such a network may still give finite
/// outputs, since tanh of infinity is 1.
void require_finite_state(Engine& engine);

/// The evaluations of a training: the evaluation slice, the minival and some training images, each with the weights and
/// with their average.
class TrialEvaluation {
 public:
  /// All arguments must outlive it; `batches` are those of the training.
  TrialEvaluation(const TrialConfig& config, const DataPair& data, Engine& engine, BatchSource& batches,
                  ShardPool& pool);
  /// NonFiniteError if a result, or the state it was measured in, is not finite; metrics() is then invalid.
  void measure();
  /// If feature_plan() says so, replaces the images of all batches by features, computed with the current weights.
  /// False if options.stop was set meanwhile. `log` gets what is done, or why not.
  bool store_features(const TrialOptions& options, const std::function<void(const std::string&)>& log);
  /// The last measurement: "eval/accuracy", "minival/ema_loss" and so on.
  const std::map<std::string, double>& metrics() const { return metrics_; }
  /// The slices of the last measurement.
  const EvaluatedSlices& slices() const { return slices_; }
  /// Which images of the evaluation slice the weights classify correctly.
  const Correctness& right() const { return right_; }

 private:
  void measure_as(const std::string& prefix, Correctness* right);
  const TrialConfig& config_;
  const DataPair& data_;
  Engine& engine_;
  BatchSource& batches_;
  ShardPool& pool_;
  /// A slice besides the evaluation slice.
  struct Other {
    std::string prefix;
    const ImageSet& images;
    BatchSource batches;
    Other(std::string of, const TrialConfig& config, const ImageSet& train, const ImageSet& slice, DType dtype)
        : prefix(std::move(of)), images(slice), batches(config, train, slice, dtype) {}
  };
  ImageSet of_train_;
  std::list<Other> others_;
  std::optional<FewShotEvaluation> few_shot_;
  std::map<std::string, double> metrics_;
  EvaluatedSlices slices_;
  Correctness right_;
};

}  // namespace normlab
