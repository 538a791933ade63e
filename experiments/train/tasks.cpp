#include "experiments/train/tasks.h"

#include <algorithm>

#include "experiments/data/eval_transform.h"
#include "experiments/data/tokeniser.h"
#include "experiments/train/pair_evaluation.h"
#include "experiments/train/segment_evaluation.h"
#include "nn/engine.h"
#include "nn/nonfinite.h"

namespace normlab {
namespace {

void write_class(const ImageSet& images, std::int64_t image, std::span<std::int32_t> target) {
  target[0] = images.labels[static_cast<std::size_t>(image)];
}

/// The share of images whose class is right, and the mean loss.
std::map<std::string, double> evaluate_classes(const SliceCall& call) {
  const auto& [engine, batches, images, pool, prefix, right] = call;
  const std::int64_t n = images.size();
  std::int64_t correct = 0;
  double loss = 0.0;
  std::vector<double> losses(static_cast<std::size_t>(kEvaluatedAtOnce));
  std::vector<std::int32_t> predicted(losses.size());
  if (right != nullptr) *right = Correctness(n, images.hash);
  for (std::int64_t first = 0; first < n; first += kEvaluatedAtOnce) {
    const std::int64_t count = std::min(kEvaluatedAtOnce, n - first);
    const BatchSource::Batch batch = batches.evaluation(first, count, pool);
    if (const auto found = engine.evaluate(batch.images, batch.labels, losses, predicted))
      throw NonFiniteError(
          concat(prefix, "accuracy: ", numbered_image(images, first + found->image), ": ", found->text()),
          found->value);
    for (std::int64_t i = 0; i < count; ++i) {
      const bool is_right =
          predicted[static_cast<std::size_t>(i)] == images.labels[static_cast<std::size_t>(first + i)];
      correct += is_right;
      if (right != nullptr) right->set(first + i, is_right);
      loss += losses[static_cast<std::size_t>(i)];
    }
  }
  return {{prefix + "accuracy", double(correct) / double(n)}, {prefix + "loss", loss / double(n)}};
}

/// Nothing: the transform of a training image makes its labels, and the evaluation reads its own.
void write_no_mask(const ImageSet&, std::int64_t, std::span<std::int32_t>) {}

std::map<std::string, double> evaluate_pixels(const SliceCall& call) { return evaluate_segmentation(call); }

/// The text of an image, as numbers.
void write_text(const ImageSet& images, std::int64_t image, std::span<std::int32_t> target) {
  images.tokeniser->write(images.captions[static_cast<std::size_t>(image)], target, images.key(image));
}

/// In the order of Task.
constexpr TaskTraining kTasks[] = {{Task::classify, write_class, evaluate_classes},
                                   {Task::segment, write_no_mask, evaluate_pixels},
                                   {Task::contrast, write_text, evaluate_pairs}};
static_assert(std::size(kTasks) == kWords<Task>.size());

}  // namespace

const TaskTraining& training_of(Task task) { return kTasks[static_cast<std::size_t>(task)]; }

}  // namespace normlab
