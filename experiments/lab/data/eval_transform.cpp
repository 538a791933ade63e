#include "experiments/lab/data/eval_transform.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/data/decode.h"

namespace normlab {

ImageSize resized_size(ImageSize image, std::int64_t small, ResizeRounding rounding) {
  const std::int64_t shorter = std::min(image.height, image.width);
  if (rounding == ResizeRounding::torchvision) return {small * image.height / shorter, small * image.width / shorter};
  const float factor = static_cast<float>(small) / static_cast<float>(shorter);
  const auto scaled = [&](std::int64_t side) {
    return static_cast<std::int64_t>(std::nearbyint(static_cast<float>(side) * factor));
  };
  return {scaled(image.height), scaled(image.width)};
}

std::int64_t middle(std::int64_t in, std::int64_t out, ResizeRounding rounding) {
  const std::int64_t rest = in - out, half = rest / 2;
  return rounding == ResizeRounding::torchvision && rest % 2 != 0 ? half + half % 2 : half;
}

std::string where_is(const ImageSet& images, std::int64_t index) {
  return images.encoded ? images.encoded->where(index) : concat("image ", in_quotes(images.key(index)));
}

std::string numbered_image(const ImageSet& images, std::int64_t index) {
  const std::string name = images.encoded ? images.encoded->where(index) : images.keys.empty() ? "" : images.key(index);
  return concat("image ", index, name.empty() ? "" : " (", name, name.empty() ? "" : ")");
}

const Image& whole_image(const ImageSet& images, std::int64_t index, ImageScratch& scratch) {
  Image& image = scratch.decoded;
  if (images.encoded) {
    images.encoded->read(index, scratch.bytes);
    decode_image(scratch.bytes, images.encoded->where(index), image);
    return image;
  }
  image.resize(images.height, images.width);
  const std::uint8_t* from = images.image(index);
  if (images.channels == 3) {
    std::copy_n(from, image.pixels.size(), image.pixels.begin());
  } else if (images.channels == 1) {
    for (std::size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = from[i / 3];
  } else {
    throw InputError(
        concat("images of ", images.channels, " channels cannot be cropped or resized; only 1 or 3 channels can"));
  }
  return image;
}

void EvalTransform::make(const ImageSet& images, std::int64_t index, Image& out, ImageScratch& scratch) const {
  const Image& whole = whole_image(images, index, scratch);
  apply(whole, where_is(images, index), out, scratch);
}

void EvalTransform::apply(const Image& in, const std::string& where, Image& out, ImageScratch& scratch) const {
  const ImageSize size{in.height, in.width};
  const Box whole{0, 0, in.height, in.width};
  if (config_.crop == EvalCrop::stretch)
    return resize(in, whole, config_.resize, model_.height, model_.width, out, scratch.resize);
  if (config_.crop == EvalCrop::none) {
    if (size != model_)
      throw InputError(concat(where, ": is ", in.width, "x", in.height, " pixels, but the model takes ", model_.width,
                              "x", model_.height, "; set train.eval_transform.crop to \"center\" or \"stretch\""));
    out.resize(in.height, in.width);
    std::copy(in.pixels.begin(), in.pixels.end(), out.pixels.begin());
    return;
  }
  const std::int64_t longer = std::max(model_.height, model_.width);
  const std::int64_t small = config_.resize_to > 0
                                 ? config_.resize_to
                                 : static_cast<std::int64_t>(static_cast<double>(longer) / config_.crop_pct);
  const ImageSize resized =
      config_.crop == EvalCrop::stretch_center ? ImageSize{small, small} : resized_size(size, small, config_.rounding);
  if (resized.height < model_.height || resized.width < model_.width)
    throw InputError(concat(where, ": is ", resized.width, "x", resized.height,
                            " pixels after its shorter side is resized to ", small, ", smaller than the model's ",
                            model_.width, "x", model_.height, "; raise train.eval_transform.resize_to"));
  resize(in, whole, config_.resize, resized.height, resized.width, scratch.resized, scratch.resize);
  const std::int64_t top = middle(resized.height, model_.height, config_.rounding);
  const std::int64_t left = middle(resized.width, model_.width, config_.rounding);
  out.resize(model_.height, model_.width);
  for (std::int64_t y = 0; y < model_.height; ++y)
    std::copy_n(scratch.resized.row(top + y) + left * 3, model_.width * 3, out.row(y));
}

}  // namespace normlab
