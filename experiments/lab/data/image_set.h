// A trial's images, in memory or encoded in files.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "experiments/lab/base/sha256.h"
#include "experiments/lab/data/jpeg_copy.h"
#include "experiments/lab/data/mask.h"

namespace normlab {

class Tokeniser;

/// Omitted because it cannot be read or decoded.
struct BadImage {
  std::string key, reason;
};

struct ImageSet {
  /// Common to all images; height and width are 0 if `encoded` is set, since sizes then vary.
  std::int64_t height = 0, width = 0, channels = 0, num_classes = 0;
  std::vector<std::uint8_t> pixels;  // [n, height, width, channels]; empty if `encoded` is set
  std::shared_ptr<const EncodedImages> encoded;
  std::vector<std::int32_t> labels;            // [n], in [0, num_classes)
  std::shared_ptr<const Masks> masks;          // the classes of pixels; then all labels are 0
  std::vector<std::string> keys;               // [n], ascending and unique; empty: the key is the decimal index
  std::vector<std::string> class_names;        // [num_classes]
  std::vector<std::string> captions;           // [n], if the descriptor asks for them
  std::shared_ptr<const Tokeniser> tokeniser;  // of the captions
  /// Hexadecimal SHA-256 of the decoded sizes, class names, keys, labels and pixels.
  std::string hash;
  std::string provenance;  // source and decoder of the images, for messages
  std::string folder;      // of the dataset, for errors; empty if generated
  /// Per channel over all images, in units where 255 is 1; the deviation divides by n.
  std::vector<double> channel_mean, channel_std;
  std::vector<BadImage> bad_images;    // ascending keys; only if the descriptor allows omitting them
  std::vector<std::int64_t> gray16{};  // ascending: images that are 16-bit grayscale, of which the upper byte is used
  JpegFiles jpegs{};                   // of a known data set that is published without loss
  /// Images of each shard, in stored order. Empty for data without shards.
  std::vector<std::vector<std::int64_t>> shards;

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
  std::int64_t image_bytes() const { return height * width * channels; }
  const std::uint8_t* image(std::int64_t index) const { return pixels.data() + index * image_bytes(); }
  std::string key(std::int64_t index) const {
    return keys.empty() ? std::to_string(index) : keys[static_cast<std::size_t>(index)];
  }
};

/// Fills `hash`, `channel_mean` and `channel_std` of a set in memory; an encoded set keeps its reader's values. Sums
/// are integers, so their order does not matter.
void finish_image_set(ImageSet& images);

/// Exact sums over pixels, for mean and deviation.
class PixelSums {
 public:
  explicit PixelSums(std::int64_t channels);
  /// Rows of `width` pixels each, with interleaved channels.
  void add(const std::uint8_t* pixels, std::int64_t rows, std::int64_t width);
  void add(const PixelSums& other);
  /// In units where 255 is 1; zeros if nothing was added.
  std::vector<double> mean() const, deviation() const;

 private:
  std::vector<std::uint64_t> sum_, squares_;
  std::uint64_t pixels_ = 0;
};

/// SHA-256 of numbers and texts. A text's length precedes it, so that different lists cannot coincide.
class SetHash {
 public:
  void number(std::int64_t value);
  void text(const std::string& text);
  void bytes(std::span<const std::uint8_t> bytes) { sha_.update(std::as_bytes(bytes)); }
  /// Numbers, the names of classes, then the key and label of each image and what `more(i)` adds to them.
  template <class More>
  void set(const ImageSet& images, std::initializer_list<std::int64_t> numbers, More&& more) {
    for (const std::int64_t one : numbers) number(one);
    for (const std::string& name : images.class_names) text(name);
    for (std::int64_t i = 0; i < images.size(); ++i) {
      text(images.key(i));
      number(images.labels[static_cast<std::size_t>(i)]);
      more(i);
    }
  }
  std::string hex() { return sha_.hex(); }

 private:
  Sha256 sha_;
};

}  // namespace normlab
