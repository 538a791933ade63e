#include "experiments/data/ops/sample.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "experiments/data/ops/gather.h"
#include "experiments/data/ops/rounded.h"

namespace normlab {
namespace {

struct Bilinear {
  static constexpr int kTaps = 2, kFirst = 0;
  template <class T>
  static double between(const T* const* v, std::int64_t i, double t) {
    const double p = v[0][i], q = v[1][i];
    return p + rounded((q - p) * t);
  }
};

struct Bicubic {
  static constexpr int kTaps = 4, kFirst = -1;
  template <class T>
  static double between(const T* const* v, std::int64_t i, double t) {
    const double p = v[0][i], q = v[1][i], r = v[2][i], s = v[3][i];
    const double square = 2 * (p - q) + r - s, cube = -p + q - r + s;
    return q + rounded(t * (-p + r + rounded(t * (square + rounded(t * cube)))));
  }
};

/// One row of the result at a time. Where an axis is left as it is (shears and shifts leave one), only the pixel itself
/// is needed of it: the formula at t = 0.
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
    const std::uint8_t* taps[kTaps][kTaps] = {};
    for (int j = 0; j < rows; ++j) {
      for (int i = 0; i < columns; ++i)
        taps[j][i] = fetch(source, rows == 1 ? 0 : j + kFirst, columns == 1 ? 0 : i + kFirst, j * kTaps + i);
    }
    if (columns == 1 && rows == 1) {
      std::copy_n(taps[0][0], values_, out);
    } else if (columns == 1) {
      const std::uint8_t* lines[kTaps];
      for (int j = 0; j < kTaps; ++j) lines[j] = taps[j][0];
      finish(lines, ty_, out);
    } else if (rows == 1) {
      finish(taps[0], tx_, out);
    } else {
      const double* lines[kTaps];
      for (int j = 0; j < kTaps; ++j) {
        double* line = mixed_ + j * values_;
        for (std::int64_t i = 0; i < values_; ++i) line[i] = Filter::between(taps[j], i, tx_[i]);
        lines[j] = line;
      }
      finish(lines, ty_, out);
    }
    for (std::int64_t x = 0; x < width_; ++x) {
      if (inside_[x] == 0) std::copy(fill.begin(), fill.end(), out + 3 * x);
    }
  }

 private:
  static constexpr int kTaps = Filter::kTaps, kFirst = Filter::kFirst;

  /// Where each pixel comes from: whole pixels, and the way to the next for each channel.
  void locate(std::int64_t y) {
    const double middle = static_cast<double>(y) + 0.5, by = map_.b * middle, ey = map_.e * middle;
    const auto width = static_cast<double>(width_), height = static_cast<double>(height_);
    for (std::int64_t i = 0; i < width_; ++i) {
      const double x = static_cast<double>(static_cast<std::int32_t>(i)) + 0.5;
      const double sx = rounded(map_.a * x) + rounded(by) + map_.c, sy = rounded(map_.d * x) + rounded(ey) + map_.f;
      const bool inside = (sx >= 0) & (sx < width) & (sy >= 0) & (sy < height);
      inside_[i] = inside;
      x_[i] = inside ? sx - 0.5 : 0;
      y_[i] = inside ? sy - 0.5 : 0;
    }
    for (std::int64_t i = 0; i < width_; ++i) {
      column_[i] = static_cast<std::int32_t>(std::floor(x_[i]));
      row_[i] = static_cast<std::int32_t>(std::floor(y_[i]));
    }
    for (std::int64_t i = 0; i < width_; ++i)
      ty_[3 * i] = ty_[3 * i + 1] = ty_[3 * i + 2] = y_[i] - static_cast<double>(row_[i]);
    for (std::int64_t i = 0; i < width_; ++i)
      tx_[3 * i] = tx_[3 * i + 1] = tx_[3 * i + 2] = x_[i] - static_cast<double>(column_[i]);
  }

  const std::uint8_t* fetch(const std::uint8_t* source, int down, int right, int tap) {
    const auto width = static_cast<std::int32_t>(width_), height = static_cast<std::int32_t>(height_);
    for (std::int64_t i = 0; i < width_; ++i) {
      const std::int32_t y = std::clamp(row_[i] + down, 0, height - 1),
                         x = std::clamp(column_[i] + right, 0, width - 1);
      offset_[i] = (y * width + x) * 3;
    }
    std::uint8_t* out = scratch_.taps.data() + tap * (values_ + static_cast<std::int64_t>(kFetchMargin));
    fetch_pixels(source, offset_, width_, out);
    return out;
  }

  template <class T>
  void finish(const T* const* lines, const double* t, std::uint8_t* out) {
    for (std::int64_t i = 0; i < values_; ++i) {
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
  throw InputError("geometric operations: interpolation is nearest, bilinear or bicubic");
}

}  // namespace normlab
