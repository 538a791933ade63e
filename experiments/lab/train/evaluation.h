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
struct WeightFile;

/// Evaluates all `images`, the evaluation slice of `batches`, for the network's task. Returns the task's metrics
/// (TaskRules): PREFIXaccuracy, a share, and PREFIXloss, the mean. `right`, if given, receives which images are
/// answered correctly, and `facts` what else a reader needs. Results do not depend on the number of threads.
/// NonFiniteError names the first image whose outputs or loss are not finite; there are no metrics then.
std::map<std::string, double> evaluate_slice(Engine& engine, BatchSource& batches, const ImageSet& images,
                                             ShardPool& pool, const std::string& prefix, Correctness* right = nullptr,
                                             EvaluatedSlice* facts = nullptr);

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
  /// The same of the weights that the network has, with this prefix, such as "ema_", added to measurements of others.
  void measure_as(const std::string& prefix);
  /// The metrics of the evaluation slice without one of the blocks, which passes its input on unchanged, for each block:
  /// "without_block.loss/3". A block without which they are not finite is left out and logged.
  std::map<std::string, double> without_each_block(const std::function<void(const std::string&)>& log);
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
    Other(std::string name, const TrialConfig& config, const ImageSet& train, const ImageSet& slice, DType dtype)
        : prefix(std::move(name)), images(slice), batches(config, train, slice, dtype) {}
  };
  ImageSet some_of_train_;
  std::list<Other> others_;
  std::optional<FewShotEvaluation> few_shot_;
  std::map<std::string, double> metrics_;
  EvaluatedSlices slices_;
  Correctness right_;
};

/// Evaluates `file`, which has normlab's names, as in the training of `config`: same slices, transform and precision,
/// and also its averaged weights, if any. Returns "eval/accuracy", "minival/ema_loss" and so on, with the same bits
/// as that training under the same binary; `eval` receives the evaluation slice. InputError for tensors of another
/// network than config.model; NonFiniteError as evaluate_slice().
std::map<std::string, double> evaluate_again(const TrialConfig& config, const WeightFile& file, const DataPair& data,
                                             int threads, Backend& backend, EvaluatedSlice* eval = nullptr);

}  // namespace normlab
