// What one trial is. These structs are the whole truth about an experiment: the strict reader, the defaults, the JSON
// Schema, the canonical form (whose SHA-256 is the trial's id) and the documentation all come from one field table a
// struct.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/backend.h"
#include "nn/model_config.h"

namespace normlab {

enum class DatasetLayout : std::uint8_t { known, webdataset, cifar };  // known: found by name

struct DatasetConfig {
  std::string name = "shapes";  // "shapes", "cifar10", or a label for `path`
  std::string path;             // below the data root; empty: the dataset's name
  DatasetLayout layout = DatasetLayout::known;
  std::string train = "train";  // a slice: "train", "train[:99%]", "train[:800]", "train[800:1000]"
  std::string eval = "test";
  bool allow_absent_classes = false;  // a training slice without one of the classes is an error otherwise
  std::int64_t train_images = 2000;   // shapes only: how many images are generated
  std::int64_t eval_images = 1000;    // shapes only
  std::uint64_t shapes_seed = 1;      // shapes only: seed of the generated images, not of the trial
  bool operator==(const DatasetConfig&) const = default;
};

/// Done to every training image, each draw keyed by (seed, epoch, image key).
struct AugmentConfig {
  std::int64_t crop_padding = 0;  // pixels of zeros around the image, then a random crop of the original size
  bool flip = false;              // left-right, probability one half
  bool operator==(const AugmentConfig&) const = default;
};

enum class OptimizerName : std::uint8_t { adamw, sgd };
struct OptimizerConfig {
  OptimizerName name = OptimizerName::adamw;
  double lr = 1e-3;
  double weight_decay = 0.05;  // decoupled for adamw; added to the gradient for sgd (PyTorch)
  bool decay_matrices_only = true;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // adamw
  double momentum = 0.9;                          // sgd
  bool nesterov = false;                          // sgd
  bool operator==(const OptimizerConfig&) const = default;
};

enum class ScheduleName : std::uint8_t { constant, linear, cosine };
struct ScheduleConfig {
  ScheduleName name = ScheduleName::cosine;
  double warmup_epochs = 0.0;  // linear warm-up from lr/warmup to lr; at most one of the two is given
  std::int64_t warmup_steps = 0;
  double final_lr = 0.0;  // linear and cosine end here
  bool operator==(const ScheduleConfig&) const = default;
};

enum class LossName : std::uint8_t { softmax, sigmoid };
enum class Precision : std::uint8_t { fp32, bf16, bf16_emulated };
inline DType dtype_of(Precision p) { return p == Precision::fp32 ? DType::f32 : DType::bf16; }
inline Bf16Products bf16_products_of(Precision p) {
  return p == Precision::bf16_emulated ? Bf16Products::emulated : Bf16Products::native;
}

struct CheckpointConfig {
  double seconds = 30;     // of training between two checkpoints
  std::int64_t steps = 0;  // and after so many steps; 0: by time alone
  bool operator==(const CheckpointConfig&) const = default;
};

struct TrainConfig {
  double epochs = 10;
  std::int64_t steps = 0;  // instead of epochs, where it is not 0
  std::int64_t batch_size = 128;
  bool drop_last = true;  // an epoch's last, smaller batch is left out
  OptimizerConfig optimizer{};
  ScheduleConfig schedule{};
  double clip_norm = 0.0;  // global norm of the gradient, PyTorch's form; 0: no clipping
  LossName loss = LossName::softmax;
  double label_smoothing = 0.0;  // over all classes (PyTorch)
  AugmentConfig augment{};
  Precision precision = Precision::fp32;
  double eval_every_epochs = 1;  // 0: only at the end
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
