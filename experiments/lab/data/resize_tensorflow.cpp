// The two TensorFlow resize methods that Big Vision uses. Without fused multiply-add, like resize_weights.cpp.
#include <algorithm>
#include <cmath>

#include "experiments/lab/data/resize.h"

namespace normlab {
namespace {

/// `share` is the second one's weight: resize_bilinear_op.cc with half_pixel_centers, in float.
struct Neighbours {
  std::int32_t *lower, *upper;
  float* share;
  void fill(std::int64_t in, std::int64_t out) const {
    const float scale = static_cast<float>(in) / static_cast<float>(out);
    for (std::int64_t i = 0; i < out; ++i) {
      const float at = (static_cast<float>(i) + 0.5f) * scale - 0.5f, floor = std::floor(at);
      upper[i] = static_cast<std::int32_t>(std::min<std::int64_t>(static_cast<std::int64_t>(std::ceil(at)), in - 1));
      lower[i] =
          std::min(static_cast<std::int32_t>(std::max<std::int64_t>(static_cast<std::int64_t>(floor), 0)), upper[i]);
      share[i] = at - floor;
    }
  }
};

/// Between columns lower[x] and upper[x].
void mix_columns(const std::uint8_t* row, const Neighbours& columns, std::int64_t width, float* out) {
  for (std::int64_t x = 0; x < width; ++x) {
    const std::uint8_t *left = row + columns.lower[x] * 3, *right = row + columns.upper[x] * 3;
    for (std::int64_t c = 0; c < 3; ++c) {
      const float from = left[c], to = right[c];
      out[x * 3 + c] = from + (to - from) * columns.share[x];
    }
  }
}

/// An output is `in` units long and an input `out` units, so overlaps are integers.
template <class See>
void for_overlaps(std::int64_t in, std::int64_t out, std::int64_t i, See&& see) {
  const std::int64_t begin = i * in, end = begin + in;
  for (std::int64_t j = begin / out; j * out < end; ++j)
    see(j, std::min(end, (j + 1) * out) - std::max(begin, j * out));
}

template <class T>
void mix_bilinear(const Image& in, Box box, std::int64_t height, std::int64_t width, T* out, ResizeScratch& scratch) {
  const std::int64_t values = width * 3;
  scratch.indices.resize(static_cast<std::size_t>(2 * (width + height)));
  scratch.fractions.resize(static_cast<std::size_t>(width + height));
  scratch.rows.resize(static_cast<std::size_t>(2 * values));
  std::int32_t* indices = scratch.indices.data();
  const Neighbours columns{indices, indices + width, scratch.fractions.data()};
  const Neighbours rows{indices + 2 * width, indices + 2 * width + height, scratch.fractions.data() + width};
  columns.fill(box.width, width);
  rows.fill(box.height, height);
  // Keeps two mixed rows, which enlarged images reuse.
  float* mixed[2] = {scratch.rows.data(), scratch.rows.data() + values};
  std::int64_t held[2] = {-1, -1};
  const auto row = [&](std::int64_t y, std::int64_t keep) {
    const int slot = held[0] == y ? 0 : held[1] == y ? 1 : held[0] == keep ? 1 : 0;
    if (held[slot] != y) mix_columns(in.row(box.top + y) + box.left * 3, columns, width, mixed[slot]);
    held[slot] = y;
    return mixed[slot];
  };
  for (std::int64_t y = 0; y < height; ++y, out += values) {
    const float* top = row(rows.lower[y], rows.upper[y]);
    const float* bottom = row(rows.upper[y], rows.lower[y]);
    const float share = rows.share[y];
    for (std::int64_t v = 0; v < values; ++v) out[v] = static_cast<T>(top[v] + (bottom[v] - top[v]) * share);
  }
}

}  // namespace

void resize_bilinear_plain(const Image& in, Box box, Image& out, ResizeScratch& scratch) {
  mix_bilinear(in, box, out.height, out.width, out.pixels.data(), scratch);
}

std::vector<float> bilinear_plain_floats(const Image& in, Box box, std::int64_t height, std::int64_t width,
                                         ResizeScratch& scratch) {
  std::vector<float> values(static_cast<std::size_t>(height * width * 3));
  mix_bilinear(in, box, height, width, values.data(), scratch);
  return values;
}

void resize_area(const Image& in, Box box, Image& out, ResizeScratch& scratch) {
  const std::int64_t values = box.width * 3, area = box.height * box.width;
  // For each output column: the inputs it covers and their overlaps.
  scratch.indices.clear();
  for (std::int64_t x = 0; x < out.width; ++x)
    for_overlaps(box.width, out.width, x, [&](std::int64_t j, std::int64_t overlap) {
      scratch.indices.push_back(static_cast<std::int32_t>(j * 3));
      scratch.indices.push_back(static_cast<std::int32_t>(overlap));
    });
  scratch.sums.resize(static_cast<std::size_t>(values));
  std::uint32_t* sums = scratch.sums.data();
  for (std::int64_t y = 0; y < out.height; ++y) {
    std::fill_n(sums, values, 0u);
    for_overlaps(box.height, out.height, y, [&](std::int64_t j, std::int64_t overlap) {
      const std::uint8_t* row = in.row(box.top + j) + box.left * 3;
      for (std::int64_t v = 0; v < values; ++v) sums[v] += static_cast<std::uint32_t>(overlap) * row[v];
    });
    const std::int32_t* covered = scratch.indices.data();
    std::uint8_t* to = out.row(y);
    for (std::int64_t x = 0; x < out.width; ++x, to += 3) {
      std::uint64_t red = 0, green = 0, blue = 0;
      for (std::int64_t left = box.width; left > 0; left -= covered[1], covered += 2) {
        const std::uint32_t* at = sums + covered[0];
        const auto overlap = static_cast<std::uint64_t>(covered[1]);
        red += overlap * at[0], green += overlap * at[1], blue += overlap * at[2];
      }
      to[0] = static_cast<std::uint8_t>(red / static_cast<std::uint64_t>(area));
      to[1] = static_cast<std::uint8_t>(green / static_cast<std::uint64_t>(area));
      to[2] = static_cast<std::uint8_t>(blue / static_cast<std::uint64_t>(area));
    }
  }
}

}  // namespace normlab
