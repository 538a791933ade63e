// The weights that `normlab eval` judges, what it does instead of an evaluation, and its answers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/train/device.h"
#include "experiments/lab/train/eval_images.h"
#include "experiments/lab/trials/trial_result.h"
#include "experiments/lab/weights/convert_files.h"
#include "experiments/lab/weights/trained_on.h"

namespace normlab {

/// Options that name the weights of a trial or a file.
struct WeightsSource {
  std::string trial, out = "results", file;
  std::optional<std::string> model;
  bool ema = false;

  void add_to(Command& command);

  struct Loaded {
    WeightFile file;  // still with the averages that --ema asks for
    ModelConfig network;
    std::optional<TrainedOn> trained;
    std::optional<TrialResult> result;  // of a trial that has one
  };
  /// Sets `file`, if a trial is given. `data_option` names the option for other images than the training's, empty if it
  /// is given. InputError if both or neither of trial and file are given, if the tensors have another program's names, or
  /// if nothing states the images.
  Loaded load(const std::string& data_option);
};

/// eval --fewshot: ridge regression on the features of a few images per class.
struct FewShotForm {
  bool given = false;
  FewShotConfig fewshot{.shots = {1, 5, 10, 25}};

  void add_to(Command& form);
  /// `transform_given`: images are resized as source.transform says, else as in the training.
  void print(WeightsSource& weights, const EvalSource& source, bool transform_given,
             const ComputeDevice& computer) const;
};

/// eval --probe: activations and gradients of each row of the descriptor that stands in place of the trial.
struct ProbeForm {
  bool given = false;
  DescriptorOptions descriptor;
  std::string format = "text", axis = "auto";
  std::int64_t images = 0;  // 0: the batch size

  void add_to(Command& form);
  /// Returns the exit code.
  int print(const WeightsSource& source, const EvalSource& data, const ComputeDevice& computer);
};

/// The largest probability of an image's classes, from their logits: that of the softmax, or of the class's own
/// sigmoid.
double largest_probability(std::span<const double> logits, bool sigmoid);

/// What a classification answers for each image, as files.
class Answers {
 public:
  /// `class_names` in the order of the labels.
  explicit Answers(std::vector<std::string> class_names) : class_names_(std::move(class_names)) {}
  void add(std::string file, std::optional<std::int32_t> label, std::int32_t answer, double probability);

  /// CSV (RFC 4180) with a header: "file,true_class,answer,probability", without labels "file,answer,probability".
  std::string predictions_csv() const;
  /// CSV: a row for each true class, a column for each answer, and the numbers of images.
  std::string confusion_csv() const;

 private:
  struct Answer {
    std::string file;
    std::optional<std::int32_t> label;
    std::int32_t answer;
    double probability;
  };
  const std::string& name(std::int32_t label) const { return class_names_[static_cast<std::size_t>(label)]; }
  std::vector<std::string> class_names_;
  std::vector<Answer> answers_;
};

}  // namespace normlab
