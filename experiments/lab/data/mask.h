// Masks: the class of each pixel of an image, or kIgnoredLabel.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "experiments/lab/data/image.h"
#include "experiments/lab/descriptor/dataset_config.h"

namespace normlab {

/// [height, width].
struct Mask {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> labels;
  void resize(std::int64_t new_height, std::int64_t new_width) {
    height = new_height;
    width = new_width;
    labels.resize(static_cast<std::size_t>(height * width));
  }
  bool operator==(const Mask&) const = default;
};

/// Files of an ImageSet, in its order, read on each use. Thread-safe.
template <class... Out>
class StoredFiles {
 public:
  virtual ~StoredFiles() = default;
  /// InputError names the file: unreadable, not a mask, or with a label that is no class. `bytes`: of the file.
  virtual void read(std::int64_t index, Out&... out, std::vector<std::uint8_t>& bytes) const = 0;
  /// For errors: "pets/train/cat/1.jpg", or "train-000000.tar: member cat/1.jpg"; of a mask in memory its image.
  virtual std::string where(std::int64_t index) const = 0;
};
using EncodedImages = StoredFiles<>;  // JPEG, PNG
using Masks = StoredFiles<Mask>;

/// Masks of one size in memory.
class StoredMasks final : public Masks {
 public:
  StoredMasks(std::int64_t height, std::int64_t width, std::vector<std::uint8_t> labels)
      : height_(height), width_(width), labels_(std::move(labels)) {}
  void read(std::int64_t index, Mask& out, std::vector<std::uint8_t>& bytes) const override;
  std::string where(std::int64_t index) const override { return "the mask of image " + std::to_string(index); }

 private:
  std::int64_t height_, width_;
  std::vector<std::uint8_t> labels_;  // [n, height, width]
};

/// The pixels of a mask's file become labels as `numbering` says, which is not none. InputError names the file, and the
/// first pixel whose label is not below `classes`.
void number_labels(Mask& mask, MaskLabels numbering, std::int64_t classes, const std::string& where);

/// InputError, beginning with `mask_where`, if the sizes differ.
void require_same_size(const Mask& mask, ImageSize image, const std::string& mask_where);

}  // namespace normlab
