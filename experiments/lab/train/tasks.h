// What a training does for each task: the targets of its batches, and its evaluation.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>

#include "experiments/lab/data/mask.h"
#include "experiments/lab/metrics/class_scores.h"
#include "experiments/lab/metrics/correctness.h"
#include "experiments/lab/train/batches.h"
#include "experiments/lab/trials/trial_result.h"
#include "nn/training/task.h"

namespace normlab {

class Engine;

/// All `images` of a slice, which is the evaluation slice of `batches`.
struct SliceCall {
  Engine& engine;
  BatchSource& batches;
  const ImageSet& images;
  ShardPool& pool;
  const std::string& prefix;        // of the metrics' names
  Correctness* right;               // receives which images are answered correctly; null: not wanted
  EvaluatedSlice* facts = nullptr;  // receives these; null: not wanted
};

struct TaskTraining {
  Task task;
  /// Writes the target of an image, in the shape of TaskRow::targets, unless its transform makes it.
  void (*write_target)(const ImageSet& images, std::int64_t image, std::span<std::int32_t> target);
  /// The metrics of TaskRules, with the prefix. NonFiniteError names the first image without a finite result.
  std::map<std::string, double> (*evaluate)(const SliceCall& call);
};
const TaskTraining& training_of(Task task);

/// Of a slice whose images each have a class: PREFIXaccuracy and what the trial measures on request (EvalMetric):
/// PREFIXbalanced_accuracy, PREFIXtop5_accuracy and PREFIXclass_accuracy/NAME of each class that has images. A name's
/// control characters are spelt out.
std::map<std::string, double> class_metrics(const ClassScores& scores, const TrialConfig& trial, const ImageSet& images,
                                            const std::string& prefix);

/// Zero-shot classification and retrieval by an image tower and a text tower. accuracy: of the class whose texts are
/// most similar to the image. text_recall1, image_recall1: how often the text most similar to an image is its own, and
/// the image most similar to a text; equal texts count as one. loss: in batches of train.batch_size. NonFiniteError
/// names the first image or text whose vector is not finite.
std::map<std::string, double> evaluate_pairs(const SliceCall& call);

/// Receives the predicted classes of an image at its stored size, in the order of the images.
using SeePrediction = std::function<void(std::int64_t image, const Mask& predicted)>;

/// Of the images that `call` names: PREFIXmiou over the whole slice, PREFIXpixel_accuracy and PREFIXloss, the mean over
/// all labelled pixels. Images are resized (EvalConfig::segment), cut into windows of the model's size whose logits
/// are averaged, and the logits are resized to the stored size. The predicted class is the first largest.
/// NonFiniteError names the first image whose logits are not finite, InputError a bad image or mask.
std::map<std::string, double> evaluate_segmentation(const SliceCall& call, const SeePrediction& see = nullptr);

}  // namespace normlab
