#include "experiments/train/batches.h"

#include <fmt/format.h>

#include <cmath>

namespace normlab {

StepCount count_steps(const TrainConfig& train, std::int64_t images) {
  StepCount steps;
  steps.per_epoch = train.drop_last ? images / train.batch_size : (images + train.batch_size - 1) / train.batch_size;
  if (steps.per_epoch < 1)
    throw InputError(fmt::format(
        "train.batch_size: {} is more than the {} training images; lower it, or set train.drop_last to false",
        train.batch_size, images));
  const double per_epoch = double(steps.per_epoch);
  steps.total = train.images > 0  ? std::llround(double(train.images) / double(train.batch_size))
                : train.steps > 0 ? train.steps
                                  : std::llround(train.epochs * per_epoch);
  steps.warmup = train.schedule.warmup_steps > 0 ? train.schedule.warmup_steps
                                                 : std::llround(train.schedule.warmup_epochs * per_epoch);
  if (steps.total < 1)
    throw InputError(fmt::format("the training is no step long: train.epochs {}, {} steps an epoch; train.images {}",
                                 train.epochs, steps.per_epoch, train.images));
  if (train.eval_every_epochs > 0)
    steps.eval_every = std::max<std::int64_t>(1, std::llround(train.eval_every_epochs * per_epoch));
  return steps;
}

BatchSource::BatchSource(const TrialConfig& config, const ImageSet& train, const ImageSet& eval, DType dtype)
    : config_(config),
      train_(train),
      eval_(eval),
      steps_(count_steps(config.train, train.size())),
      dtype_(dtype),
      augment_keys_(augment_keys(train, config.seed)),
      table_(train.channel_mean, train.channel_std),
      table_double_(train.channel_mean, train.channel_std) {}

BatchSource::Batch BatchSource::batch_of(const ImageSet& set, std::int64_t count) {
  const Shape shape{count, set.height, set.width, set.channels};
  const std::size_t bytes = static_cast<std::size_t>(shape.size()) * size_of(dtype_);
  if (pixels_.size() < bytes) pixels_.resize(bytes);
  if (static_cast<std::int64_t>(labels_.size()) < count) labels_.resize(static_cast<std::size_t>(count));
  return {Tensor(pixels_.data(), shape, dtype_), Tensor(labels_.data(), {count}, DType::i32)};
}

template <class T>
void BatchSource::fill(const Batch& batch, const ImageSet& set, bool augmented, std::int64_t epoch, ShardPool& pool) {
  const std::int64_t count = batch.images.shape()[0], values = set.image_bytes();
  constexpr std::int64_t kImages = 16;  // a piece of work that is worth handing out
  pool.for_blocks((count + kImages - 1) / kImages, [&](std::int64_t block) {
    std::vector<Acc<T>> wide(std::is_same_v<T, Acc<T>> ? 0 : static_cast<std::size_t>(values));
    for (std::int64_t i = block * kImages; i < std::min(count, (block + 1) * kImages); ++i) {
      const std::int64_t index = chosen_[static_cast<std::size_t>(i)];
      batch.labels.data<std::int32_t>()[i] = set.labels[static_cast<std::size_t>(index)];
      T* out = batch.images.data<T>() + i * values;
      const auto make = [&](const auto& table, auto* to) {
        if (augmented)
          make_image(set, index, config_.train.augment, augment_keys_[static_cast<std::size_t>(index)], epoch, table,
                     to);
        else
          make_image(set, index, table, to);
      };
      if constexpr (std::is_same_v<T, double>) {
        make(table_double_, out);
      } else if constexpr (std::is_same_v<T, float>) {
        make(table_, out);
      } else {
        make(table_, wide.data());
        for (std::int64_t v = 0; v < values; ++v) out[v] = T(wide[static_cast<std::size_t>(v)]);
      }
    }
  });
}

BatchSource::Batch BatchSource::training(std::int64_t step, ShardPool& pool) {
  const std::int64_t epoch = step / steps_.per_epoch, first = step % steps_.per_epoch * config_.train.batch_size;
  if (epoch != order_epoch_) {
    order_ = permutation(stream_key(config_.seed, "order", "train"), train_.size(), static_cast<std::uint64_t>(epoch));
    order_epoch_ = epoch;
  }
  const std::int64_t count = std::min(config_.train.batch_size, train_.size() - first);
  chosen_.assign(order_.begin() + first, order_.begin() + first + count);
  const Batch batch = batch_of(train_, count);
  if (dtype_ == DType::f32) fill<float>(batch, train_, true, epoch, pool);
  if (dtype_ == DType::f64) fill<double>(batch, train_, true, epoch, pool);
  if (dtype_ == DType::bf16) fill<bf16>(batch, train_, true, epoch, pool);
  return batch;
}

BatchSource::Batch BatchSource::evaluation(std::int64_t first, std::int64_t count, ShardPool& pool) {
  chosen_.resize(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) chosen_[static_cast<std::size_t>(i)] = first + i;
  const Batch batch = batch_of(eval_, count);
  if (dtype_ == DType::f32) fill<float>(batch, eval_, false, 0, pool);
  if (dtype_ == DType::f64) fill<double>(batch, eval_, false, 0, pool);
  if (dtype_ == DType::bf16) fill<bf16>(batch, eval_, false, 0, pool);
  return batch;
}

}  // namespace normlab
