// The images that `normlab eval` shows a network, and their labels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/shards.h"
#include "experiments/data/eval_transform.h"
#include "experiments/data/train_transform.h"
#include "experiments/descriptor/config.h"
#include "experiments/weights/trained_on.h"

namespace normlab {

/// What the command line says of the images.
struct EvalSource {
  std::string data, slice = "test";  // no data: those of the training
  DatasetLayout layout = DatasetLayout::known;
  std::optional<std::string> root, labels, normalize;
  std::vector<double> mean, std;
  EvalTransformConfig transform;
  bool other_class_names = false;  // only the number of classes is compared with the training's
  int threads = 1;
};

/// What is subtracted from a channel and what it is divided by, in units where the brightest pixel is 1.
struct Normalization {
  std::vector<double> mean, std;
  std::string words;
};

/// A .npy [N, H, W, C] or a slice of a data set, at the size of a model.
class EvalImages {
 public:
  /// `trained`, where the weights say it, gives the normalisation unless the command line does. InputError: what is not
  /// there, another number of classes or channels than the model's, other classes than the training's; images of
  /// another size where no crop is asked for; nothing that says how pixels were normalised (a .npy, or images of many
  /// sizes).
  EvalImages(const EvalSource& source, const ModelConfig& model, const std::optional<TrainedOn>& trained);

  std::int64_t count() const { return count_; }
  const std::vector<std::int32_t>& labels() const { return set_.labels; }  // empty: there are none
  const Normalization& normalization() const { return normalization_; }
  bool are_bytes() const { return floats_.empty(); }
  /// For errors: "images.npy: image 3".
  std::string name(std::int64_t image) const;
  /// Images first .. first + many, normalised, [many, H, W, C] of the model at `out`. InputError names an image that
  /// cannot be decoded; NonFiniteError one of a .npy with a pixel that is not finite.
  void fill(std::int64_t first, std::int64_t many, ShardPool& pool, float* out) const;

 private:
  void read_npy_images(const EvalSource& source, const ModelConfig& model, const std::optional<TrainedOn>& trained);
  void read_dataset_images(const EvalSource& source, const ModelConfig& model, const std::optional<TrainedOn>& trained);

  std::string source_;
  ImageSet set_;
  std::vector<float> floats_;  // of a .npy, in place of the set's pixels
  std::int64_t count_ = 0;
  Normalization normalization_;
  bool resizes_;
  EvalTransform transform_;
  mutable ScratchPool scratch_;
};

}  // namespace normlab
