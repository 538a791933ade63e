#include "experiments/data/image_set.h"

#include <array>
#include <cmath>

#include "experiments/descriptor/sha256.h"

namespace normlab {
namespace {

__extension__ typedef unsigned __int128 Wide;  // n * (sum of squares) passes 64 bits from a million CIFAR images on

void hash_number(Sha256& sha, std::int64_t value) {
  std::array<unsigned char, 8> bytes{};
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<unsigned char>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
  sha.update(std::as_bytes(std::span(bytes)));
}

void hash_text(Sha256& sha, const std::string& text) {  // with its length, so that no two lists look alike
  hash_number(sha, static_cast<std::int64_t>(text.size()));
  sha.update(text);
}

std::string content_hash(const ImageSet& images) {
  Sha256 sha;
  for (const std::int64_t size : {images.size(), images.height, images.width, images.channels, images.num_classes}) {
    hash_number(sha, size);
  }
  for (const std::string& name : images.class_names) hash_text(sha, name);
  for (std::int64_t i = 0; i < images.size(); ++i) {
    hash_text(sha, images.key(i));
    hash_number(sha, images.labels[static_cast<std::size_t>(i)]);
  }
  sha.update(std::as_bytes(std::span(images.pixels)));
  return sha.hex();
}

}  // namespace

void finish_image_set(ImageSet& images) {
  images.hash = content_hash(images);
  const auto channels = static_cast<std::size_t>(images.channels);
  std::vector<std::uint64_t> sum(channels), squares(channels);
  // Rows of one image fit 32 bits, which the compiler turns into vectors.
  for (std::size_t first = 0; first < images.pixels.size();
       first += static_cast<std::size_t>(images.width) * channels) {
    for (std::size_t c = 0; c < channels; ++c) {
      std::uint32_t row_sum = 0, row_squares = 0;
      for (std::int64_t x = 0; x < images.width; ++x) {
        const std::uint32_t value = images.pixels[first + static_cast<std::size_t>(x) * channels + c];
        row_sum += value;
        row_squares += value * value;
      }
      sum[c] += row_sum;
      squares[c] += row_squares;
    }
  }
  images.channel_mean.assign(channels, 0);
  images.channel_std.assign(channels, 0);
  const auto pixels = static_cast<std::uint64_t>(images.size() * images.height * images.width);
  for (std::size_t c = 0; c < channels && pixels > 0; ++c) {
    const double n = static_cast<double>(pixels);
    const Wide spread = Wide{pixels} * squares[c] - Wide{sum[c]} * sum[c];  // n^2 times the variance, exactly
    images.channel_mean[c] = static_cast<double>(sum[c]) / n / 255;
    images.channel_std[c] = std::sqrt(static_cast<double>(spread)) / n / 255;
  }
}

}  // namespace normlab
