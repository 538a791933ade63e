// What one trial is. These structs are the whole truth about an experiment: the strict reader, the defaults, the JSON
// Schema, the canonical form (whose SHA-256 is the trial's id) and the documentation all come from one field table a
// struct.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/model_config.h"
#include "nn/optimizer.h"
#include "nn/schedule.h"
#include "nn/update_factors.h"

namespace normlab {

/// known: found by name. image_list: a flat folder and a file of labels.
enum class DatasetLayout : std::uint8_t { known, webdataset, cifar, image_folder, idx, tiny_imagenet, image_list };
enum class SampleOrder : std::uint8_t { shuffled, shards };
enum class OnBadImage : std::uint8_t { fail, skip };

struct DatasetConfig {
  std::string name = "shapes";  // "shapes", "cifar10", ..., or a label for `path`
  std::string path;             // below the data root; empty: the dataset's name
  DatasetLayout layout = DatasetLayout::known;
  std::string train = "train";  // a slice: "train", "train[:99%]", "train[:800]", "train[800:1000]"
  std::string eval = "test";
  std::string minival{};  // a slice that shares no image with the two, evaluated beside eval; empty: none
  // webdataset: file names with a brace range, "pets-train-{0000..0146}.tar"
  std::string train_shards{}, eval_shards{};
  std::string labels{};               // image_list: the file of labels, below `path`
  std::int64_t per_class = 0;         // so many training images of each class; 0: all of the slice
  double fraction = 1.0;              // of the training slice
  std::uint64_t subset_seed = 0;      // which images per_class and fraction take
  bool allow_absent_classes = false;  // a training slice without one of the classes is an error otherwise
  SampleOrder order = SampleOrder::shuffled;
  std::int64_t shuffle_buffer = 10000;  // order shards: samples from which the next one is drawn
  OnBadImage on_bad_image = OnBadImage::fail;
  std::vector<double> mean{}, std{};  // of each channel, where a pixel of 255 is 1; empty: the training slice's
  std::int64_t train_images = 2000;   // shapes only: how many images are generated
  std::int64_t eval_images = 1000;    // shapes only
  std::uint64_t shapes_seed = 1;      // shapes only: seed of the generated images, not of the trial
  bool operator==(const DatasetConfig&) const = default;
};

/// How pixels between pixels come about. Bilinear and bicubic are Pillow's, which widen when an image shrinks;
/// bilinear_plain (no antialiasing) and area are TensorFlow's; random draws bilinear or bicubic for each image (timm).
enum class ResizeMethod : std::uint8_t { nearest, bilinear, bicubic, lanczos, bilinear_plain, area, random };

/// How a training image gets the model's size. pad: zeros around it, a crop of its own size. inception_*: a box of
/// drawn area and aspect, resized. stretch: resized, whatever its aspect. center: as in evaluation.
enum class CropName : std::uint8_t { none, inception_tensorflow, inception_torchvision, stretch, center };

enum class RandAugmentDialect : std::uint8_t { none, big_vision, torchvision, timm };
struct RandAugmentConfig {
  RandAugmentDialect dialect = RandAugmentDialect::none;
  std::int64_t layers = 2;                             // operations an image
  double magnitude = 10;                               // big_vision, timm: out of 10; torchvision: index of 31 bins
  double magnitude_std = 0.0;                          // timm: deviation of the normal that the magnitude is drawn from
  double probability = 0.5;                            // timm: that a drawn operation is applied
  bool increasing = false;                             // timm: "inc1"
  bool repaired = false;                               // big_vision: Contrast and Solarize as meant, not as released
  ResizeMethod interpolation = ResizeMethod::nearest;  // torchvision, timm: of geometric operations
  std::vector<std::int64_t> fill{};                    // a value a channel; empty: the dialect's own
  bool operator==(const RandAugmentConfig&) const = default;
};

struct ColorJitterConfig {  // torchvision's: factors from [max(0, 1 - x), 1 + x], hue a share of the circle
  double brightness = 0.0, contrast = 0.0, saturation = 0.0, hue = 0.0;
  bool operator==(const ColorJitterConfig&) const = default;
};

enum class ErasingDialect : std::uint8_t { none, timm, torchvision };
enum class ErasingFill : std::uint8_t { constant, color, pixel };  // timm's const, rand and pixel
struct ErasingConfig {
  ErasingDialect dialect = ErasingDialect::none;
  double probability = 0.25;
  ErasingFill fill = ErasingFill::constant;
  double value = 0.0;  // constant: after normalisation
  std::array<double, 2> area{0.02, 1.0 / 3};
  std::array<double, 2> aspect{0.3, 10.0 / 3};
  bool operator==(const ErasingConfig&) const = default;
};

/// Two images made one, after all else. The partner is the predecessor in the batch (big_vision, torchvision) or the
/// image that stands where this one does from the end (timm); big_vision takes the larger of lambda and 1 - lambda.
enum class MixDialect : std::uint8_t { big_vision, torchvision, timm };
enum class MixScope : std::uint8_t { batch, image };
struct MixConfig {
  double mixup = 0.0;   // parameter of Beta; 0 is off
  double cutmix = 0.0;  // the same
  MixDialect dialect = MixDialect::big_vision;
  MixScope scope = MixScope::batch;  // one lambda a batch, or one an image
  double probability = 1.0;          // that anything is mixed
  double switch_probability = 0.5;   // both on: that it is cutmix
  bool operator==(const MixConfig&) const = default;
};

/// Done to every training image, each draw keyed by (seed, epoch, image key).
struct AugmentConfig {
  std::int64_t crop_padding = 0;  // pixels of zeros around the image, then a random crop of the original size
  CropName crop = CropName::none;
  std::array<double, 2> crop_area{0.08, 1.0};           // inception: share of the image
  std::array<double, 2> crop_aspect{3.0 / 4, 4.0 / 3};  // inception: width over height
  ResizeMethod resize = ResizeMethod::bilinear;
  bool flip = false;  // left-right, probability one half
  RandAugmentConfig randaugment{};
  ColorJitterConfig color_jitter{};
  ErasingConfig erasing{};
  MixConfig mix{};
  std::int64_t repeats = 1;  // repeated augmentation: times an image stands in an epoch's order, whose length stays
  bool operator==(const AugmentConfig&) const = default;
};

/// How an evaluation image gets the model's size. center: the shorter side to resize_to, or to size / crop_pct, then
/// the middle. stretch: resized, whatever its aspect.
enum class EvalCrop : std::uint8_t { none, center, stretch };
enum class ResizeRounding : std::uint8_t { torchvision, big_vision };  // longer side and odd margins
struct EvalTransformConfig {
  EvalCrop crop = EvalCrop::none;
  double crop_pct = 0.875;
  std::int64_t resize_to = 0;  // pixels of the shorter side; 0: by crop_pct
  ResizeMethod resize = ResizeMethod::bilinear;
  ResizeRounding rounding = ResizeRounding::torchvision;
  bool operator==(const EvalTransformConfig&) const = default;
};

struct OptimizerConfig {
  OptimizerName name = OptimizerName::adamw;
  double lr = 1e-3;
  std::int64_t lr_batch = 0;   // lr is meant for so many images a step and scaled to batch_size; 0: lr as it is
  double weight_decay = 0.05;  // decoupled; for sgd added to the gradient (PyTorch)
  bool decay_matrices_only = true;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // adamw, big_vision_adam, lamb; lion: beta1 and beta2
  double momentum = 0.9;                          // sgd, momentum_hp
  bool nesterov = false;                          // sgd, momentum_hp
  bool bf16_moment = false;                       // big_vision_adam, momentum_hp: the first moment is stored in bf16
  MomentProduct moment_product = MomentProduct::wide;
  double layer_decay = 1.0;  // the rate of a block is multiplied by it once for each block above it
  std::vector<Multiplier> multipliers{};
  bool operator==(const OptimizerConfig&) const = default;
};

struct ScheduleConfig {
  ScheduleName name = ScheduleName::cosine;
  double warmup_epochs = 0.0;  // at most one of the two is given
  std::int64_t warmup_steps = 0;
  Warmup warmup = Warmup::lifted;  // lifted: from lr/(warmup + 1), no step at rate 0; line: from warmup_from at step 0
  double warmup_from = 0.0;
  DecayFrom decay_from = DecayFrom::warmup;  // linear, cosine, polynomial: begin after the warm-up or, as timm's, at 0
  double final_lr = 0.0;                     // linear, cosine and polynomial end here; the least rate of rsqrt
  double power = 1.0;                        // polynomial
  double timescale = 10000;                  // rsqrt, rsqrt_decay: steps
  std::int64_t shift = 0;                    // rsqrt: steps
  std::int64_t cooldown_steps = 0;           // at the end, down to 0 along a line
  std::string factors{};                     // compound: "constant * polynomial * linear_warmup", as in Scenic
  std::int64_t decay_every = 1;              // compound, decay_every: steps between two multiplications by decay_factor
  double decay_factor = 1.0;
  bool operator==(const ScheduleConfig&) const = default;
};

enum class LossName : std::uint8_t { softmax, sigmoid };
enum class Precision : std::uint8_t { fp32, bf16, bf16_emulated, tf32 };
inline DType dtype_of(Precision p) { return p == Precision::fp32 || p == Precision::tf32 ? DType::f32 : DType::bf16; }
inline Bf16Products bf16_products_of(Precision p) {
  return p == Precision::bf16_emulated ? Bf16Products::emulated : Bf16Products::native;
}

enum class Smoothing : std::uint8_t { all, others };  // over which classes label smoothing goes

struct EmaConfig {
  double decay = 0.0;  // of the averaged weights; 0: none are kept
  std::int64_t every_steps = 1;
  bool operator==(const EmaConfig&) const = default;
};

/// What stays of a trial's checkpoints once its result is there. weights: parameters and averages, no moments.
enum class KeepCheckpoint : std::uint8_t { last, weights, none };

struct CheckpointConfig {
  double seconds = 30;     // of training between two checkpoints
  std::int64_t steps = 0;  // and after so many steps; 0: by time alone
  KeepCheckpoint keep = KeepCheckpoint::last;
  bool operator==(const CheckpointConfig&) const = default;
};

/// Ends a training once `metric` has not become better by more than min_delta for `patience` evaluations in a row. An
/// evaluation that is not a number is not better.
enum class Better : std::uint8_t { inferred, max, min };  // inferred: the higher accuracy, the lower loss
struct EarlyStopConfig {
  std::string metric{};       // "minival/accuracy", "minival/loss", or with ema_ after the slash; empty: no such rule
  std::int64_t patience = 3;  // evaluations
  double min_delta = 0.0;     // in the metric's unit, a share for accuracies
  Better mode = Better::inferred;
  bool operator==(const EarlyStopConfig&) const = default;
};

struct TrainConfig {
  double epochs = 10;
  std::int64_t steps = 0;   // instead of epochs, where it is not 0
  std::int64_t images = 0;  // instead of both: round(images / batch_size) steps
  std::int64_t batch_size = 128;
  std::int64_t accumulate = 1;  // parts in which a batch goes through the network
  bool drop_last = true;        // an epoch's last, smaller batch is left out
  OptimizerConfig optimizer{};
  ScheduleConfig schedule{};
  double clip_norm = 0.0;  // global norm of the gradient; 0: no clipping
  ClipForm clip_form = ClipForm::torch;
  LossName loss = LossName::softmax;
  double label_smoothing = 0.0;
  Smoothing smoothing = Smoothing::all;
  EmaConfig ema{};
  AugmentConfig augment{};
  EvalTransformConfig eval_transform{};
  Precision precision = Precision::fp32;
  double eval_every_epochs = 1;  // 0: only at the end
  EarlyStopConfig early_stop{};
  /// A collapse, which ends a training as diverged: after the warm-up the losses of the steps are averaged over windows
  /// of w = min(50, collapse_steps) steps, one after the other. The level is the mean over the w steps that end with
  /// the warm-up; of the first w steps where it is shorter. A window whose mean is above the level, or no number,
  /// counts w steps, another one sets the count to 0; at collapse_steps it is a collapse. 0: never.
  std::int64_t collapse_steps = 1000;
  bool operator==(const TrainConfig&) const = default;
};

/// Everything that defines one trial. What is not here (device, threads, workers, data location, checkpoint rule) is
/// provenance and changes no result.
struct TrialConfig {
  DatasetConfig dataset{};
  ModelConfig model{};
  TrainConfig train{};
  std::uint64_t seed = 0;
  bool operator==(const TrialConfig&) const = default;
};

}  // namespace normlab
