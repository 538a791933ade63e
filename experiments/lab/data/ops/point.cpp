#include <algorithm>
#include <array>
#include <cmath>

#include "experiments/lab/data/ops/tone.h"

namespace normlab {
namespace {

using Table = std::array<std::uint8_t, 256>;
using Histogram = std::array<std::array<std::uint32_t, 256>, Image::kChannels>;

void map(Image& image, const Table (&tables)[Image::kChannels]) {
  std::uint8_t* p = image.pixels.data();
  for (const std::uint8_t* end = p + image.pixels.size(); p != end; p += Image::kChannels) {
    p[0] = tables[0][p[0]];
    p[1] = tables[1][p[1]];
    p[2] = tables[2][p[2]];
  }
}

Histogram histogram(const Image& image) {
  // Two alternating sets of counters: equal neighbours would otherwise wait for each other's store.
  Histogram even{}, odd{};
  const std::uint8_t* p = image.pixels.data();
  std::size_t pixels = image.pixels.size() / Image::kChannels;
  for (; pixels >= 2; pixels -= 2, p += 6) {
    ++even[0][p[0]];
    ++even[1][p[1]];
    ++even[2][p[2]];
    ++odd[0][p[3]];
    ++odd[1][p[4]];
    ++odd[2][p[5]];
  }
  if (pixels == 1) {
    for (std::size_t c = 0; c < 3; ++c) ++even[c][p[c]];
  }
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t v = 0; v < 256; ++v) even[c][v] += odd[c][v];
  }
  return even;
}

Table identity() {
  Table table;
  for (std::size_t v = 0; v < 256; ++v) table[v] = static_cast<std::uint8_t>(v);
  return table;
}

template <class T>
Table stretched(std::uint8_t low, std::uint8_t high) {
  if (high <= low) return identity();
  const T scale = T(255) / static_cast<T>(high - low), offset = static_cast<T>(low) * scale;
  Table table;
  for (std::size_t v = 0; v < 256; ++v) {
    const T value = static_cast<T>(v) * scale - offset;
    table[v] = static_cast<std::uint8_t>(std::clamp(value, T(0), T(255)));
  }
  return table;
}

Table equalized(const std::array<std::uint32_t, 256>& counts) {
  std::uint32_t total = 0, brightest = 0;
  for (const std::uint32_t count : counts) {
    total += count;
    if (count > 0) brightest = count;
  }
  const std::uint32_t step = (total - brightest) / 255;
  if (step == 0) return identity();
  Table table;
  std::uint32_t below = step / 2;
  for (std::size_t v = 0; v < 256; ++v) {
    table[v] = static_cast<std::uint8_t>(std::min<std::uint32_t>(below / step, 255));
    below += counts[v];
  }
  return table;
}

}  // namespace

void invert(Image& image) {
  for (std::uint8_t& v : image.pixels) v = static_cast<std::uint8_t>(255 - v);
}

void posterize(Image& image, int bits, PixelArithmetic arithmetic) {
  const int dropped = std::min(8 - bits, arithmetic == PixelArithmetic::tensorflow ? 7 : 8);
  const auto mask = static_cast<std::uint8_t>(0xff << dropped);
  for (std::uint8_t& v : image.pixels) v &= mask;
}

void solarize(Image& image, double threshold) {
  const int first = static_cast<int>(std::clamp(std::ceil(threshold), 0.0, 256.0));
  if (first == 256) return;
  const auto limit = static_cast<std::uint8_t>(first);
  for (std::uint8_t& v : image.pixels) v = v < limit ? v : static_cast<std::uint8_t>(255 - v);
}

void solarize_add(Image& image, int addition, int threshold) {
  for (std::uint8_t& v : image.pixels) {
    const int sum = std::clamp(v + addition, 0, 255);
    v = v < threshold ? static_cast<std::uint8_t>(sum) : v;
  }
}

void auto_contrast(Image& image, PixelArithmetic arithmetic) {
  // Minima and maxima by position in groups of 16 pixels, which compilers vectorise.
  constexpr std::size_t kGroup = 48;
  std::uint8_t low[kGroup], high[kGroup];
  std::fill_n(low, kGroup, std::uint8_t{255});
  std::fill_n(high, kGroup, std::uint8_t{0});
  const std::uint8_t* p = image.pixels.data();
  const std::size_t values = image.pixels.size(), whole = values - values % kGroup;
  const auto see = [&](std::size_t i, std::uint8_t v) {
    low[i] = std::min(low[i], v);
    high[i] = std::max(high[i], v);
  };
  for (std::size_t at = 0; at < whole; at += kGroup) {
    for (std::size_t i = 0; i < kGroup; ++i) see(i, p[at + i]);
  }
  for (std::size_t at = whole; at < values; ++at) see(at - whole, p[at]);
  Table tables[3];
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t i = c; i < kGroup; i += 3) {
      low[c] = std::min(low[c], low[i]);
      high[c] = std::max(high[c], high[i]);
    }
    tables[c] =
        arithmetic == PixelArithmetic::pillow ? stretched<double>(low[c], high[c]) : stretched<float>(low[c], high[c]);
  }
  map(image, tables);
}

void equalize(Image& image) {
  const Histogram counts = histogram(image);
  const Table tables[] = {equalized(counts[0]), equalized(counts[1]), equalized(counts[2])};
  map(image, tables);
}

void cutout(Image& image, std::int64_t row, std::int64_t column, std::int64_t side, const Fill& fill) {
  const auto span = [&](std::int64_t first, std::int64_t size) {
    return std::pair(std::clamp<std::int64_t>(first, 0, size), std::clamp<std::int64_t>(first + side, 0, size));
  };
  const auto [top, bottom] = span(row, image.height);
  const auto [left, right] = span(column, image.width);
  for (std::int64_t y = top; y < bottom; ++y) {
    for (std::int64_t x = left; x < right; ++x) std::copy_n(fill.data(), 3, image.row(y) + 3 * x);
  }
}

}  // namespace normlab
