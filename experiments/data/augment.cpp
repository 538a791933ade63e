#include "experiments/data/augment.h"

#include <algorithm>

#include "core/error.h"

namespace normlab {
namespace {

/// `count` pixels from `from` on (backwards where `step` is negative). Three channels is what images have; others go by
/// a loop.
template <class T>
void copy_pixels(const PixelTable<T>& table, std::int64_t channels, const std::uint8_t* from, std::int64_t step,
                 std::int64_t count, T* out) {
  if (channels == 3) {
    const T *red = table.channel(0), *green = table.channel(1), *blue = table.channel(2);
    for (std::int64_t x = 0; x < count; ++x, from += step, out += 3) {
      out[0] = red[from[0]];
      out[1] = green[from[1]];
      out[2] = blue[from[2]];
    }
    return;
  }
  for (std::int64_t x = 0; x < count; ++x, from += step, out += channels) {
    for (std::int64_t c = 0; c < channels; ++c) out[c] = table.channel(c)[from[c]];
  }
}

template <class T>
void fill_black(const PixelTable<T>& table, std::int64_t channels, std::int64_t count, T* out) {
  for (std::int64_t x = 0; x < count; ++x) {
    for (std::int64_t c = 0; c < channels; ++c) *out++ = table.channel(c)[0];
  }
}

}  // namespace

template <class T>
PixelTable<T>::PixelTable(const std::vector<double>& mean, const std::vector<double>& std) {
  if (mean.size() != std.size()) {
    throw InputError(concat("normalisation: ", mean.size(), " means and ", std.size(), " deviations"));
  }
  values_.resize(mean.size() * 256);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const double scale = std[i / 256] == 0 ? 1 : std[i / 256];
    values_[i] = static_cast<T>((static_cast<double>(i % 256) / 255 - mean[i / 256]) / scale);
  }
}

std::vector<StreamKey> augment_keys(const ImageSet& images, std::uint64_t seed) {
  std::vector<StreamKey> keys(static_cast<std::size_t>(images.size()));
  for (std::int64_t i = 0; i < images.size(); ++i) {
    keys[static_cast<std::size_t>(i)] = stream_key(seed, "augment", images.key(i));
  }
  return keys;
}

template <class T>
void make_image(const ImageSet& images, std::int64_t index, const AugmentConfig& augment, StreamKey key,
                std::int64_t epoch, const PixelTable<T>& table, T* out) {
  const auto words = draw(key, 0, static_cast<std::uint64_t>(epoch));
  const std::int64_t padding = augment.crop_padding;
  const auto offsets = static_cast<std::uint32_t>(2 * padding + 1);
  const std::int64_t row = std::int64_t{below(words[0], offsets)} - padding;
  const std::int64_t column = std::int64_t{below(words[1], offsets)} - padding;
  const bool flip = augment.flip && (words[2] >> 31) != 0;

  const std::int64_t height = images.height, width = images.width, channels = images.channels;
  const std::uint8_t* image = images.image(index);
  // Columns of the crop that show the image: [left, right); the same counted from the other side once it is flipped.
  const std::int64_t left = std::clamp<std::int64_t>(-column, 0, width);
  const std::int64_t right = std::max(left, std::clamp<std::int64_t>(width - column, 0, width));
  const std::int64_t before = flip ? width - right : left, count = right - left;
  for (std::int64_t y = 0; y < height; ++y, out += width * channels) {
    if (y + row < 0 || y + row >= height || count == 0) {
      fill_black(table, channels, width, out);
      continue;
    }
    const std::uint8_t* source = image + ((y + row) * width + (flip ? right - 1 : left) + column) * channels;
    fill_black(table, channels, before, out);
    copy_pixels(table, channels, source, flip ? -channels : channels, count, out + before * channels);
    fill_black(table, channels, width - before - count, out + (before + count) * channels);
  }
}

template <class T>
void make_image(const ImageSet& images, std::int64_t index, const PixelTable<T>& table, T* out) {
  copy_pixels(table, images.channels, images.image(index), images.channels, images.height * images.width, out);
}

#define NORMLAB_FOR(T)                                                                                      \
  template class PixelTable<T>;                                                                             \
  template void make_image<T>(const ImageSet&, std::int64_t, const AugmentConfig&, StreamKey, std::int64_t, \
                              const PixelTable<T>&, T*);                                                    \
  template void make_image<T>(const ImageSet&, std::int64_t, const PixelTable<T>&, T*);
NORMLAB_FOR(float)
NORMLAB_FOR(double)
#undef NORMLAB_FOR

}  // namespace normlab
