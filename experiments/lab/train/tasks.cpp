#include "experiments/lab/train/tasks.h"

#include <algorithm>

#include "core/visible_text.h"
#include "experiments/lab/data/eval_transform.h"
#include "experiments/lab/data/tokeniser.h"
#include "experiments/lab/descriptor/metric_names.h"
#include "nn/training/engine.h"
#include "nn/training/nonfinite.h"

namespace normlab {
namespace {

void write_class(const ImageSet& images, std::int64_t image, std::span<std::int32_t> target) {
  target[0] = images.labels[static_cast<std::size_t>(image)];
}

/// class_metrics() and the mean loss.
std::map<std::string, double> evaluate_classes(const SliceCall& call) {
  const auto& [engine, batches, images, pool, prefix, right, facts] = call;
  const TrialConfig& trial = batches.config();
  const std::int64_t n = images.size(), classes = num_classes(trial.model);
  const bool top = measures(trial, EvalMetric::top5_accuracy);
  ClassScores scores(classes);
  double loss = 0.0;
  std::vector<double> losses(static_cast<std::size_t>(kEvaluatedAtOnce));
  std::vector<std::int32_t> predicted(losses.size());
  std::vector<double> logits(top ? losses.size() * static_cast<std::size_t>(classes) : 0);
  if (right != nullptr) *right = Correctness(n, images.hash);
  for (std::int64_t first = 0; first < n; first += kEvaluatedAtOnce) {
    const std::int64_t count = std::min(kEvaluatedAtOnce, n - first);
    const BatchSource::Batch batch = batches.evaluation(first, count, pool);
    if (const auto found = engine.evaluate(batch.images, batch.labels, losses, predicted, logits))
      throw NonFiniteError(
          concat(prefix, "accuracy: ", numbered_image(images, first + found->image), ": ", found->text()),
          found->value);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::int32_t label = images.labels[static_cast<std::size_t>(first + i)], answer = predicted[at];
      const auto width = static_cast<std::size_t>(classes);
      scores.add(label, answer, top && among_top_answers(std::span(logits).subspan(at * width, width), label));
      if (right != nullptr) right->set(first + i, answer == label);
      loss += losses[at];
    }
  }
  if (facts != nullptr) *facts = {n, constant_answer(scores.images(), trial.train.loss == LossKind::sigmoid)};
  std::map<std::string, double> metrics = class_metrics(scores, trial, images, prefix);
  metrics[prefix + "loss"] = loss / double(n);
  return metrics;
}

/// Nothing: the transform of a training image makes its labels, and the evaluation reads its own.
void write_no_mask(const ImageSet&, std::int64_t, std::span<std::int32_t>) {}

/// The text of an image, as numbers.
void write_text(const ImageSet& images, std::int64_t image, std::span<std::int32_t> target) {
  images.tokeniser->write(images.captions[static_cast<std::size_t>(image)], target, images.key(image));
}

/// In the order of Task.
constexpr TaskTraining kTasks[] = {
    {Task::classify, write_class, evaluate_classes},
    {Task::segment, write_no_mask, [](const SliceCall& call) { return evaluate_segmentation(call); }},
    {Task::contrast, write_text, evaluate_pairs}};
static_assert(std::size(kTasks) == kWords<Task>.size());

}  // namespace

std::map<std::string, double> class_metrics(const ClassScores& scores, const TrialConfig& trial, const ImageSet& images,
                                            const std::string& prefix) {
  std::map<std::string, double> metrics{{prefix + "accuracy", scores.accuracy()}};
  if (measures(trial, EvalMetric::balanced_accuracy))
    metrics[prefix + "balanced_accuracy"] = scores.balanced_accuracy();
  if (measures(trial, EvalMetric::top5_accuracy)) metrics[prefix + "top5_accuracy"] = scores.top5_accuracy();
  if (!measures(trial, EvalMetric::per_class)) return metrics;
  for (std::size_t c = 0; c < images.class_names.size(); ++c) {
    const std::optional<double> accuracy = scores.accuracy_of(c);
    if (!accuracy) continue;
    const std::string name = concat(prefix, "class_accuracy/", visible_line(images.class_names[c]));
    // Two names may look the same once they are spelt out.
    if (!metrics.try_emplace(name, *accuracy).second) metrics[concat(name, " (class ", c, ')')] = *accuracy;
  }
  return metrics;
}

const TaskTraining& training_of(Task task) { return kTasks[static_cast<std::size_t>(task)]; }

}  // namespace normlab
