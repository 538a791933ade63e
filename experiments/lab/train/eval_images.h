// The images and labels of `normlab eval`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/shards.h"
#include "experiments/lab/data/eval_transform.h"
#include "experiments/lab/data/train_transform.h"
#include "experiments/lab/descriptor/config.h"
#include "experiments/lab/weights/trained_on.h"

namespace normlab {

/// Options from the command line.
struct EvalSource {
  std::string data, slice = "test";  // empty data: the training's dataset
  DatasetLayout layout = DatasetLayout::known;
  std::optional<std::string> root, labels, normalize;
  std::optional<int> labels_from;
  std::string class_order;
  std::vector<double> mean, std;
  EvalTransformConfig transform;
  bool slice_given = false;        // else the first of test, val, ... that a plain folder of classes has
  bool other_class_names = false;  // compare only the number of classes with the training's
  int threads = 1;
};

/// Per channel, in units where the brightest pixel is 1.
struct Normalization {
  std::vector<double> mean, std;
  std::string words;
};

/// A .npy [N, H, W, C], a slice of a dataset or a folder of images without classes, at the model's image size.
class EvalImages {
 public:
  /// `trained`, if the weights record it, gives the normalisation unless the command line does. InputError: missing
  /// data; a number of classes or channels other than the model's; classes other than the training's; images of another
  /// size without a crop; no normalisation given (for a .npy, or images of many sizes).
  EvalImages(const EvalSource& source, const ModelConfig& model, const std::optional<TrainedOn>& trained);

  std::int64_t count() const { return count_; }
  const std::vector<std::int32_t>& labels() const { return labels_; }  // empty: no labels
  /// Of the labels and of the network's answers: the data's, else the training's, else the numbers from 0.
  const std::vector<std::string>& class_names() const { return class_names_; }
  /// True for a folder of images without classes.
  bool plain_folder() const { return plain_folder_; }
  /// Images that are left out because they cannot be decoded, and files of a plain folder that are not images, as text.
  const std::vector<BadImage>& bad_images() const { return set_.bad_images; }
  const std::string& other_files() const { return other_files_; }
  /// The file below its folder, or the number of the image.
  std::string key(std::int64_t image) const { return set_.key(image); }
  const Normalization& normalization() const { return normalization_; }
  /// jpeg_copy() of a slice of a data set.
  const std::string& known_copy() const { return known_copy_; }
  bool are_bytes() const { return floats_.empty(); }
  /// For errors: "images.npy: image 3".
  std::string name(std::int64_t image) const;
  /// Images first .. first + many, normalised, to `out` as [many, H, W, C] at the model's size. InputError names an
  /// undecodable image, NonFiniteError a .npy image with a non-finite pixel.
  void fill(std::int64_t first, std::int64_t many, ShardPool& pool, float* out) const;

 private:
  void read_npy_images(const EvalSource& source, const ModelConfig& model, const std::optional<TrainedOn>& trained);
  void read_dataset_images(const EvalSource& source, const ModelConfig& model, const std::optional<TrainedOn>& trained);

  void read_plain_folder(const std::filesystem::path& folder, const EvalSource& source, const ModelConfig& model,
                         const std::optional<TrainedOn>& trained);

  std::string source_;
  ImageSet set_;
  std::vector<std::int32_t> labels_;
  std::vector<std::string> class_names_;
  std::string other_files_, known_copy_;
  bool plain_folder_ = false;
  std::vector<float> floats_;  // pixels of a .npy; otherwise empty
  std::int64_t count_ = 0;
  Normalization normalization_;
  bool resizes_;
  EvalTransform transform_;
  mutable ScratchPool scratch_;
};

}  // namespace normlab
