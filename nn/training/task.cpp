#include "nn/training/task.h"

#include "core/backend.h"
#include "nn/model/text_tower.h"

namespace normlab {
namespace {

/// Labels i32 [B], or soft targets [B, classes] in the type of the losses.
std::int64_t require_classes_or_shares(const Tensor& targets, const ModelConfig& model, std::int64_t images) {
  const std::int64_t classes = num_classes(model);
  const bool soft = targets.shape().rank() == 2;
  const Shape expected = soft ? Shape{images, classes} : Shape{images};
  if (targets.shape() != expected)
    throw InputError(concat(soft ? "targets is " : "labels is ", targets.shape().str(), ", expected ", expected.str()));
  for (std::int64_t i = 0; i < images && !soft; ++i)
    if (const std::int32_t label = targets.data<std::int32_t>()[i]; label < 0 || label >= classes)
      throw InputError(
          concat("image ", i, " of the batch has label ", label, ", but the network has ", classes, " classes"));
  return images;
}

Var class_losses(const LossCall& call) {
  const bool soft = call.targets.shape().rank() == 2;
  const double smoothing = call.shard.step.training ? call.settings.label_smoothing : 0.0;
  const Targets targets{soft ? Tensor() : call.targets, soft ? call.targets : Tensor(), smoothing,
                        call.settings.smoothing};
  return call.settings.loss == LossKind::softmax ? softmax_cross_entropy(call.outputs, targets)
                                                 : sigmoid_cross_entropy(call.outputs, targets);
}

/// The class of each pixel, or kIgnoredLabel.
Shape pixels(const ModelConfig& model, std::int64_t images) {
  return {images, image_size(model)[0], image_size(model)[1]};
}

std::int64_t require_pixels(const Tensor& targets, const ModelConfig& model, std::int64_t images) {
  const Shape expected = pixels(model, images);
  if (targets.shape() != expected)
    throw InputError(concat("labels is ", targets.shape().str(), ", expected ", expected.str()));
  std::int64_t labelled = 0;
  for (std::int64_t i = 0; i < targets.size(); ++i) {
    const std::int32_t label = targets.data<std::int32_t>()[i];
    if (label == kIgnoredLabel) continue;
    ++labelled;
    if (label < 0 || label >= num_classes(model))
      throw InputError(concat("image ", i / (expected[1] * expected[2]), " of the batch has a pixel with label ", label,
                              ", but the network has ", num_classes(model), " classes"));
  }
  return labelled;
}

/// Cross-entropy of the logits resized to the labels. Sums row by row, since a float holds no sum of so many pixels.
Var pixel_losses(const LossCall& call) {
  const Shape& shape = call.targets.shape();
  const std::int64_t images = shape[0], height = shape[1], width = shape[2];
  const Var logits = resample(call.outputs, height, width, Resampling::bilinear);
  const Var losses = pixel_softmax_cross_entropy(logits, call.targets, kIgnoredLabel);  // [B, H, W]
  const Var rows = mean_tokens(reshape(losses, {images * height, width, 1}));
  const Var means = mean_tokens(reshape(rows, {images, height, 1}));  // [B, 1]
  Tape& tape = call.shard.tape;
  const Tensor factor = tape.empty({1}, means.value().dtype());
  tape.backend().fill(factor, call.weight * double(height * width));
  return reshape(scale(means, tape.input(factor)), {images});
}

/// Texts i32 [B, length], numbers below the size of the vocabulary.
std::int64_t require_texts(const Tensor& targets, const ModelConfig& model, std::int64_t images) {
  const TextConfig& text = std::get<ViTConfig>(model).text;
  require_shape("contrast", "texts", targets.shape(), {images, text.length});
  if (images < 2) throw InputError("a batch of one pair has nothing to contrast; use a larger train.batch_size");
  for (std::int64_t i = 0; i < targets.size(); ++i)
    if (const std::int32_t word = targets.data<std::int32_t>()[i]; word < 0 || word >= text.vocabulary)
      throw InputError(concat("the text of image ", i / text.length, " of the batch has the word number ", word,
                              ", but the text tower has ", text.vocabulary, " words"));
  return images;
}

Var pair_losses(const LossCall& call) {
  const bool sigmoid = call.settings.loss == LossKind::sigmoid;
  return call.model.text()->losses(call.outputs, call.targets, sigmoid ? ContrastKind::sigmoid : ContrastKind::softmax,
                                   call.shard);
}

Shape texts(const ModelConfig& model, std::int64_t images) { return {images, std::get<ViTConfig>(model).text.length}; }

/// In the order of Task.
constexpr TaskRow kTasks[] = {
    {.task = Task::classify,
     .targets = [](const ModelConfig&, std::int64_t images) { return Shape{images}; },
     .require = require_classes_or_shares,
     .losses = class_losses},
    {.task = Task::segment, .targets = pixels, .require = require_pixels, .losses = pixel_losses},
    {.task = Task::contrast, .targets = texts, .require = require_texts, .losses = pair_losses}};
static_assert(std::size(kTasks) == kWords<Task>.size());

}  // namespace

const TaskRow& row_of(Task task) { return kTasks[static_cast<std::size_t>(task)]; }

}  // namespace normlab
