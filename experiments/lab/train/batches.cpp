#include "experiments/lab/train/batches.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "core/backend.h"
#include "core/for_type.h"
#include "experiments/lab/data/sample_order.h"
#include "experiments/lab/data/tokeniser.h"
#include "experiments/lab/descriptor/step_count.h"
#include "experiments/lab/train/tasks.h"

namespace normlab {

namespace {

constexpr std::int64_t kImages = 16;  // smallest unit of work for a thread
template <class Work>
void for_images(std::int64_t count, ShardPool& pool, Work&& work) {
  pool.for_blocks((count + kImages - 1) / kImages,
                  [&](std::int64_t block) { work(block * kImages, std::min(count, (block + 1) * kImages)); });
}

void copy(const Tensor& from, const Tensor& to) { std::memcpy(to.raw(), from.raw(), from.bytes()); }

template <class T>
T* typed(std::vector<std::byte>& memory, std::int64_t values) {
  const std::size_t bytes = static_cast<std::size_t>(values) * sizeof(T);
  if (memory.size() < bytes) memory.resize(bytes);
  return reinterpret_cast<T*>(memory.data());
}

/// Calls make(to) with values in the type used for image computations, and rounds them into `out` if its type differs.
template <class T, class Make>
void make_rounded(std::vector<Acc<T>>& wide, std::int64_t values, T* out, Make&& make) {
  if constexpr (std::is_same_v<T, Acc<T>>) {
    make(out);
  } else {
    wide.resize(static_cast<std::size_t>(values));
    make(wide.data());
    for (std::int64_t v = 0; v < values; ++v) out[v] = T(wide[static_cast<std::size_t>(v)]);
  }
}

void require_classes(const TrialConfig& config, std::int64_t here, const std::string& folder) {
  const std::int64_t classes = num_classes(config.model);
  if (here == classes || (here < classes && config.dataset.allow_absent_classes)) return;
  const KnownDataset* known = find_dataset(config.dataset.name);
  const bool part = known != nullptr && known_classes(*known, config.dataset) == classes && here < classes;
  throw InputError(fmt::format(
      "model.num_classes: the dataset \"{}\"{} has {} classes, but the model has {}; {}{}", config.dataset.name,
      folder.empty() ? "" : " in " + folder, here, classes,
      part ? "give the part its own name with dataset.path and dataset.layout"
           : fmt::format("set \"model.num_classes\" to {}, or leave it out", here),
      here < classes ? ", or set \"dataset.allow_absent_classes\" to true to keep classes without images" : ""));
}

}  // namespace

void require_classes(const TrialConfig& config, const ImageSet& train) {
  require_classes(config, train.num_classes, train.folder);
}

void require_fitting(const TrialConfig& config, const FoundSlices& found) {
  if (found.classes > 0) require_classes(config, found.classes, found.folder);
  if (found.sizes.train) require_trainable(config, *found.sizes.train);
}

void require_vocabulary(const TrialConfig& config, const Tokeniser& tokeniser) {
  const std::int64_t rows = std::get<ViTConfig>(config.model).text.vocabulary, words = tokeniser.size();
  if (words > rows)
    throw InputError(
        fmt::format("model.text.vocabulary is {}, but the vocabulary, {}, has {} numbers with the end mark; "
                    "set it to {} or more",
                    rows, tokeniser.source(), words, words));
}

std::int64_t evaluated_at_once(const TrialConfig& config, const DataPair& data) {
  if (task_of(config.model) == Task::segment) return 0;
  return std::min(kEvaluatedAtOnce, std::max(data.eval.size(), data.minival ? data.minival->size() : 0));
}

BatchSource::BatchSource(const TrialConfig& config, const ImageSet& train, const ImageSet& eval, DType dtype)
    : config_(config),
      train_(train),
      eval_(eval),
      steps_(count_steps(config.train, train.size())),
      dtype_(dtype),
      size_(image_size(config.model)),
      transform_(config, train),
      eval_transform_(config.train.eval_transform, {size_[0], size_[1]}) {
  require_classes(config, train);
  if (has_text(config.model)) require_vocabulary(config, *train.tokeniser);
  if (train.masks) segment_transform_.emplace(config, train);
  if (!eval.masks && !eval.encoded && config.train.eval_transform.crop == EvalCrop::none &&
      (eval.height != size_[0] || eval.width != size_[1]))
    throw InputError(
        fmt::format("train.eval_transform.crop: the images are {}x{} pixels, but the model takes {}x{}; set it to "
                    "\"center\" or \"stretch\"",
                    eval.width, eval.height, size_[1], size_[0]));
}

BatchSource::Order BatchSource::order(std::int64_t epoch) const {
  const std::lock_guard lock(order_mutex_);
  auto& [known, found] = orders_[static_cast<std::size_t>(epoch % 2)];
  if (!found || known != epoch) {
    found =
        std::make_shared<const std::vector<std::int64_t>>(sample_order(config_.dataset, train_, config_.seed, epoch));
    known = epoch;
  }
  return found;
}

std::vector<BatchSample> BatchSource::samples(std::int64_t step) const {
  const std::int64_t first = step % steps_.per_epoch * config_.train.batch_size;
  const std::int64_t count = std::min(config_.train.batch_size, train_.size() - first);
  const std::int64_t repeats = config_.train.augment.repeats;
  const Order images = order(step / steps_.per_epoch);
  std::vector<BatchSample> samples;
  for (std::int64_t repeat = 0; repeat < repeats; ++repeat)
    for (std::int64_t i = first; i < first + count; ++i)
      if (i % repeats == repeat) samples.push_back({(*images)[static_cast<std::size_t>(i / repeats)], repeat});
  return samples;
}

BatchSource::Batch BatchSource::batch_of(std::int64_t count, BatchBuffer& buffer,
                                         const StoredFeatures* features) const {
  const Shape shape = features != nullptr ? Shape{count, features->all().shape().back()}
                                          : Shape{count, size_[0], size_[1], channels(config_.model)};
  const std::size_t bytes = static_cast<std::size_t>(shape.size()) * size_of(dtype_);
  if (buffer.images_bytes_ < bytes) {
    Device& device = buffer.device_ ? *buffer.device_ : cpu_backend();
    buffer.images_ = device.upload_buffer(bytes);
    buffer.images_bytes_ = bytes;
  }
  const Shape targets = row_of(task_of(config_.model)).targets(config_.model, count);
  if (std::ssize(buffer.labels_) < targets.size()) buffer.labels_.resize(static_cast<std::size_t>(targets.size()));
  return {Tensor(buffer.images_.get(), shape, dtype_), Tensor(buffer.labels_.data(), targets, DType::i32), Tensor()};
}

template <class ImageOf>
void BatchSource::write_targets(const ImageSet& set, const Batch& batch, ImageOf&& image_of) const {
  const std::int64_t count = batch.images.shape()[0], values = batch.labels.size() / count;
  const std::span all(batch.labels.data<std::int32_t>(), static_cast<std::size_t>(batch.labels.size()));
  for (std::int64_t i = 0; i < count; ++i)
    training_of(task_of(config_.model))
        .write_target(set, image_of(i),
                      all.subspan(static_cast<std::size_t>(i * values), static_cast<std::size_t>(values)));
}

template <class T>
void BatchSource::fill_training(std::int64_t step, Batch& batch, BatchBuffer& buffer, ShardPool& pool,
                                const std::vector<bool>& wanted) const {
  using A = Acc<T>;
  const std::int64_t count = batch.images.shape()[0], values = batch.images.shape().size() / count;
  const std::int64_t epoch = step / steps_.per_epoch;
  const auto make = [&](std::int64_t i, TransformScratch& scratch, A* out) {
    const BatchSample& sample = buffer.samples_[static_cast<std::size_t>(i)];
    if (!segment_transform_) return transform_(sample.image, epoch, sample.repeat, scratch, out);
    const std::int64_t pixels = batch.labels.size() / count;
    (*segment_transform_)(sample.image, epoch, sample.repeat, scratch, out,
                          batch.labels.data<std::int32_t>() + i * pixels);
  };
  T* images = batch.images.data<T>();
  const MixConfig& mix = config_.train.augment.mix;
  if (!mixes(mix)) {
    for_images(count, pool, [&](std::int64_t first, std::int64_t end) {
      const ScratchPool::Lease scratch(scratch_);
      std::vector<A> wide;
      for (std::int64_t i = first; i < end; ++i)
        if (wanted[static_cast<std::size_t>(i)])
          make_rounded(wide, values, images + i * values, [&](A* out) { make(i, *scratch, out); });
    });
    return;
  }
  A* unmixed = typed<A>(buffer.unmixed_, count * values);
  const std::vector<Mixing> mixings = draw_mixing(mix, count, size_[0], size_[1], config_.seed, step, epoch);
  std::vector<bool> mixed_in = wanted;
  for (std::int64_t i = 0; i < count; ++i)
    if (wanted[static_cast<std::size_t>(i)])
      mixed_in[static_cast<std::size_t>(mixings[static_cast<std::size_t>(i)].partner)] = true;
  for_images(count, pool, [&](std::int64_t first, std::int64_t end) {
    const ScratchPool::Lease scratch(scratch_);
    for (std::int64_t i = first; i < end; ++i)
      if (mixed_in[static_cast<std::size_t>(i)]) make(i, *scratch, unmixed + i * values);
  });
  for_images(count, pool, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t i = first; i < end; ++i) {
      if (!wanted[static_cast<std::size_t>(i)]) continue;
      const Mixing& mixing = mixings[static_cast<std::size_t>(i)];
      mix_image(mixing, unmixed + i * values, unmixed + mixing.partner * values, size_[0], size_[1],
                channels(config_.model), images + i * values);
    }
  });
  const std::int64_t classes = num_classes(config_.model);
  A* targets = typed<A>(buffer.targets_, count * classes);
  mix_targets(mixings, std::span(batch.labels.data<std::int32_t>(), static_cast<std::size_t>(count)), classes,
              config_.train.label_smoothing, config_.train.smoothing, targets);
  batch.targets = Tensor(targets, {count, classes}, Storage<A>::dtype);
}

BatchSource::Batch BatchSource::training(std::int64_t step, BatchBuffer& buffer, ShardPool& pool) const {
  buffer.samples_ = samples(step);
  return of_samples(step, buffer, pool, wanted(std::ssize(buffer.samples_), true));
}

std::vector<bool> BatchSource::wanted(std::int64_t images, bool training) const {
  const bool all = !wanted_ || (training && segment_transform_);  // whose images and targets are made together
  return all ? std::vector<bool>(static_cast<std::size_t>(images), true) : wanted_(images, training);
}

BatchSource::Batch BatchSource::of_samples(std::int64_t step, BatchBuffer& buffer, ShardPool& pool,
                                           const std::vector<bool>& wanted) const {
  const std::size_t count = buffer.samples_.size();
  Batch batch = batch_of(std::int64_t(count), buffer, train_features_.get());
  write_targets(train_, batch, [&](std::int64_t i) { return buffer.samples_[static_cast<std::size_t>(i)].image; });
  if (train_features_) {
    for (std::size_t i = 0; i < count; ++i)
      copy(train_features_->all().slice(buffer.samples_[i].image, 1), batch.images.slice(std::int64_t(i), 1));
    return batch;
  }
  for_type("batch", dtype_,
           [&](auto type) { fill_training<typename decltype(type)::type>(step, batch, buffer, pool, wanted); });
  return batch;
}

template <class T>
void BatchSource::fill_evaluation(std::int64_t first_image, const Batch& batch, ShardPool& pool) const {
  using A = Acc<T>;
  const std::int64_t count = batch.images.shape()[0], values = batch.images.shape().size() / count;
  const PixelTable<A>& table = transform_.tables().in<A>();
  const bool stored = !eval_.encoded && config_.train.eval_transform.crop == EvalCrop::none;
  const std::vector<bool> made = wanted(count, false);
  for_images(count, pool, [&](std::int64_t first, std::int64_t end) {
    const ScratchPool::Lease scratch(scratch_);
    std::vector<A> wide;
    for (std::int64_t i = first; i < end; ++i) {
      if (!made[static_cast<std::size_t>(i)]) continue;
      make_rounded(wide, values, batch.images.data<T>() + i * values, [&](A* out) {
        if (stored) return make_image(eval_, first_image + i, table, out);
        eval_transform_.make(eval_, first_image + i, (*scratch).sized, (*scratch).images);
        normalise_image((*scratch).sized, eval_.channels, table, out);
      });
    }
  });
}

BatchSource::Batch BatchSource::evaluation(std::int64_t first, std::int64_t count, BatchBuffer& buffer,
                                           ShardPool& pool) const {
  const Batch batch = batch_of(count, buffer, eval_features_.get());
  write_targets(eval_, batch, [&](std::int64_t i) { return first + i; });
  if (eval_features_) {
    copy(eval_features_->all().slice(first, count), batch.images);
    return batch;
  }
  for_type("batch", dtype_, [&](auto type) { fill_evaluation<typename decltype(type)::type>(first, batch, pool); });
  return batch;
}

BatchSource::Batch BatchSource::unshuffled(std::int64_t first, std::int64_t count, ShardPool& pool) {
  buffer_.samples_.clear();
  for (std::int64_t i = first; i < first + count; ++i) buffer_.samples_.push_back({i, 0});
  return of_samples(0, buffer_, pool, std::vector<bool>(static_cast<std::size_t>(count), true));
}

void BatchSource::use_features(std::shared_ptr<const StoredFeatures> train,
                               std::shared_ptr<const StoredFeatures> eval) {
  train_features_ = std::move(train);
  eval_features_ = std::move(eval);
}

}  // namespace normlab
