#include "experiments/lab/train/evaluate_again.h"

#include <algorithm>

#include "core/backend.h"
#include "experiments/lab/train/checkpoint.h"
#include "experiments/lab/train/evaluation.h"
#include "experiments/lab/train/trial.h"
#include "experiments/lab/weights/convert.h"
#include "nn/training/engine.h"

namespace normlab {

std::map<std::string, double> evaluate_again(const TrialConfig& config, const WeightFile& file, const DataPair& data,
                                             int threads, Backend& backend, EvaluatedSlice* eval) {
  EngineSettings settings = engine_settings(config);
  settings.ema = {};  // averaged weights are evaluated as weights
  const auto metadata = [&](const char* key) {
    const auto found = file.metadata.find(key);
    return found == file.metadata.end() ? std::string() : found->second;
  };
  const bool same = metadata("normlab.bits") == bits_identity(backend, config.train.precision);
  backend.choose_products(same ? metadata("normlab.products") : "");
  ShardPool pool(threads);
  Engine engine(backend, pool, config.model, settings);
  BatchSource batches(config, data.train, data.eval, engine.dtype());
  std::optional<BatchSource> minival_batches;
  if (data.minival) minival_batches.emplace(config, data.train, *data.minival, engine.dtype());
  std::optional<FewShotEvaluation> few_shot;
  if (!config.eval.fewshot.shots.empty()) few_shot.emplace(config, data, engine.dtype());
  std::map<std::string, double> metrics;
  const auto measure = [&](const Tensors& tensors, const std::string& prefix) {
    ConversionReport report;
    import_weights(tensors, NameScheme::normlab, config.model, {}, engine.parameters(), report);
    metrics.merge(evaluate_slice(engine, batches, data.eval, pool, "eval/" + prefix, nullptr, eval));
    if (minival_batches)
      metrics.merge(evaluate_slice(engine, *minival_batches, *data.minival, pool, "minival/" + prefix));
    if (few_shot) metrics.merge(few_shot->measure(engine, batches, pool, "eval/" + prefix));
    require_finite_state(engine);
  };
  measure(file.tensors, "");
  const bool averaged = std::any_of(file.tensors.begin(), file.tensors.end(),
                                    [](const HostTensor& tensor) { return tensor.name.starts_with(kAveragePrefix); });
  if (averaged) {
    WeightFile average = file;
    take_average(average, file.tensors.source());
    measure(average.tensors, "ema_");
  }
  return metrics;
}

}  // namespace normlab
