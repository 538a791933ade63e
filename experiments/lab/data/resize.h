// Image resizing, bit for bit as in the libraries that the papers' code uses.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/lab/data/image.h"
#include "experiments/lab/descriptor/config.h"

namespace normlab {

/// Resizing along one axis. The source part is `length` long from `begin`, in units of which `shrink` make a pixel (see
/// ScaledBox), and touches `in` pixels.
struct ResizeAxis {
  ResizeMethod method = ResizeMethod::nearest;
  std::int64_t in = 0, out = 0, begin = 0, length = 0, shrink = 1;
  bool operator==(const ResizeAxis&) const = default;
};

/// Output i is the sum over t < taps of weights[i, t] times input first[i] + t, in units of 2^-22. Shorter filters are
/// padded with weights of 0.
struct ResizeWeights {
  ResizeAxis axis;
  std::int64_t taps = 0;
  std::vector<std::int32_t> first;    // [out]; first + taps <= in
  std::vector<std::int32_t> weights;  // [out, taps]
  std::vector<double> values;         // one output's filter, while computing weights
};
/// Pillow's bilinear, bicubic and lanczos (Pillow, Resample.c: precompute_coeffs).
void make_resize_weights(const ResizeAxis& axis, ResizeWeights& result);

/// Reusable memory for `resize`; one per thread.
class ResizeScratch {
 public:
  ResizeScratch() : cache_(kCached) {}
  /// Cached.
  const ResizeWeights& weights(const ResizeAxis& axis);

  Image between;                       // after the horizontal pass
  std::vector<std::uint8_t> columns;   // of sixteen rows, column by column
  std::vector<std::int32_t> indices;   // of columns and rows
  std::vector<float> fractions, rows;  // bilinear_plain
  std::vector<std::uint32_t> sums;     // area

 private:
  static constexpr std::size_t kCached = 512;
  std::vector<ResizeWeights> cache_;
};

/// Resizes the pixels of `box` to [height, width]; pixels outside have no effect. nearest, bilinear, bicubic, lanczos:
/// Pillow's Image.resize of the cropped box (8-bit path: width first, rounded to bytes, then height). bilinear_plain:
/// TensorFlow's bilinear without antialiasing, half-pixel centres, in float, truncated to bytes. area: the exact mean
/// over an output pixel's area, truncated to bytes; TensorFlow's float sums are within one level of it.
/// ResizeMethod::random is an error, as is a box outside the image. `shrink` above 1 requires bilinear, bicubic or
/// lanczos. `out` must not be `in`.
void resize(const Image& in, const ScaledBox& box, ResizeMethod method, std::int64_t height, std::int64_t width,
            Image& out, ResizeScratch& scratch);

/// Left-right.
void flip_columns(Image& image);

/// Parts of `resize`.
void resize_filtered(const Image& in, const ScaledBox& box, ResizeMethod method, Image& out, ResizeScratch& scratch);
void resize_nearest(const Image& in, Box box, Image& out, ResizeScratch& scratch);
void resize_bilinear_plain(const Image& in, Box box, Image& out, ResizeScratch& scratch);
/// bilinear_plain before truncation to bytes: [height, width, 3], levels 0 to 255.
std::vector<float> bilinear_plain_floats(const Image& in, Box box, std::int64_t height, std::int64_t width,
                                         ResizeScratch& scratch);
void resize_area(const Image& in, Box box, Image& out, ResizeScratch& scratch);

}  // namespace normlab
