#include "experiments/lab/train/evaluation.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/backend.h"
#include "core/nonfinite.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/data/picked_images.h"
#include "experiments/lab/descriptor/metric_names.h"
#include "experiments/lab/train/checkpoint.h"
#include "experiments/lab/train/tasks.h"
#include "experiments/lab/train/trial.h"
#include "experiments/lab/weights/convert.h"
#include "experiments/lab/weights/convert_files.h"
#include "nn/training/engine.h"
#include "nn/training/nonfinite.h"

namespace normlab {

namespace {
constexpr const char* kTrain = "train/";
}  // namespace

std::map<std::string, double> evaluate_slice(Engine& engine, BatchSource& batches, const ImageSet& images,
                                             ShardPool& pool, const std::string& prefix, Correctness* right,
                                             EvaluatedSlice* facts) {
  return training_of(task_of(engine.config())).evaluate({engine, batches, images, pool, prefix, right, facts});
}

void require_finite_state(Engine& engine) {
  if (engine.state_is_finite()) return;
  engine.optimizer().gather_moments();
  NonFiniteWeight first;
  if (engine.group().root())
    for_each_state_tensor(engine, [&](const std::string& name, const Tensor& t) {
      if (!first.tensor.empty()) return;
      if (const auto found = first_nonfinite(t)) first = {name, found->index, found->value};
    });
  const std::string text = engine.group().shared_text(first.tensor.empty() ? "" : first.text());
  if (!text.empty()) throw NonFiniteError(text, engine.group().shared(first.value));
}

TrialEvaluation::TrialEvaluation(const TrialConfig& config, const DataPair& data, Engine& engine, BatchSource& batches,
                                 ShardPool& pool)
    : config_(config), data_(data), engine_(engine), batches_(batches), pool_(pool) {
  if (data.minival) others_.emplace_back("minival/", config, data.train, *data.minival, engine.dtype());
  if (config.eval.train_images > 0) {
    some_of_train_ = picked_images(data.train, evenly_spaced(data.train.size(), config.eval.train_images));
    others_.emplace_back(kTrain, config, data.train, some_of_train_, engine.dtype());
  }
  const auto read = [&engine](std::int64_t images, bool training) { return engine.images_read(images, training); };
  batches.make_only(read);
  for (Other& other : others_) other.batches.make_only(read);
  if (!config.eval.fewshot.shots.empty()) few_shot_.emplace(config, data, engine.dtype());
}

bool TrialEvaluation::store_features(const TrialOptions& options, const std::function<void(const std::string&)>& log) {
  const TrainConfig& train = config_.train;
  FeaturePlan plan =
      feature_plan(config_, {data_.train.size(), data_.eval.size(), data_.minival ? data_.minival->size() : 0});
  if (plan.width == 0) return true;
  const std::int64_t part = std::max<std::int64_t>(1, train.batch_size / train.accumulate);
  const bool equal_parts =
      train.batch_size % part == 0 && (train.drop_last || data_.train.size() % train.batch_size == 0);
  if (plan.once() && !options.probes.empty()) plan.obstacle = "the descriptor probes the network";
  if (plan.once() && options.backend->whole_batch() && !equal_parts)
    plan.obstacle = "on a GPU the smaller last batch may round otherwise";
  if (plan.once()) try {
      using Part = FeatureSlice;
      const auto store = [&](BatchSource& batches, Part slice, const ImageSet& images) {
        return normlab::store_features(engine_, batches, slice, images, part, pool_, [&] {
          return engine_.group().shared(options.stop != nullptr && options.stop->load());
        });
      };
      const auto of_train = store(batches_, Part::training, data_.train);
      const auto of_eval = of_train ? store(batches_, Part::evaluation, data_.eval) : nullptr;
      if (!of_eval) return false;
      for (Other& other : others_) {
        const auto features = store(other.batches, Part::evaluation, other.images);
        if (!features) return false;
        other.batches.use_features(nullptr, features);
      }
      batches_.use_features(of_train, of_eval);
    } catch (const NonFiniteError& error) {  // a step will say where it comes from
      plan.obstacle = error.what();
    }
  log(plan.words());
  return true;
}

void TrialEvaluation::measure() {
  metrics_.clear();
  measure_as("");
  if (engine_.average() != nullptr) {
    const WeightAverage::InUse in_use(*engine_.average());
    measure_as("ema_");
  }
  require_finite_state(engine_);
}

std::map<std::string, double> TrialEvaluation::without_each_block(const std::function<void(const std::string&)>& log) {
  std::map<std::string, double> metrics;
  for (std::int64_t block = 0; block < block_count(config_.model); ++block) {
    engine_.leave_out_block(block);
    try {
      for (const auto& [name, value] : evaluate_slice(engine_, batches_, data_.eval, pool_, ""))
        if (requested_by(name) != EvalMetric::per_class)
          metrics[fmt::format("without_block.{}/{}", name, block)] = value;
    } catch (const NonFiniteError& error) {
      log(fmt::format("without block {}: {}", block, error.what()));
    }
  }
  engine_.leave_out_block({});
  return metrics;
}

void TrialEvaluation::measure_as(const std::string& prefix) {
  Correctness* const right = prefix.empty() ? &right_ : nullptr;  // of the weights alone
  metrics_.merge(evaluate_slice(engine_, batches_, data_.eval, pool_, "eval/" + prefix, right, &slices_["eval"]));
  for (Other& other : others_) {
    EvaluatedSlice& facts = slices_[other.prefix.substr(0, other.prefix.size() - 1)];
    auto found = evaluate_slice(engine_, other.batches, other.images, pool_, other.prefix + prefix, nullptr, &facts);
    if (other.prefix == kTrain) {  // train/loss is that of the steps
      found.erase(concat(kTrain, prefix, "loss"));
      facts.guess.erase("loss");
    }
    metrics_.merge(found);
  }
  if (few_shot_) metrics_.merge(few_shot_->measure(engine_, batches_, pool_, "eval/" + prefix));
}

std::map<std::string, double> evaluate_again(const TrialConfig& config, const WeightFile& file, const DataPair& data,
                                             int threads, Backend& backend, EvaluatedSlice* eval) {
  TrialConfig trial = config;
  trial.train.ema = {};         // averaged weights are evaluated as weights
  trial.eval.train_images = 0;  // a sign of progress, no result
  const bool same = found_or(file.metadata, "normlab.bits") ==
                    bits_identity(backend, config.train.precision, 1, formula_compiler_of(backend, config.model));
  backend.choose_products(same ? found_or(file.metadata, "normlab.products") : "");
  ShardPool pool(threads);
  Engine engine(backend, pool, trial.model, engine_settings(trial));
  BatchSource batches(trial, data.train, data.eval, engine.dtype());
  TrialEvaluation evaluation(trial, data, engine, batches, pool);
  engine.state().progress = stated_progress(file);
  const auto measure = [&](const Tensors& tensors, const std::string& prefix) {
    ConversionReport report;
    import_weights(tensors, NameScheme::normlab, config.model, {}, engine.parameters(), report);
    evaluation.measure_as(prefix);
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
  if (eval != nullptr) *eval = evaluation.slices().at("eval");
  return evaluation.metrics();
}

}  // namespace normlab
