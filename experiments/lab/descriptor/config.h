// The settings of one trial. The strict reader, the defaults, the JSON Schema, the canonical form (whose SHA-256 is the
// trial's id) and the documentation are all generated from the rows beside these structs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/words.h"
#include "experiments/lab/descriptor/augment_config.h"
#include "experiments/lab/descriptor/dataset_config.h"
#include "experiments/lab/descriptor/json_tree.h"
#include "nn/model/model_config.h"
#include "nn/training/schedule.h"
#include "nn/training/train_settings.h"

namespace normlab {

// --- what is measured at a training's evaluations besides accuracy and loss

/// Few-shot evaluation on the trial's own slices; off without shots. See experiments/lab/metrics/few_shot.h.
struct FewShotConfig {
  std::vector<std::int64_t> shots{};
  double l2 = 1024;
  std::vector<std::int64_t> seeds{0, 1, 2};
  bool half_width = false;
  bool operator==(const FewShotConfig&) const = default;
};
template <std::same_as<FewShotConfig> T>
constexpr auto rows_of(const T*) {
  constexpr When<T> kOn{[](const T& c) { return !c.shots.empty(); }, "without shots there is no few-shot evaluation"};
  return Fields{
      field("shots", &T::shots, "numbers of training images per class; each adds a metric such as eval/5shot_accuracy",
            kAtOnce),
      field("l2", &T::l2, "weight of the squared norm in the ridge regression", kPositive).when(kOn),
      field("seeds", &T::seeds, "NumPy seeds that choose the images; the metric is the mean", kFromZero).when(kOn),
      field("half_width", &T::half_width,
            "also measure eval/5shot_accuracy_half_width, of the 95% interval over these seeds")
          .when(kOn)};
}

/// Segmentation of whole images in windows of the model's size.
struct SegmentEvalConfig {
  std::int64_t resize_to = 0, stride = 0;
  std::vector<double> scales{1.0};
  bool mirror = false;
  bool operator==(const SegmentEvalConfig&) const = default;
};
template <std::same_as<SegmentEvalConfig> T>
constexpr auto rows_of(const T*) {
  constexpr Range kSide{.low = 0, .high = 1 << 16};  // pixels
  return Fields{field("resize_to", &T::resize_to, "pixels of the shorter side; 0: the model's longer side", kSide),
                field("stride", &T::stride, "pixels between two windows; 0: the window's side", kSide),
                field("scales", &T::scales,
                      "factors of resize_to, at each of which the image is evaluated; at least a window is left. The "
                      "mean of the probabilities counts",
                      Range{.low = 0.01, .high = 16}),
                field("mirror", &T::mirror, "also evaluate each scale mirrored")};
}

/// What an evaluation of classes measures on request, besides accuracy and loss.
enum class EvalMetric : std::uint8_t { balanced_accuracy, top5_accuracy, per_class };
constexpr auto stated_words(EvalMetric) { return words<EvalMetric>("balanced_accuracy", "top5_accuracy", "per_class"); }

struct EvalConfig {
  FewShotConfig fewshot{};
  SegmentEvalConfig segment{};
  std::vector<std::string> templates{};
  std::int64_t train_images = 0;
  std::vector<EvalMetric> metrics{};  // no part of a trial's canonical form, since they change no training
  bool operator==(const EvalConfig&) const = default;
};
template <std::same_as<EvalConfig> T>
constexpr auto rows_of(const T*) {
  return Fields{
      field("fewshot", &T::fewshot,
            "accuracy of ridge regression on the features of a few images per class, as in Big Vision"),
      field("segment", &T::segment, "task segment: the windows that an image is evaluated in"),
      field("templates", &T::templates,
            "task contrast: the texts of a class, in which {} is its name, such as \"a photo of a "
            "{}.\"; the name alone if omitted"),
      field("train_images", &T::train_images,
            "training images, evenly spaced in the slice, whose accuracy is measured as well, without "
            "augmentation: train/accuracy; 0: none",
            kFromZero),
      field("metrics", &T::metrics,
            "more to measure at each evaluation of classes: balanced_accuracy (the mean of the classes' accuracies), "
            "top5_accuracy, per_class (at the end, eval/class_accuracy/CLASS); changes no result and no id")};
}

// --- the weights that a training starts from instead of random values

/// ema: the averaged weights of a checkpoint.
enum class StartWeights : std::uint8_t { last, ema };
constexpr auto stated_words(StartWeights) { return words<StartWeights>("last", "ema"); }

/// How a position table of another grid is resized; the other words are those of Resampling.
enum class StartPositions : std::uint8_t { same, bilinear, bilinear_antialias, corners, bicubic, bicubic_antialias };
constexpr auto stated_words(StartPositions) {
  return words<StartPositions>("same", "bilinear", "bilinear_antialias", "corners", "bicubic", "bicubic_antialias");
}

/// Whose names the tensors of a file have (NameScheme).
enum class StartNames : std::uint8_t { stated, normlab, timm, big_vision, augreg };
constexpr auto stated_words(StartNames) {
  return words<StartNames>("stated", "normlab", "timm", "big_vision", "augreg");
}

struct StartRule {
  StartWeights weights = StartWeights::last;
  std::vector<std::string> leave_out{"auto"};
  StartPositions resize_positions = StartPositions::same;
  StartNames names = StartNames::stated;
  bool operator==(const StartRule&) const = default;
};
template <std::derived_from<StartRule> T>
constexpr auto start_rule_rows() {
  return Fields{
      field("weights", &T::weights, "the last weights, or the averaged weights (ema) of a training with train.ema"),
      field("leave_out", &T::leave_out,
            "what keeps random initial values, as in train.freeze; \"auto\", the default, is the head if "
            "the number of classes differs"),
      field("resize_positions", &T::resize_positions,
            "how learned positions of another grid are resized; Big Vision uses corners, timm "
            "bicubic_antialias; same: another grid is an error"),
      field("names", &T::names, "of a file: the program whose tensor names it has; stated: the file says it")};
}

/// Where the weights are, as a descriptor says it.
struct StartFrom {
  std::string descriptor{};  // relative to the file that says so; "": this one
  JsonNode row = json_object();
  std::optional<std::uint64_t> seed{};
};

/// As part of a trial's settings: what identifies the weights, and how they are taken. Both ids are empty without a
/// start, and at most one is set.
struct StartConfig : StartRule {
  std::string trial{};   // id of the trial that trains the weights
  std::string sha256{};  // of the file
  bool given() const { return !trial.empty() || !sha256.empty() || !file.empty() || from; }

  // From the descriptor; no part of the identity.
  std::string file{};
  std::optional<StartFrom> from{};
  Position at{};  // of the path, or of the whole object; without a source if there is no "start"

  bool operator==(const StartConfig& other) const {
    return StartRule::operator==(other) && trial == other.trial && sha256 == other.sha256;
  }
};
template <std::same_as<StartConfig> T>
constexpr auto rows_of(const T*) {
  return Fields{field("trial", &T::trial, "id of the trial that trains the weights"),
                field("sha256", &T::sha256, "SHA-256 of the file of weights")} +
         start_rule_rows<T>();
}

/// As a descriptor writes it.
struct StartKeys : StartRule {
  std::string file{};
  StartFrom from{};
  std::string sha256{};
};
template <std::same_as<StartFrom> T>
constexpr auto rows_of(const T*) {
  return Fields{field("descriptor", &T::descriptor,
                      "path of the other descriptor, relative to this file; this descriptor if omitted")};
}
template <std::same_as<StartKeys> T>
constexpr auto rows_of(const T*) {
  return Fields{field("file", &T::file, "a file of weights that `normlab convert` reads, relative to this descriptor"),
                field("from", &T::from,
                      "a row of this or another descriptor, whose trial is trained first if it has no result: "
                      "{\"descriptor\": path, \"row\": {axis: value}, \"seed\": n}; axes that are omitted "
                      "have this row's values, and the seed is this trial's"),
                field("sha256", &T::sha256, "of `file`, to read results where the file is not")} +
         start_rule_rows<T>();
}

// --- the training

/// What remains of a trial's checkpoints once it has a result. weights: parameters and averages, no moments.
enum class KeepCheckpoint : std::uint8_t { last, weights, none };
constexpr auto stated_words(KeepCheckpoint) { return words<KeepCheckpoint>("last", "weights", "none"); }

struct CheckpointConfig {
  double seconds = 30;
  std::int64_t steps = 0;
  KeepCheckpoint keep = KeepCheckpoint::last;
  std::int64_t keep_before_divergence = 0;
  bool operator==(const CheckpointConfig&) const = default;
};
template <std::same_as<CheckpointConfig> T>
constexpr auto rows_of(const T*) {
  return Fields{
      field("seconds", &T::seconds, "seconds of training between two checkpoints", kPositive),
      field("steps", &T::steps, "also save after this many steps; 0: by time only", kFromZero),
      field("keep", &T::keep,
            "what stays once a trial has its result: the last checkpoint, only its weights, or neither"),
      field("keep_before_divergence", &T::keep_before_divergence,
            "also save after this many steps, and keep the last checkpoint of a training that diverges; 0: no",
            kFromZero)};
}

/// Ends training once `metric` has not improved by more than min_delta for `patience` evaluations in a row. NaN
/// is not an improvement.
enum class Better : std::uint8_t { inferred, max, min };  // inferred: the higher share, the lower loss
constexpr auto stated_words(Better) { return words<Better>("inferred", "max", "min"); }

struct EarlyStopConfig {
  std::string metric{};
  std::int64_t patience = 3;
  double min_delta = 0.0;
  Better mode = Better::inferred;
  bool operator==(const EarlyStopConfig&) const = default;
};
template <std::same_as<EarlyStopConfig> T>
constexpr auto rows_of(const T*) {
  constexpr When<T> kMetric{[](const T& c) { return !c.metric.empty(); }, "without a metric early stopping is off"};
  return Fields{
      field("metric", &T::metric,
            "minival/accuracy or minival/loss, for averaged weights minival/ema_accuracy or "
            "minival/ema_loss; off if omitted"),
      field("patience", &T::patience, "consecutive evaluations without an improvement that end the training", kFromOne)
          .when(kMetric),
      field("min_delta", &T::min_delta,
            "an improvement must be larger than this; for accuracies a share, so 0.01 is one percentage point",
            kNotNegative)
          .when(kMetric),
      field("mode", &T::mode,
            "which values are better; inferred: higher accuracies, mean IoUs and recalls, lower losses")
          .when(kMetric)};
}

struct TrainConfig : StepSettings {
  double epochs = 10;
  std::int64_t steps = 0;   // replaces epochs unless 0
  std::int64_t images = 0;  // replaces both: round(images / batch_size) steps
  std::int64_t batch_size = 128;
  bool drop_last = true;
  ScheduleSettings schedule{};
  AugmentConfig augment{};
  EvalTransformConfig eval_transform{};
  double eval_every_epochs = 1;
  EarlyStopConfig early_stop{};
  /// A collapse ends training as diverged. After warm-up, step losses are averaged over consecutive windows of w =
  /// min(50, collapse_steps) steps. The level is the mean over the last w steps of the warm-up, or over the first w
  /// steps if it is shorter. A window whose mean exceeds the level or is NaN counts w steps; any other resets the count
  /// to 0. Training has collapsed when the count reaches collapse_steps. 0: never.
  std::int64_t collapse_steps = 1000;
  bool operator==(const TrainConfig&) const = default;
};
template <std::same_as<TrainConfig> T>
constexpr auto rows_of(const T*) {
  constexpr Range kLength{.low = 1, .high = kMostCounted, .of_descriptors = true};
  constexpr Range kTrainedEpochs{.low = 0, .high = 1e9, .low_open = true, .of_descriptors = true};
  constexpr When<T> kNoImages{[](const T& c) { return c.images == 0; }, "the length is given by images"};
  return Fields{
      field("epochs", &T::epochs, "length of the training; give this, steps or images", kTrainedEpochs)
          .when(kNoImages)
          .when({[](const T& c) { return c.steps == 0; }, "the length is given by steps"}),
      field("steps", &T::steps, "length of the training; give this, epochs or images", kLength).when(kNoImages),
      field("images", &T::images, "length of the training; give this, epochs or steps", kLength),
      field("batch_size", &T::batch_size, "images per step", kAtOnce),
      field("accumulate", &T::accumulate, "parts that a batch is split into (gradient accumulation)", kAtOnce),
      field("drop_last", &T::drop_last, "skip an epoch's last, smaller batch"),
      field("optimizer", &T::optimizer, "the optimiser"),
      field("schedule", &T::schedule, "the learning rate over time"),
      field("clip_norm", &T::clip_norm, "largest global norm of the gradient; 0: no clipping", kNotNegative),
      field("clip_form", &T::clip_form, "torch: limit / (norm + 1e-6), at most 1; optax: limit / norm")
          .when({[](const StepSettings& c) { return c.clip_norm > 0; }, "clip_norm is 0"}),
      field("loss", &T::loss, "cross-entropy over a softmax, or over one sigmoid per class"),
      field("label_smoothing", &T::label_smoothing, "share taken from the label's class, in the loss of training alone",
            kRate),
      field("smoothing", &T::smoothing, "classes that label_smoothing is spread over")
          .when({[](const StepSettings& c) { return c.label_smoothing > 0; }, "label_smoothing is 0"}),
      field("ema", &T::ema, "an average of the weights, evaluated along with them"),
      field("freeze", &T::freeze,
            "parts that keep their initial values: \"stem\", \"blocks.0-3\", or names, in which `*` matches any text"),
      field("augment", &T::augment, "applied to every training image"),
      field("eval_transform", &T::eval_transform, "applied to every evaluation image"),
      field("precision", &T::precision,
            "precision of activations and products; weights stay in fp32. bf16 needs a CPU or GPU with "
            "bf16 instructions; bf16_emulated rounds at the same places on any CPU, slowly; tf32: fp32 "
            "with matrix products of inputs rounded to 10 mantissa bits, on a GPU"),
      field("eval_every_epochs", &T::eval_every_epochs, "epochs between two evaluations; 0: only at the end", kEpochs),
      field("early_stop", &T::early_stop, "ends a training that no longer improves on the minival slice"),
      field("collapse_steps", &T::collapse_steps,
            "a training ends as diverged once its mean loss has been above the level at the end of "
            "the warm-up for this many steps; 0: never",
            kFromZero)};
}

/// Everything that defines one trial. The rest (device, threads, workers, data location, checkpoint rule) is provenance
/// and does not affect results.
struct TrialConfig {
  DatasetConfig dataset{};
  ModelConfig model{};
  StartConfig start{};
  TrainConfig train{};
  EvalConfig eval{};
  std::uint64_t seed = 0;
  bool operator==(const TrialConfig&) const = default;
};
template <std::same_as<TrialConfig> T>
constexpr auto rows_of(const T*) {
  return Fields{field("dataset", &T::dataset, "a name, or an object"),
                field("model", &T::model, "the network"),
                field("start", &T::start, "the weights that training starts from: a file, or an object"),
                field("train", &T::train, "the training"),
                field("eval", &T::eval, "further measurements at each evaluation"),
                field("seed", &T::seed, "seed of all random draws")};
}

/// Class counts that only a dataset's files know. InputError if the files are missing or unreadable.
using ClassCounts = std::function<std::int64_t(const DatasetConfig&)>;

}  // namespace normlab
