// Without fused multiply-add (see the Makefile): the libraries that this must match are built for any CPU.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"
#include "experiments/lab/data/resize.h"

namespace normlab {
namespace {

double triangle(double x) {
  x = std::abs(x);
  return x < 1 ? 1 - x : 0;
}

double cubic(double x) {  // Keys 1981 with a = -0.5
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

double sinc(double x) {
  if (x == 0) return 1;
  x = x * std::numbers::pi;
  return std::sin(x) / x;
}

double lanczos3(double x) { return -3 <= x && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

/// The filter is widened by the factor by which the image shrinks.
template <class Filter>
void fill(Filter&& filter, double radius, ResizeWeights& w) {
  const std::int64_t in = w.axis.in, out = w.axis.out;
  const double pixel = static_cast<double>(w.axis.shrink), begin_at = static_cast<double>(w.axis.begin) / pixel;
  const double scale = static_cast<double>(w.axis.length) / pixel / static_cast<double>(out);
  const double stretch = std::max(scale, 1.0), support = radius * stretch, per_stretch = 1 / stretch;
  const auto range = [&](std::int64_t i, double& center) {
    center = begin_at + (static_cast<double>(i) + 0.5) * scale;
    return std::pair(std::max<std::int64_t>(0, static_cast<std::int64_t>(center - support + 0.5)),
                     std::min<std::int64_t>(in, static_cast<std::int64_t>(center + support + 0.5)));
  };
  double center = 0;
  w.taps = 1;
  for (std::int64_t i = 0; i < out; ++i) {
    const auto [begin, end] = range(i, center);
    w.taps = std::max(w.taps, end - begin);
  }
  w.first.resize(static_cast<std::size_t>(out));
  w.weights.assign(static_cast<std::size_t>(out * w.taps), 0);
  w.values.resize(static_cast<std::size_t>(w.taps));
  for (std::int64_t i = 0; i < out; ++i) {
    const auto [begin, end] = range(i, center);
    double total = 0;
    for (std::int64_t j = 0; j < end - begin; ++j) {
      const double value = filter((static_cast<double>(j) + static_cast<double>(begin) - center + 0.5) * per_stretch);
      w.values[static_cast<std::size_t>(j)] = value;
      total += value;
    }
    const std::int64_t first = std::min(begin, in - w.taps);
    w.first[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(first);
    std::int32_t* weights = w.weights.data() + i * w.taps + begin - first;
    for (std::int64_t j = 0; j < end - begin; ++j) {
      const double value = w.values[static_cast<std::size_t>(j)], share = total != 0 ? value / total : value;
      const double units = share * (1 << 22);
      weights[j] = static_cast<std::int32_t>(share < 0 ? -0.5 + units : 0.5 + units);
    }
  }
}

}  // namespace

void make_resize_weights(const ResizeAxis& axis, ResizeWeights& result) {
  result.axis = axis;
  if (axis.method == ResizeMethod::bilinear)
    fill(triangle, 1, result);
  else if (axis.method == ResizeMethod::bicubic)
    fill(cubic, 2, result);
  else
    fill(lanczos3, 3, result);
}

const ResizeWeights& ResizeScratch::weights(const ResizeAxis& axis) {
  const std::int64_t mixed =
      axis.length * 31 + axis.out * 7 + axis.begin * 3 + axis.shrink * 5 + static_cast<std::int64_t>(axis.method) * 151;
  ResizeWeights& cached = cache_[static_cast<std::size_t>(mixed) % kCached];
  if (cached.axis != axis) make_resize_weights(axis, cached);
  return cached;
}

/// Pillow accumulates positions, so the last column's value depends on the rounding of all earlier ones.
void resize_nearest(const Image& in, Box box, Image& out, ResizeScratch& scratch) {
  const auto positions = [](std::int64_t from, std::int64_t to, std::int32_t* result) {
    const double step = static_cast<double>(from) / static_cast<double>(to);
    double at = step * 0.5;
    for (std::int64_t i = 0; i < to; ++i, at += step)
      result[i] = static_cast<std::int32_t>(std::min(from - 1, static_cast<std::int64_t>(at)));
  };
  scratch.indices.resize(static_cast<std::size_t>(out.height + out.width));
  std::int32_t *rows = scratch.indices.data(), *columns = rows + out.height;
  positions(box.height, out.height, rows);
  positions(box.width, out.width, columns);
  for (std::int64_t y = 0; y < out.height; ++y) {
    const std::uint8_t* from = in.row(box.top + rows[y]) + box.left * 3;
    std::uint8_t* to = out.row(y);
    for (std::int64_t x = 0; x < out.width; ++x, to += 3) std::copy_n(from + columns[x] * 3, 3, to);
  }
}

}  // namespace normlab
