// Images of another size, to the bit as the libraries have them that the papers' code calls.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/data/image.h"
#include "experiments/descriptor/config.h"

namespace normlab {

/// From what to what along one axis. The part to resize is `length` long from `begin` on, in units of which `shrink`
/// make a pixel (see ScaledBox), and touches `in` pixels.
struct ResizeAxis {
  ResizeMethod method = ResizeMethod::nearest;
  std::int64_t in = 0, out = 0, begin = 0, length = 0, shrink = 1;
  bool operator==(const ResizeAxis&) const = default;
};

/// What one axis of a filtered resize adds up: output i is the sum over t < taps of weights[i, t] times input
/// first[i] + t, in units of 2^-22. Outputs whose own filter is shorter have weights of 0.
struct ResizeWeights {
  ResizeAxis axis;
  std::int64_t taps = 0;
  std::vector<std::int32_t> first;    // [out]; first + taps <= in
  std::vector<std::int32_t> weights;  // [out, taps]
  std::vector<double> values;         // of one output's filter, while weights are made
};
/// Pillow's, for bilinear, bicubic and lanczos (Pillow, Resample.c: precompute_coeffs).
void make_resize_weights(const ResizeAxis& axis, ResizeWeights& result);

/// Memory that `resize` works in, kept from image to image; one a thread.
class ResizeScratch {
 public:
  ResizeScratch() : cache_(kCached) {}
  /// Computed at most once while it stays in the cache.
  const ResizeWeights& weights(const ResizeAxis& axis);

  Image between;                       // after the horizontal pass
  std::vector<std::uint8_t> columns;   // of sixteen rows, one column after the other
  std::vector<std::int32_t> indices;   // of columns and rows
  std::vector<float> fractions, rows;  // bilinear_plain
  std::vector<std::uint32_t> sums;     // area

 private:
  static constexpr std::size_t kCached = 512;
  std::vector<ResizeWeights> cache_;
};

/// The pixels of `box`, brought to [height, width]: as if it was cut out first, nothing around it enters. nearest,
/// bilinear, bicubic, lanczos: Pillow's Image.resize of the cut box (its 8-bit path: the width first, rounded to
/// bytes, then the height). bilinear_plain: TensorFlow's bilinear without antialiasing, half-pixel centres, in float,
/// cut off to bytes. area: the exact mean over what an output pixel covers, cut off to bytes; TensorFlow's sums in
/// float come within one level of it. ResizeMethod::random is none of these and an error, as is a box outside of the
/// image. A box with `shrink` above 1 is for the three filters of Pillow alone. `out` must not be `in`.
void resize(const Image& in, const ScaledBox& box, ResizeMethod method, std::int64_t height, std::int64_t width,
            Image& out, ResizeScratch& scratch);

inline void resize(const Image& in, const Box& box, ResizeMethod method, std::int64_t height, std::int64_t width,
                   Image& out, ResizeScratch& scratch) {
  resize(in, ScaledBox(box), method, height, width, out, scratch);
}

/// Left-right.
void flip_columns(Image& image);

/// Parts of `resize`.
void resize_filtered(const Image& in, const ScaledBox& box, ResizeMethod method, Image& out, ResizeScratch& scratch);
void resize_nearest(const Image& in, Box box, Image& out, ResizeScratch& scratch);
void resize_bilinear_plain(const Image& in, Box box, Image& out, ResizeScratch& scratch);
/// bilinear_plain before it is cut off to bytes: [height, width, 3], levels from 0 to 255.
std::vector<float> bilinear_plain_floats(const Image& in, Box box, std::int64_t height, std::int64_t width,
                                         ResizeScratch& scratch);
void resize_area(const Image& in, Box box, Image& out, ResizeScratch& scratch);

}  // namespace normlab
