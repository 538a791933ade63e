// Brings evaluation images to the model's size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/lab/data/image_set.h"
#include "experiments/lab/data/resize.h"

namespace normlab {

/// The shorter side becomes `small`. torchvision truncates the longer side to whole pixels; big_vision computes in
/// float and rounds half to even.
ImageSize resized_size(ImageSize image, std::int64_t small, ResizeRounding rounding);
/// First row or column of the central `out` of `in` pixels. If the rest is odd, torchvision rounds its half
/// to even, big_vision down.
std::int64_t middle(std::int64_t in, std::int64_t out, ResizeRounding rounding);

/// Reusable memory for reading and transforming images; one per thread.
struct ImageScratch {
  ResizeScratch resize;
  std::vector<std::uint8_t> bytes;  // of the file
  Image decoded, resized;
};

/// The whole image; decoded into scratch.decoded if the set is encoded. A single channel is repeated three times.
/// InputError names the image's file.
const Image& whole_image(const ImageSet& images, std::int64_t index, ImageScratch& scratch);
/// For errors: the file of an encoded image, else its key.
std::string where_is(const ImageSet& images, std::int64_t index);
/// For errors: "image 3 (pets/train/cat/1.jpg)", or only the number if the image has no other name.
std::string numbered_image(const ImageSet& images, std::int64_t index);

/// Thread-safe if each thread has its own scratch.
class EvalTransform {
 public:
  EvalTransform(const EvalTransformConfig& config, ImageSize model) : config_(config), model_(model) {}

  ImageSize size() const { return model_; }
  /// At the model's size. InputError names the image: another size with crop "none", or a resized image
  /// smaller than the crop.
  void make(const ImageSet& images, std::int64_t index, Image& out, ImageScratch& scratch) const;
  /// The same for an image in memory; `where` names it in errors. `in` may be scratch.decoded.
  void apply(const Image& in, const std::string& where, Image& out, ImageScratch& scratch) const;

 private:
  EvalTransformConfig config_;
  ImageSize model_;
};

}  // namespace normlab
