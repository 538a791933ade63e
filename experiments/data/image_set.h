// All a trial sees of a dataset: images in memory, or where to read them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "experiments/base/sha256.h"

namespace normlab {

/// Images as their files hold them (JPEG, PNG), decoded whenever one is needed. Safe for several threads.
class EncodedImages {
 public:
  virtual ~EncodedImages() = default;
  /// The file's bytes of image `index`. InputError names the file.
  virtual void read(std::int64_t index, std::vector<std::uint8_t>& bytes) const = 0;
  /// For errors: "pets/train/cat/1.jpg", or "train-000000.tar: member cat/1.jpg".
  virtual std::string where(std::int64_t index) const = 0;
};

/// An image that was left out because it cannot be read or decoded.
struct BadImage {
  std::string key, reason;
};

struct ImageSet {
  /// Of each image; height and width are 0 where `encoded` is set, whose images have sizes of their own.
  std::int64_t height = 0, width = 0, channels = 0, num_classes = 0;
  std::vector<std::uint8_t> pixels;  // [n, height, width, channels]; empty where `encoded` is set
  std::shared_ptr<const EncodedImages> encoded;
  std::vector<std::int32_t> labels;      // [n], in [0, num_classes)
  std::vector<std::string> keys;         // [n], ascending and unique; empty: an image's key is its index in decimal
  std::vector<std::string> class_names;  // [num_classes]
  /// SHA-256 in hexadecimal of what was decoded: sizes, class names, keys, labels and pixels.
  std::string hash;
  std::string provenance;  // for people: where the images come from, and by which decoder
  std::string folder;      // of the data set, for errors; empty where it is generated
  /// Of each channel over all images, in units where a pixel of 255 is 1; the deviation divides by n.
  std::vector<double> channel_mean, channel_std;
  std::vector<BadImage> bad_images;  // ascending keys; only where the descriptor lets them be left out
  /// Images from shards: those of each, in the order in which they lie there. Empty for all others.
  std::vector<std::vector<std::int64_t>> shards;

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
  std::int64_t image_bytes() const { return height * width * channels; }
  const std::uint8_t* image(std::int64_t index) const { return pixels.data() + index * image_bytes(); }
  std::string key(std::int64_t index) const {
    return keys.empty() ? std::to_string(index) : keys[static_cast<std::size_t>(index)];
  }
};

/// Fills `hash`, `channel_mean` and `channel_std` of a set in memory; one that is encoded keeps what its reader gave
/// it. The sums are of integers, so no order can change a bit.
void finish_image_set(ImageSet& images);

/// Exact sums over the pixels of images of any size, from which a mean and a deviation come.
class PixelSums {
 public:
  explicit PixelSums(std::int64_t channels);
  /// Rows of `width` pixels each, all channels of a pixel together.
  void add(const std::uint8_t* pixels, std::int64_t rows, std::int64_t width);
  void add(const PixelSums& other);
  /// In units where a value of 255 is 1; zeros where nothing was added.
  std::vector<double> mean() const, deviation() const;

 private:
  std::vector<std::uint64_t> sum_, squares_;
  std::uint64_t pixels_ = 0;
};

/// SHA-256 of numbers and texts, with lengths before texts so that no two lists look alike.
class SetHash {
 public:
  void number(std::int64_t value);
  void text(const std::string& text);
  void bytes(std::span<const std::uint8_t> bytes) { sha_.update(std::as_bytes(bytes)); }
  std::string hex() { return sha_.hex(); }

 private:
  Sha256 sha_;
};

}  // namespace normlab
