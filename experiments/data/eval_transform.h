// How an evaluation image gets the model's size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/data/image_set.h"
#include "experiments/data/resize.h"

namespace normlab {

/// The shorter side becomes `small`, the other follows. torchvision cuts the longer side off to whole pixels,
/// big_vision computes in float and rounds, halves to even.
ImageSize resized_size(ImageSize image, std::int64_t small, ResizeRounding rounding);
/// First row or column of the middle `out` of `in` pixels. An odd rest: torchvision rounds its half to even, big_vision
/// down.
std::int64_t middle(std::int64_t in, std::int64_t out, ResizeRounding rounding);

/// Memory for reading and changing images, kept from image to image; one a thread.
struct ImageScratch {
  ResizeScratch resize;
  std::vector<std::uint8_t> bytes;  // of the file
  Image decoded, resized;
};

/// Image `index` whole, decoded where the set is encoded: scratch.decoded. A set of one channel has it three times.
/// InputError names the image's file.
const Image& whole_image(const ImageSet& images, std::int64_t index, ImageScratch& scratch);
/// For errors: the file of an encoded image, else its key.
std::string where_is(const ImageSet& images, std::int64_t index);
/// For errors: "image 3 (pets/train/cat/1.jpg)", its number alone where it has no other name.
std::string numbered_image(const ImageSet& images, std::int64_t index);

/// EvalTransformConfig, carried out. Safe for several threads, each with its scratch.
class EvalTransform {
 public:
  EvalTransform(const EvalTransformConfig& config, ImageSize model) : config_(config), model_(model) {}

  ImageSize size() const { return model_; }
  /// Image `index` at the model's size. InputError names the image: with crop "none" it has another size; the resized
  /// image is smaller than what is to be cut out of it.
  void make(const ImageSet& images, std::int64_t index, Image& out, ImageScratch& scratch) const;
  /// The same for an image at hand; `where` for errors. `in` may be scratch.decoded.
  void apply(const Image& in, const std::string& where, Image& out, ImageScratch& scratch) const;

 private:
  EvalTransformConfig config_;
  ImageSize model_;
};

}  // namespace normlab
