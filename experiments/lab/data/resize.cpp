#include "experiments/lab/data/resize.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace normlab {
namespace {

constexpr std::int64_t kLanes = 16;  // rows processed together in the horizontal pass
using Bytes = std::uint8_t __attribute__((vector_size(16)));

Bytes load(const std::uint8_t* from) {
  Bytes bytes;
  __builtin_memcpy(&bytes, from, sizeof(bytes));
  return bytes;
}
void store(std::uint8_t* to, Bytes bytes) { __builtin_memcpy(to, &bytes, sizeof(bytes)); }

constexpr std::int32_t kHalf = 1 << 21;  // one half, with 22 fractional bits

/// out[v] = the sum over taps of weight[t] times from[t * stride + v], rounded, for v < values. Vectorised for a
/// constant number of taps.
template <int kTaps>
inline void mix(const std::int32_t* weight, const std::uint8_t* __restrict from, std::int64_t stride,
                std::int64_t values, std::uint8_t* __restrict out) {
  std::int32_t w[kTaps];
  for (int t = 0; t < kTaps; ++t) w[t] = weight[t];
  for (std::int64_t v = 0; v < values; ++v) {
    std::int32_t sum = kHalf;
    for (int t = 0; t < kTaps; ++t) sum += w[t] * from[t * stride + v];
    sum >>= 22;
    out[v] = static_cast<std::uint8_t>(std::min(std::max(sum, 0), 255));
  }
}

/// For any number of taps, in pieces of kPiece values.
constexpr std::int64_t kPiece = 64;
inline void mix_any(const std::int32_t* weight, std::int64_t taps, const std::uint8_t* __restrict from,
                    std::int64_t stride, std::int64_t values, std::uint8_t* __restrict out) {
  for (std::int64_t first = 0; first < values; first += kPiece) {
    const std::int64_t count = std::min(kPiece, values - first);
    std::int32_t sums[kPiece];
    std::fill_n(sums, kPiece, kHalf);
    for (std::int64_t t = 0; t < taps; ++t) {
      const std::uint8_t* row = from + t * stride + first;
      const std::int32_t w = weight[t];
      for (std::int64_t v = 0; v < count; ++v) sums[v] += w * row[v];
    }
    for (std::int64_t v = 0; v < count; ++v)
      out[first + v] = static_cast<std::uint8_t>(std::min(std::max(sums[v] >> 22, 0), 255));
  }
}

/// Calls f(kernel), so that the caller's loop is compiled for each number of taps.
template <class F>
void with_taps(std::int64_t taps, F&& f) {
  const auto fixed = [&]<int... kTaps>(std::integer_sequence<int, 0, 1, kTaps...>) {
    return ((taps == kTaps && (f([](auto... arguments) { mix<kTaps>(arguments...); }), true)) || ...);
  };
  if (!fixed(std::make_integer_sequence<int, 9>()))
    f([taps](const std::int32_t* weight, auto... arguments) { mix_any(weight, taps, arguments...); });
}

/// rows[r][c] becomes rows[c][r]: interleaves the upper half with the lower half four times.
void transpose(Bytes (&rows)[16]) {
  Bytes other[16];
  const auto interleave = [](const Bytes* from, Bytes* to) {
    for (int i = 0; i < 8; ++i) {
      to[2 * i] = __builtin_shufflevector(from[i], from[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      to[2 * i + 1] =
          __builtin_shufflevector(from[i], from[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
  };
  interleave(rows, other);
  interleave(other, rows);
  interleave(rows, other);
  interleave(other, rows);
}

/// Converts sixteen rows of `values` bytes to columns [values, 16]; to_rows() does the inverse. Rows may repeat.
void to_columns(const std::uint8_t* const (&rows)[16], std::int64_t values, std::uint8_t* columns) {
  Bytes block[16];
  std::int64_t v = 0;
  for (; v + kLanes <= values; v += kLanes) {
    for (int r = 0; r < 16; ++r) block[r] = load(rows[r] + v);
    transpose(block);
    for (int c = 0; c < 16; ++c) store(columns + (v + c) * kLanes, block[c]);
  }
  for (; v < values; ++v) {
    for (int r = 0; r < 16; ++r) columns[v * kLanes + r] = rows[r][v];
  }
}

void to_rows(const std::uint8_t* columns, std::int64_t values, std::uint8_t* const (&rows)[16]) {
  Bytes block[16];
  std::int64_t v = 0;
  for (; v + kLanes <= values; v += kLanes) {
    for (int c = 0; c < 16; ++c) block[c] = load(columns + (v + c) * kLanes);
    transpose(block);
    for (int r = 15; r >= 0; --r) store(rows[r] + v, block[r]);
  }
  for (; v < values; ++v) {
    for (int r = 15; r >= 0; --r) rows[r][v] = columns[v * kLanes + r];
  }
}

constexpr std::int64_t kColumn = 3 * kLanes;  // bytes of a column of sixteen rows

/// To [box.height, out.width].
void resize_width(const Image& in, Box box, const ResizeWeights& w, Image& out, std::vector<std::uint8_t>& columns) {
  columns.resize(static_cast<std::size_t>((box.width + out.width) * 3 * kLanes));
  std::uint8_t *wide = columns.data(), *narrow = wide + box.width * 3 * kLanes;
  for (std::int64_t y = 0; y < box.height; y += kLanes) {
    const std::uint8_t* from[16];
    std::uint8_t* to[16];
    for (std::int64_t r = 0; r < kLanes; ++r) {  // the last block repeats its last row
      const std::int64_t row = std::min(y + r, box.height - 1);
      from[r] = in.row(box.top + row) + box.left * 3;
      to[r] = out.row(row);
    }
    to_columns(from, box.width * 3, wide);
    with_taps(w.taps, [&](auto mixed) {
      for (std::int64_t x = 0; x < out.width; ++x)
        mixed(w.weights.data() + x * w.taps, wide + w.first[static_cast<std::size_t>(x)] * kColumn, kColumn, kColumn,
              narrow + x * kColumn);
    });
    to_rows(narrow, out.width * 3, to);
  }
}

/// Rows at `in` are `stride` bytes apart.
void resize_height(const std::uint8_t* in, std::int64_t stride, const ResizeWeights& w, Image& out) {
  with_taps(w.taps, [&](auto mixed) {
    for (std::int64_t y = 0; y < out.height; ++y)
      mixed(w.weights.data() + y * w.taps, in + w.first[static_cast<std::size_t>(y)] * stride, stride, out.width * 3,
            out.row(y));
  });
}

}  // namespace

/// Skips a pass that would change nothing, as Pillow does.
void resize_filtered(const Image& in, const ScaledBox& part, ResizeMethod method, Image& out, ResizeScratch& scratch) {
  const Box box = part.cover();
  const std::int64_t shrink = part.shrink;
  const bool wider = shrink > 1 || box.width != out.width, higher = shrink > 1 || box.height != out.height;
  const ResizeAxis x{method, box.width, out.width, part.box.left % shrink, part.box.width, shrink};
  const ResizeAxis y{method, box.height, out.height, part.box.top % shrink, part.box.height, shrink};
  if (!higher) return resize_width(in, box, scratch.weights(x), out, scratch.columns);
  const std::uint8_t* rows = in.row(box.top) + box.left * 3;
  std::int64_t stride = in.width * 3;
  if (wider) {
    scratch.between.resize(box.height, out.width);
    resize_width(in, box, scratch.weights(x), scratch.between, scratch.columns);
    rows = scratch.between.row(0);
    stride = out.width * 3;
  }
  resize_height(rows, stride, scratch.weights(y), out);
}

void resize(const Image& in, const ScaledBox& part, ResizeMethod method, std::int64_t height, std::int64_t width,
            Image& out, ResizeScratch& scratch) {
  const ImageSize size{in.height, in.width};
  const Box box = part.cover();
  if (!is_inside(box, size)) throw InputError(concat("resize: ", box_outside(box, size)));
  if (height < 1 || width < 1) throw InputError(concat("resize: cannot resize to ", width, "x", height, " pixels"));
  out.resize(height, width);
  const bool filtered =
      method == ResizeMethod::bilinear || method == ResizeMethod::bicubic || method == ResizeMethod::lanczos;
  if (part.shrink > 1 && !filtered) throw InputError("resize: this method needs images decoded at their full size");
  if (part.shrink == 1 && box.height == height && box.width == width) {
    for (std::int64_t y = 0; y < height; ++y) std::copy_n(in.row(box.top + y) + box.left * 3, width * 3, out.row(y));
    return;
  }
  if (filtered) return resize_filtered(in, part, method, out, scratch);
  if (method == ResizeMethod::nearest) return resize_nearest(in, box, out, scratch);
  if (method == ResizeMethod::bilinear_plain) return resize_bilinear_plain(in, box, out, scratch);
  if (method == ResizeMethod::area) return resize_area(in, box, out, scratch);
  throw InputError("resize: the method must have been drawn before an image is resized");
}

void flip_columns(Image& image) {
  for (std::int64_t y = 0; y < image.height; ++y) {
    std::uint8_t *left = image.row(y), *right = left + (image.width - 1) * 3;
    for (; left < right; left += 3, right -= 3) std::swap_ranges(left, left + 3, right);
  }
}

}  // namespace normlab
