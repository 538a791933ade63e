// Few-shot evaluation of a network: features, then ridge regression.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "experiments/lab/metrics/few_shot.h"
#include "experiments/lab/train/batches.h"

namespace normlab {

class Engine;

/// NonFiniteError for the first value of rows of features that is not finite, with the name of its row.
void require_finite(const std::vector<double>& features, std::size_t width,
                    FunctionRef<std::string(std::int64_t row)> name);

/// The inputs of the head for the evaluation images of `batches`. NonFiniteError names the first image with a value
/// that is not finite.
Features features_of(Engine& engine, BatchSource& batches, const ImageSet& images, ShardPool& pool);

/// InputError if a class has fewer training images than a number of shots, so that the number would be wrong. Without
/// images a class is left out, which only dataset.allow_absent_classes allows. `setting` names the shots in the error.
void require_shots(const TrialConfig& config, const ImageSet& train, std::string_view setting);

class FewShotEvaluation {
 public:
  FewShotEvaluation(const TrialConfig& config, const DataPair& data, DType dtype);
  /// `eval`: batches of the evaluation slice. The mean accuracy over the seeds by number of shots:
  /// "PREFIX5shot_accuracy"; and on request "PREFIX5shot_accuracy_half_width", of its 95% t
  /// interval over several seeds.
  std::map<std::string, double> measure(Engine& engine, BatchSource& eval, ShardPool& pool, const std::string& prefix);
  /// The accuracy for each number of shots and each seed, in the order of the settings.
  std::vector<std::vector<double>> accuracies(Engine& engine, BatchSource& eval, ShardPool& pool);

 private:
  const TrialConfig& config_;
  const DataPair& data_;
  std::vector<std::size_t> chosen_;  // training images that any seed uses, ascending
  ImageSet images_;                  // these
  BatchSource batches_;
};

}  // namespace normlab
