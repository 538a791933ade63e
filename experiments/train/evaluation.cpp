#include "experiments/train/evaluation.h"

#include "core/nonfinite.h"
#include "experiments/train/checkpoint.h"
#include "experiments/train/tasks.h"
#include "nn/engine.h"
#include "nn/nonfinite.h"

namespace normlab {

std::map<std::string, double> evaluate_slice(Engine& engine, BatchSource& batches, const ImageSet& images,
                                             ShardPool& pool, const std::string& prefix, Correctness* right) {
  return training_of(task_of(engine.config())).evaluate({engine, batches, images, pool, prefix, right});
}

void require_finite_state(Engine& engine) {
  if (engine.state_is_finite()) return;
  for_each_state_tensor(engine, [](const std::string& name, const Tensor& t) {
    if (const auto found = first_nonfinite(t))
      throw NonFiniteError(NonFiniteWeight{name, found->index, found->value}.text(), found->value);
  });
}

TrialEvaluation::TrialEvaluation(const TrialConfig& config, const DataPair& data, Engine& engine, BatchSource& batches,
                                 ShardPool& pool)
    : data_(data), engine_(engine), batches_(batches), pool_(pool) {
  if (data.minival) minival_batches_.emplace(config, data.train, *data.minival, engine.dtype());
  if (!config.eval.fewshot.shots.empty()) few_shot_.emplace(config, data, engine.dtype());
}

void TrialEvaluation::measure() {
  metrics_.clear();
  measure_as("", &right_);
  if (engine_.average() != nullptr) {
    const WeightAverage::InUse in_use(*engine_.average());
    measure_as("ema_", nullptr);
  }
  require_finite_state(engine_);
}

void TrialEvaluation::measure_as(const std::string& prefix, Correctness* right) {
  metrics_.merge(evaluate_slice(engine_, batches_, data_.eval, pool_, "eval/" + prefix, right));
  if (minival_batches_)
    metrics_.merge(evaluate_slice(engine_, *minival_batches_, *data_.minival, pool_, "minival/" + prefix));
  if (few_shot_) metrics_.merge(few_shot_->measure(engine_, batches_, pool_, "eval/" + prefix));
}

}  // namespace normlab
