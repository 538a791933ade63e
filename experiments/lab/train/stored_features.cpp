#include "experiments/lab/train/stored_features.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/for_type.h"
#include "experiments/lab/data/eval_transform.h"
#include "experiments/lab/train/batches.h"
#include "experiments/lab/train/few_shot.h"
#include "nn/model/freeze.h"
#include "nn/model/text_tower.h"
#include "nn/training/engine.h"
#include "nn/training/nonfinite.h"

namespace normlab {
namespace {

/// The width of the head's inputs if nothing but the head is trained, otherwise 0.
std::int64_t head_width(const TrialConfig& config) {
  if (config.train.freeze.empty() || task_of(config.model) == Task::segment) return 0;
  ParameterSet set;
  make_model(set, config.model);
  const std::vector<bool> frozen = frozen_by(config.train.freeze, set.parameters());
  std::int64_t width = has_text(config.model) ? std::get<ViTConfig>(config.model).feature_width() : 0;
  for (std::size_t p = 0; p < frozen.size(); ++p) {
    const ParameterInfo& parameter = set.parameters()[p];
    if (parameter.place.stage == kTextStage) continue;  // takes the place of the head
    if (!frozen[p] && parameter.role != Role::head) return 0;
    if (parameter.role == Role::head_dist) return 0;
    if (parameter.role == Role::head && parameter.shape.rank() == 2) width = parameter.shape.back();
  }
  return width;
}

/// The first setting that gives an image other pixels in another epoch.
std::string_view changes_images(const AugmentConfig& c) {
  const ColorJitterConfig& jitter = c.color_jitter;
  const std::vector<std::string_view> policies = policies_of(c);
  const std::pair<bool, std::string_view> changes[] = {
      {c.crop_padding > 0, "crop_padding"},
      {c.crop == CropName::inception_tensorflow || c.crop == CropName::inception_torchvision, "crop"},
      {c.crop != CropName::none && c.resize == ResizeMethod::random, "resize"},
      {c.flip, "flip"},
      {!policies.empty(), policies.empty() ? "" : policies.front()},
      {jitter != ColorJitterConfig{}, "color_jitter"},
      {c.erasing.dialect != ErasingDialect::none, "erasing"},
      {mixes(c.mix), "mix"}};
  for (const auto& [on, name] : changes)
    if (on) return name;
  return {};
}

std::string obstacle_of(const TrialConfig& config, const SliceSizes& sizes, double bytes) {
  if (const std::string_view setting = changes_images(config.train.augment); !setting.empty())
    return fmt::format("train.augment.{} changes the images", setting);
  if (config.train.ema.decay > 0 && uses_batch_norm(config.model))
    return "train.ema averages the statistics of batch norms";
  for (const FormulaAt& at : formulas_of(config.model))
    if (at.function->tree.reads(kProgress)) return fmt::format("the formula of {} reads {}", at.name, kProgress);
  if (bytes > kMostFeatureBytes)
    return fmt::format("all together they would take {:.1f} GB, more than {:g} GB", bytes * 1e-9,
                       kMostFeatureBytes * 1e-9);
  if (sizes.train) {
    const StepCount steps = count_steps(config.train, *sizes.train);
    if (steps.total <= steps.per_epoch) return "there is but one epoch";
  }
  return "";
}

}  // namespace

std::string FeaturePlan::words() const {
  if (width == 0) return "";
  if (!obstacle.empty()) return "the head's inputs are computed in every epoch: " + obstacle;
  const std::string size = images > 0 ? fmt::format(": {:.0f} images, {:.1f} MB", images, bytes * 1e-6) : "";
  return "the head's inputs are computed once" + size;
}

FeaturePlan feature_plan(const TrialConfig& config, const SliceSizes& sizes) {
  FeaturePlan plan{.width = head_width(config)};
  if (plan.width == 0) return plan;
  if (sizes.train && sizes.eval && sizes.minival)
    plan.images =
        double(*sizes.train + *sizes.eval + *sizes.minival + std::min(config.eval.train_images, *sizes.train));
  plan.bytes = plan.images * double(plan.width) * double(size_of(dtype_of(config.train.precision)));
  plan.obstacle = obstacle_of(config, sizes, plan.bytes);
  return plan;
}

StoredFeatures::StoredFeatures(std::int64_t images, std::int64_t width, DType dtype)
    : memory_(static_cast<std::size_t>(images * width) * size_of(dtype)),
      all_(memory_.data(), {images, width}, dtype) {}

void StoredFeatures::put(std::int64_t first, const std::vector<double>& values) {
  const Tensor rows = all_.slice(first, std::int64_t(values.size()) / all_.shape().back());
  for_type("features", rows.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    std::transform(values.begin(), values.end(), rows.data<T>(), [](double value) { return T(value); });
  });
}

std::shared_ptr<const StoredFeatures> store_features(Engine& engine, BatchSource& batches, FeatureSlice slice,
                                                     const ImageSet& images, std::int64_t part, ShardPool& pool,
                                                     const std::function<bool()>& stopped) {
  const std::int64_t n = images.size();
  const bool training = slice == FeatureSlice::training;
  const std::int64_t at_once = std::min(n, training ? part : kEvaluatedAtOnce);
  std::shared_ptr<StoredFeatures> stored;
  std::vector<double> some;
  for (std::int64_t next = 0; next < n; next += at_once) {
    if (stopped()) return nullptr;
    // The last training images join some that are known, since a step has no smaller batch.
    const std::int64_t first = training ? std::min(next, n - at_once) : next, count = std::min(at_once, n - first);
    engine.features((training ? batches.unshuffled(first, count, pool) : batches.evaluation(first, count, pool)).images,
                    some);
    const std::int64_t width = std::int64_t(some.size()) / count;
    require_finite(some, std::size_t(width), [&](std::int64_t row) { return numbered_image(images, first + row); });
    if (!stored) stored = std::make_shared<StoredFeatures>(n, width, engine.dtype());
    stored->put(first, some);
  }
  return stored;
}

}  // namespace normlab
