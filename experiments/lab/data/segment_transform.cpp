#include "experiments/lab/data/segment_transform.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/ignored_label.h"
#include "experiments/lab/data/ops/tone.h"

namespace normlab {
namespace {

/// Calls change(value) for every value, whose result is clipped and truncated.
template <class F>
void for_values(Image& image, F&& change) {
  for (std::uint8_t& value : image.pixels)
    value = static_cast<std::uint8_t>(std::clamp(change(static_cast<float>(value)), 0.0F, 255.0F));
}

/// Multiplies the saturation, max - min over max, up to 1. The largest value and the hue remain.
void saturate(Image& image, float factor) {
  for (std::size_t p = 0; p < image.pixels.size(); p += 3) {
    std::uint8_t* rgb = image.pixels.data() + p;
    const auto high = static_cast<float>(std::max({rgb[0], rgb[1], rgb[2]})),
               low = static_cast<float>(std::min({rgb[0], rgb[1], rgb[2]}));
    if (high == low) continue;
    const float by = std::min(factor, high / (high - low));
    for (int c = 0; c < 3; ++c) {
      const float value = high - (high - static_cast<float>(rgb[c])) * by;
      rgb[c] = static_cast<std::uint8_t>(std::clamp(value + 0.5F, 0.0F, 255.0F));
    }
  }
}

}  // namespace

ImageSize fitted_size(ImageSize image, std::int64_t shorter, std::int64_t longest, const std::string& where) {
  const auto [low, high] = std::minmax(image.height, image.width);
  double factor = double(shorter) / double(low);
  if (longest > 0) factor = std::min(factor, double(longest) / double(high));
  const auto scaled = [&](std::int64_t side) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(double(side) * factor + 0.5));
  };
  const ImageSize size{scaled(image.height), scaled(image.width)};
  if (size.height > kMaxImagePixels / size.width)
    throw InputError(concat(where, ": is ", image.width, "x", image.height, " pixels and would be ", size.width, "x",
                            size.height, " once its shorter side is ", shorter, "; the limit is ", kMaxImagePixels,
                            " pixels; leave this image out"));
  return size;
}

void resize_mask(const Mask& in, std::int64_t height, std::int64_t width, Mask& out) {
  out.resize(height, width);
  for (std::int64_t y = 0; y < height; ++y) {
    const std::uint8_t* from = in.labels.data() + (2 * y + 1) * in.height / (2 * height) * in.width;
    for (std::int64_t x = 0; x < width; ++x)
      out.labels[static_cast<std::size_t>(y * width + x)] = from[(2 * x + 1) * in.width / (2 * width)];
  }
}

double largest_share(const Mask& mask, const Box& box) {
  std::array<std::int64_t, 256> counts{};
  for (std::int64_t y = box.top; y < box.top + box.height; ++y)
    for (std::int64_t x = box.left; x < box.left + box.width; ++x)
      ++counts[mask.labels[static_cast<std::size_t>(y * mask.width + x)]];
  const std::int64_t labelled = box.height * box.width - counts[kIgnoredLabel];
  counts[kIgnoredLabel] = 0;
  return labelled == 0 ? 1.0 : double(*std::max_element(counts.begin(), counts.end())) / double(labelled);
}

void distort(Image& image, const AugmentDraws& draws) {
  enum Step : std::uint32_t { kBrightness, kContrast, kSaturation, kHue, kOrder };
  const auto applies = [&](Step step) { return draws.chance(0.5, DrawName::distort_applied, step); };
  const auto amount = [&](Step step, double low, double high) {
    return static_cast<float>(draws.uniform(low, high, DrawName::distort_amount, step));
  };
  const auto contrast_now = [&] {
    if (!applies(kContrast)) return;
    const float factor = amount(kContrast, 0.5, 1.5);
    for_values(image, [&](float value) { return value * factor; });
  };
  if (applies(kBrightness)) {
    const float delta = amount(kBrightness, -32, 32);
    for_values(image, [&](float value) { return value + delta; });
  }
  const bool first = applies(kOrder);
  if (first) contrast_now();
  if (applies(kSaturation)) saturate(image, amount(kSaturation, 0.5, 1.5));
  if (applies(kHue)) hue(image, amount(kHue, -0.1, 0.1));
  if (!first) contrast_now();
}

SegmentTransform::SegmentTransform(const TrialConfig& config, const ImageSet& images)
    : images_(images),
      config_(config.train.augment.segment),
      flip_(config.train.augment.flip),
      size_{image_size(config.model)[0], image_size(config.model)[1]},
      channels_(normlab::channels(config.model)),
      keys_(augment_keys(images, config.seed)),
      tables_(images.channel_mean, images.channel_std) {
  if (images.channels != channels_ || (channels_ != 1 && channels_ != Image::kChannels))
    throw InputError(concat("model.channels: the model takes ", channels_, " channels, but the images have ",
                            images.channels, "; segmentation works with one or three"));
}

Box SegmentTransform::crop(const Mask& mask, const AugmentDraws& draws) const {
  constexpr std::uint32_t kTries = 10;  // after the first
  Box box{0, 0, std::min(mask.height, size_.height), std::min(mask.width, size_.width)};
  const auto rows = static_cast<std::uint32_t>(mask.height - box.height + 1),
             columns = static_cast<std::uint32_t>(mask.width - box.width + 1);
  for (std::uint32_t attempt = 0; attempt <= kTries; ++attempt) {
    box.top = draws.below(rows, DrawName::segment_crop, 2 * attempt);
    box.left = draws.below(columns, DrawName::segment_crop, 2 * attempt + 1);
    if (config_.max_share >= 1 || (rows == 1 && columns == 1) || largest_share(mask, box) <= config_.max_share) break;
  }
  return box;
}

template <class T>
void SegmentTransform::operator()(std::int64_t index, std::int64_t epoch, std::int64_t repeat,
                                  TransformScratch& scratch, T* out, std::int32_t* labels) const {
  const AugmentDraws draws(keys_[static_cast<std::size_t>(index)], epoch, repeat);
  const Image& whole = whole_image(images_, index, scratch.images);
  const ImageSize stored{whole.height, whole.width};
  images_.masks->read(index, scratch.whole_mask, scratch.images.bytes);
  require_same_size(scratch.whole_mask, stored, images_.masks->where(index));

  const double factor = draws.uniform(config_.scale[0], config_.scale[1], DrawName::segment_scale);
  const auto times = [&](std::int64_t side) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(double(side) * factor));
  };
  const std::int64_t shorter = config_.resize_to > 0 ? config_.resize_to : std::max(size_.height, size_.width);
  const ImageSize scaled =
      fitted_size(stored, times(shorter), config_.longest > 0 ? times(config_.longest) : 0, where_is(images_, index));
  resize(whole, Box{0, 0, stored.height, stored.width}, ResizeMethod::bilinear_plain, scaled.height, scaled.width,
         scratch.images.resized, scratch.images.resize);
  resize_mask(scratch.whole_mask, scaled.height, scaled.width, scratch.mask);

  const Box box = crop(scratch.mask, draws);
  Image& cut = scratch.sized;
  cut.resize(box.height, box.width);
  for (std::int64_t y = 0; y < box.height; ++y)
    std::copy_n(scratch.images.resized.row(box.top + y) + 3 * box.left, 3 * box.width, cut.row(y));
  const bool flips = flip_ && draws.words(DrawName::crop_and_flip)[2] >> 31 != 0;
  if (flips) flip_columns(cut);
  if (config_.photometric) distort(cut, draws);

  const PixelTable<T>& table = tables_.in<T>();
  std::fill_n(out, size_.height * size_.width * channels_, T(0));
  std::fill_n(labels, size_.height * size_.width, kIgnoredLabel);
  for (std::int64_t y = 0; y < box.height; ++y)
    for (std::int64_t x = 0; x < box.width; ++x) {
      for (std::int64_t c = 0; c < channels_; ++c)
        out[(y * size_.width + x) * channels_ + c] = table.channel(c)[cut.row(y)[3 * x + c]];
      const std::int64_t from = box.left + (flips ? box.width - 1 - x : x);
      labels[y * size_.width + x] =
          scratch.mask.labels[static_cast<std::size_t>((box.top + y) * scratch.mask.width + from)];
    }
}

template void SegmentTransform::operator()<float>(std::int64_t, std::int64_t, std::int64_t, TransformScratch&, float*,
                                                  std::int32_t*) const;
template void SegmentTransform::operator()<double>(std::int64_t, std::int64_t, std::int64_t, TransformScratch&, double*,
                                                   std::int32_t*) const;

}  // namespace normlab
