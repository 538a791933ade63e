#include "experiments/lab/data/ops/affine.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "experiments/lab/data/ops/gather.h"

namespace normlab {
namespace {

template <class T, int kTaps>
using Taps = std::array<const T*, kTaps>;

struct Bilinear {
  static constexpr int kTaps = 2, kFirst = 0;
  template <class T>
  static double between(const Taps<T, kTaps>& v, std::int64_t i, double t) {
    const double p = v[0][i], q = v[1][i];
    return p + (q - p) * t;
  }
};

struct Bicubic {
  static constexpr int kTaps = 4, kFirst = -1;
  template <class T>
  static double between(const Taps<T, kTaps>& v, std::int64_t i, double t) {
    const double p = v[0][i], q = v[1][i], r = v[2][i], s = v[3][i];
    const double square = 2 * (p - q) + r - s, cube = -p + q - r + s;
    return q + t * (-p + r + t * (square + t * cube));
  }
};

/// One row at a time. On an axis that the map leaves unchanged (shears and shifts leave one), the filter reduces to the
/// pixel itself: the formula at t = 0.
template <class Filter>
class Sampler {
 public:
  Sampler(const Image& source, const AffineMap& map, OpScratch& scratch)
      : map_(map),
        width_(source.width),
        height_(source.height),
        values_(3 * source.width),
        columns_fixed_(map.a == 1 && map.b == 0 && map.c == 0),
        rows_fixed_(map.d == 0 && map.e == 1 && map.f == 0),
        scratch_(scratch) {
    const auto count = static_cast<std::size_t>(values_);
    scratch.taps.resize(static_cast<std::size_t>(kTaps * kTaps) * (count + kFetchMargin));
    scratch.numbers.resize((kTaps + 4) * count);
    scratch.offsets.resize(static_cast<std::size_t>(4 * width_));
    x_ = scratch.numbers.data();
    y_ = x_ + width_;
    tx_ = x_ + values_;
    ty_ = tx_ + values_;
    mixed_ = ty_ + values_;
    inside_ = scratch.offsets.data();
    column_ = inside_ + width_;
    row_ = column_ + width_;
    offset_ = row_ + width_;
  }

  void write(const std::uint8_t* source, std::int64_t y, const Fill& fill, std::uint8_t* out) {
    locate(y);
    const int columns = columns_fixed_ ? 1 : kTaps, rows = rows_fixed_ ? 1 : kTaps;
    std::array<Taps<std::uint8_t, kTaps>, kTaps> taps{};
    for (int j = 0; j < rows; ++j) {
      for (int i = 0; i < columns; ++i)
        taps[j][i] = fetch(source, rows == 1 ? 0 : j + kFirst, columns == 1 ? 0 : i + kFirst, j * kTaps + i);
    }
    if (columns == 1 && rows == 1) {
      std::copy_n(taps[0][0], values_, out);
    } else if (columns == 1) {
      Taps<std::uint8_t, kTaps> lines;
      for (int j = 0; j < kTaps; ++j) lines[j] = taps[j][0];
      finish(lines, ty_, values_, out);
    } else if (rows == 1) {
      finish(taps[0], tx_, values_, out);
    } else {
      Taps<double, kTaps> lines;
      for (int j = 0; j < kTaps; ++j) {
        double* line = mixed_ + j * values_;
        mix(taps[j], tx_, values_, line);
        lines[j] = line;
      }
      finish(lines, ty_, values_, out);
    }
    for (std::int64_t x = 0; x < width_; ++x) {
      if (inside_[x] == 0) std::copy(fill.begin(), fill.end(), out + 3 * x);
    }
  }

 private:
  static constexpr int kTaps = Filter::kTaps, kFirst = Filter::kFirst;

  /// Source positions of a row: the whole pixel, and the fraction to the next one for each channel.
  void locate(std::int64_t row) {
    const AffineMap m = map_;
    const std::int64_t count = width_;
    const double middle = static_cast<double>(row) + 0.5, by = m.b * middle, ey = m.e * middle;
    const auto width = static_cast<double>(width_), height = static_cast<double>(height_);
    double* __restrict x = x_, * __restrict y = y_;
    std::int32_t* __restrict inside = inside_, * __restrict columns = column_, * __restrict rows = row_;
    for (std::int64_t i = 0; i < count; ++i) {
      const double at = static_cast<double>(static_cast<std::int32_t>(i)) + 0.5;
      const double sx = m.a * at + by + m.c, sy = m.d * at + ey + m.f;
      const bool here = (sx >= 0) & (sx < width) & (sy >= 0) & (sy < height);
      const double left = here ? sx - 0.5 : 0, top = here ? sy - 0.5 : 0;
      inside[i] = here;
      columns[i] = static_cast<std::int32_t>(std::floor(left));
      rows[i] = static_cast<std::int32_t>(std::floor(top));
      x[i] = left - std::floor(left);
      y[i] = top - std::floor(top);
    }
    if (!columns_fixed_) spread(x, count, tx_);
    if (!rows_fixed_) spread(y, count, ty_);
  }

  /// Repeats each pixel's value for every channel.
  static void spread(const double* __restrict in, std::int64_t count, double* __restrict out) {
    for (std::int64_t i = 0; i < count; ++i) out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = in[i];
  }

  const std::uint8_t* fetch(const std::uint8_t* source, int down, int right, int tap) {
    const auto width = static_cast<std::int32_t>(width_), height = static_cast<std::int32_t>(height_);
    const std::int32_t* __restrict columns = column_, * __restrict rows = row_;
    std::int32_t* __restrict offsets = offset_;
    for (std::int64_t i = 0; i < width; ++i) {
      const std::int32_t y = std::clamp(rows[i] + down, 0, height - 1),
                         x = std::clamp(columns[i] + right, 0, width - 1);
      offsets[i] = (y * width + x) * 3;
    }
    std::uint8_t* out = scratch_.taps.data() + tap * (values_ + static_cast<std::int64_t>(kFetchMargin));
    fetch_pixels(source, offsets, width_, out);
    return out;
  }

  static void mix(Taps<std::uint8_t, kTaps> lines, const double* __restrict t, std::int64_t count,
                  double* __restrict out) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = Filter::between(lines, i, t[i]);
  }

  template <class T>
  static void finish(Taps<T, kTaps> lines, const double* __restrict t, std::int64_t count,
                     std::uint8_t* __restrict out) {
    for (std::int64_t i = 0; i < count; ++i) {
      const double v = Filter::between(lines, i, t[i]), low = v > 0 ? v : 0;
      out[i] = static_cast<std::uint8_t>(static_cast<int>(low < 255 ? low : 255));
    }
  }

  const AffineMap& map_;
  std::int64_t width_, height_, values_;
  bool columns_fixed_, rows_fixed_;
  OpScratch& scratch_;
  double *x_, *y_, *tx_, *ty_, *mixed_;
  std::int32_t *inside_, *column_, *row_, *offset_;
};

template <class Filter>
void sample(Image& image, const AffineMap& map, const Fill& fill, OpScratch& scratch) {
  const std::size_t bytes = image.pixels.size();
  image.pixels.resize(bytes + kFetchMargin);
  image.pixels.swap(scratch.bytes);
  image.pixels.resize(bytes);
  Sampler<Filter> sampler(image, map, scratch);
  for (std::int64_t y = 0; y < image.height; ++y) sampler.write(scratch.bytes.data(), y, fill, image.row(y));
}

}  // namespace

void sample_pillow(Image& image, const AffineMap& map, ResizeMethod method, const Fill& fill, OpScratch& scratch) {
  if (method == ResizeMethod::bilinear) return sample<Bilinear>(image, map, fill, scratch);
  if (method == ResizeMethod::bicubic) return sample<Bicubic>(image, map, fill, scratch);
  throw InputError("geometric operations: interpolation must be nearest, bilinear or bicubic");
}

}  // namespace normlab
