#include "experiments/lab/data/image_set.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace normlab {
namespace {

__extension__ typedef unsigned __int128 Wide;  // n * (sum of squares) exceeds 64 bits from a million CIFAR images

std::string content_hash(const ImageSet& images) {
  SetHash hash;
  hash.set(images, {images.size(), images.height, images.width, images.channels, images.num_classes},
           [](std::int64_t) {});
  hash.bytes(images.pixels);
  Mask mask;
  std::vector<std::uint8_t> bytes;
  for (std::int64_t i = 0; images.masks && i < images.size(); ++i) {
    images.masks->read(i, mask, bytes);
    hash.bytes(mask.labels);
  }
  return hash.hex();
}

}  // namespace

void SetHash::number(std::int64_t value) {
  std::array<unsigned char, 8> bytes{};
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<unsigned char>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
  sha_.update(std::as_bytes(std::span(bytes)));
}

void SetHash::text(const std::string& text) {
  number(static_cast<std::int64_t>(text.size()));
  sha_.update(text);
}

PixelSums::PixelSums(std::int64_t channels)
    : sum_(static_cast<std::size_t>(channels)), squares_(static_cast<std::size_t>(channels)) {}

void PixelSums::add(const std::uint8_t* pixels, std::int64_t rows, std::int64_t width) {
  // A row's sum of squares must fit 32 bits, so that the compiler vectorises it.
  constexpr std::int64_t kPiece = std::int64_t{1} << 16;
  const std::size_t channels = sum_.size();
  for (std::int64_t y = 0; y < rows; ++y) {
    for (std::int64_t left = width; left > 0; left -= kPiece) {
      const std::int64_t count = std::min(left, kPiece);
      for (std::size_t c = 0; c < channels; ++c) {
        std::uint32_t row_sum = 0, row_squares = 0;
        for (std::int64_t x = 0; x < count; ++x) {
          const std::uint32_t value = pixels[static_cast<std::size_t>(x) * channels + c];
          row_sum += value;
          row_squares += value * value;
        }
        sum_[c] += row_sum;
        squares_[c] += row_squares;
      }
      pixels += static_cast<std::size_t>(count) * channels;
    }
  }
  pixels_ += static_cast<std::uint64_t>(rows * width);
}

void PixelSums::add(const PixelSums& other) {
  for (std::size_t c = 0; c < sum_.size(); ++c) {
    sum_[c] += other.sum_[c];
    squares_[c] += other.squares_[c];
  }
  pixels_ += other.pixels_;
}

std::vector<double> PixelSums::mean() const {
  std::vector<double> out(sum_.size());
  for (std::size_t c = 0; c < out.size() && pixels_ > 0; ++c) {
    out[c] = static_cast<double>(sum_[c]) / static_cast<double>(pixels_) / 255;
  }
  return out;
}

std::vector<double> PixelSums::deviation() const {
  std::vector<double> out(sum_.size());
  for (std::size_t c = 0; c < out.size() && pixels_ > 0; ++c) {
    const Wide spread = Wide{pixels_} * squares_[c] - Wide{sum_[c]} * sum_[c];  // n^2 times the variance, exactly
    out[c] = std::sqrt(static_cast<double>(spread)) / static_cast<double>(pixels_) / 255;
  }
  return out;
}

void finish_image_set(ImageSet& images) {
  if (images.encoded) return;
  images.hash = content_hash(images);
  PixelSums sums(images.channels);
  sums.add(images.pixels.data(), images.size() * images.height, images.width);
  images.channel_mean = sums.mean();
  images.channel_std = sums.deviation();
}

}  // namespace normlab
