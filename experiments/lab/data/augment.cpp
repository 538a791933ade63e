#include "experiments/lab/data/augment.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"

namespace normlab {
namespace {

constexpr double kLargestBf16 = 0x1.fep127;

/// A PixelTable that keeps bytes.
struct SameBytes {
  const std::uint8_t* channel(std::int64_t) const { return kBytes.data(); }
  static constexpr auto kBytes = [] {
    std::array<std::uint8_t, 256> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
    return bytes;
  }();
};

/// Goes backwards if `step` is negative. Three channels have a fast path.
template <class Table, class T>
void copy_pixels(const Table& table, std::int64_t channels, const std::uint8_t* from, std::int64_t step,
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

template <class Table, class T>
void fill_black(const Table& table, std::int64_t channels, std::int64_t count, T* out) {
  for (std::int64_t x = 0; x < count; ++x) {
    for (std::int64_t c = 0; c < channels; ++c) *out++ = table.channel(c)[0];
  }
}

/// A padded crop starting at (row, column) of the image, then a flip.
struct Move {
  std::int64_t row = 0, column = 0;
  bool flip = false;
};

Move draw_move(const MoveSteps& steps, const AugmentDraws& draws) {
  const auto words = draws.words(DrawName::crop_and_flip);
  const std::int64_t padding = steps.crop_padding;
  const auto offsets = static_cast<std::uint32_t>(2 * padding + 1);
  Move move{std::int64_t{below(words[0], offsets)} - padding, std::int64_t{below(words[1], offsets)} - padding,
            steps.flip && (words[2] >> 31) != 0};
  if (move.flip && steps.flip_first) move.column = -move.column;  // the same pixels by a crop and then a flip
  return move;
}

/// Black where `image` does not reach; both are [height, width, channels].
template <class Table, class T>
void put_moved(const std::uint8_t* image, std::int64_t height, std::int64_t width, std::int64_t channels,
               const Move& move, const Table& table, T* out) {
  // Columns of the crop that show the image: [left, right), counted from the other side after a flip.
  const std::int64_t left = std::clamp<std::int64_t>(-move.column, 0, width);
  const std::int64_t right = std::max(left, std::clamp<std::int64_t>(width - move.column, 0, width));
  const std::int64_t before = move.flip ? width - right : left, count = right - left;
  for (std::int64_t y = 0; y < height; ++y, out += width * channels) {
    if (y + move.row < 0 || y + move.row >= height || count == 0) {
      fill_black(table, channels, width, out);
      continue;
    }
    const std::int64_t first = (y + move.row) * width + (move.flip ? right - 1 : left) + move.column;
    fill_black(table, channels, before, out);
    copy_pixels(table, channels, image + first * channels, move.flip ? -channels : channels, count,
                out + before * channels);
    fill_black(table, channels, width - before - count, out + (before + count) * channels);
  }
}

}  // namespace

template <class T>
PixelTable<T>::PixelTable(const std::vector<double>& mean, const std::vector<double>& std) {
  if (mean.size() != std.size()) {
    throw InputError(concat("normalisation: ", mean.size(), " means and ", std.size(), " standard deviations"));
  }
  values_.resize(mean.size() * 256);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const double scale = std[i / 256] == 0 ? 1 : std[i / 256];
    const double value = (static_cast<double>(i % 256) / 255 - mean[i / 256]) / scale;
    if (!(std::abs(value) <= kLargestBf16))
      throw InputError(concat("normalisation: mean ", mean[i / 256], " and standard deviation ", std[i / 256],
                              " of channel ", i / 256, " turn a pixel of ", i % 256, " into ", value,
                              ", which is not a finite number in every precision"));
    values_[i] = static_cast<T>(value);
  }
}

std::vector<StreamKey> augment_keys(const ImageSet& images, std::uint64_t seed) {
  std::vector<StreamKey> keys(static_cast<std::size_t>(images.size()));
  for (std::int64_t i = 0; i < images.size(); ++i)
    keys[static_cast<std::size_t>(i)] = stream_key(seed, "augment", images.key(i));
  return keys;
}

template <class T>
void make_image(const ImageSet& images, std::int64_t index, const MoveSteps& steps, const AugmentDraws& draws,
                const PixelTable<T>& table, T* out) {
  put_moved(images.image(index), images.height, images.width, images.channels, draw_move(steps, draws), table, out);
}

template <class T>
void make_image(const ImageSet& images, std::int64_t index, const PixelTable<T>& table, T* out) {
  copy_pixels(table, images.channels, images.image(index), images.channels, images.height * images.width, out);
}

void move_image(const Image& in, const MoveSteps& steps, const AugmentDraws& draws, Image& out) {
  out.resize(in.height, in.width);
  put_moved(in.pixels.data(), in.height, in.width, Image::kChannels, draw_move(steps, draws), SameBytes{},
            out.pixels.data());
}

template <class T>
void normalise_image(const Image& in, std::int64_t channels, const PixelTable<T>& table, T* out) {
  copy_pixels(table, channels, in.pixels.data(), Image::kChannels, in.height * in.width, out);
}

#define NORMLAB_FOR(T)                                                                              \
  template class PixelTable<T>;                                                                     \
  template void make_image<T>(const ImageSet&, std::int64_t, const MoveSteps&, const AugmentDraws&, \
                              const PixelTable<T>&, T*);                                            \
  template void make_image<T>(const ImageSet&, std::int64_t, const PixelTable<T>&, T*);             \
  template void normalise_image<T>(const Image&, std::int64_t, const PixelTable<T>&, T*);
NORMLAB_FOR(float)
NORMLAB_FOR(double)
#undef NORMLAB_FOR

}  // namespace normlab
