// Values that only change their place: patches, windows, merged neighbours, parts of an image's tokens. place(i) says
// where value i of the pieces is in the whole, or kPadding if it is nowhere; together() is the length of aligned runs of
// values that are adjacent at both ends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <variant>

#include "core/host_device.h"
#include "core/kernel_settings.h"

namespace normlab {

inline constexpr int kPadding = -1;

/// images [batch, height, width, channels] as [batch, patches, patch_height patch_width channels].
struct PatchDims {
  std::int64_t batch, height, width, channels, patch_height, patch_width;
  std::int64_t together() const { return patch_width * channels; }
  template <class I>
  NORMLAB_HOST_DEVICE I place(I i) const {
    const I depth = I(channels), rows = I(patch_height), cols = I(patch_width), run = cols * depth,
            across = I(width) / cols, down = I(height) / rows;
    const I line = i / run, in_run = i - line * run, patch = line / rows, row = line - patch * rows;
    const I grid_row = patch / across, gx = patch - grid_row * across, b = grid_row / down, gy = grid_row - b * down;
    return ((b * I(height) + gy * rows + row) * I(width) + gx * cols) * depth + in_run;
  }
};
/// A token grid [batch, height, width, cols], cyclically shifted by shift_y tokens up and shift_x left, then cut into
/// square windows [batch windows, window^2, cols]. A side that the window does not divide is padded with zero tokens at
/// the bottom and right.
struct WindowDims {
  std::int64_t batch, height, width, cols, window, shift_y = 0, shift_x = 0;
  WindowPadding padding{};
  NORMLAB_HOST_DEVICE constexpr std::int64_t down() const { return (height + window - 1) / window; }
  NORMLAB_HOST_DEVICE constexpr std::int64_t across() const { return (width + window - 1) / window; }
  constexpr std::int64_t windows() const { return down() * across(); }  // per image
  constexpr std::int64_t tokens() const { return window * window; }     // per window
  constexpr std::int64_t offsets() const { return (2 * window - 1) * (2 * window - 1); }
  /// The row (or column) of a grid with `side` of them that lies at row `at` of the `padded` rows after the shift; one
  /// from `side` on is padding.
  template <class I>
  static NORMLAB_HOST_DEVICE I source(WindowPadding when, I at, I side, I padded, I shift) {
    const I turns = when == WindowPadding::before_shift ? padded : side;
    return at < turns ? (at + shift) % turns : at;
  }
  std::int64_t together() const { return cols; }
  template <class I>
  NORMLAB_HOST_DEVICE I place(I i) const {
    const I side = I(window), in_window = I(window * window), wide = I(across()), in_image = I(down()) * wide,
            h = I(height), w = I(width);
    const I all = i / I(cols), c = i - all * I(cols), windows_before = all / in_window,
            token = all - windows_before * in_window;
    const I b = windows_before / in_image, at = windows_before - b * in_image;
    const I y = source(padding, at / wide * side + token / side, h, I(down()) * side, I(shift_y)),
            x = source(padding, at % wide * side + token % side, w, wide * side, I(shift_x));
    return y < h && x < w ? ((b * h + y) * w + x) * I(cols) + c : I(kPadding);
  }
};
/// A token grid [batch, height, width, cols] as [batch, ceil(height / 2) ceil(width / 2), 4 cols]: four neighbours in
/// the order (row, column) = (0,0), (1,0), (0,1), (1,1), with zeros beyond an odd side.
struct GridDims {
  std::int64_t batch, height, width, cols;
  std::int64_t together() const { return cols; }
  template <class I>
  NORMLAB_HOST_DEVICE I place(I i) const {
    const I h = I(height), w = I(width), down = (h + 1) / 2, across = (w + 1) / 2;
    const I all = i / I(cols), c = i - all * I(cols), four = all / 4, q = all % 4, row = four / across, b = row / down;
    const I y = (row - b * down) * 2 + q % 2, x = (four - row * across) * 2 + q / 2;
    return y < h && x < w ? ((b * h + y) * w + x) * I(cols) + c : I(kPadding);
  }
};
/// `count` of the `size` values of each image, from `first` on.
struct PartDims {
  std::int64_t size, first, count;
  std::int64_t together() const { return std::gcd(std::gcd(size, first), count); }
  template <class I>
  NORMLAB_HOST_DEVICE I place(I i) const {
    const I image = i / I(count);
    return image * I(size) + I(first) + (i - image * I(count));
  }
};
/// The other way round: where value i of all is in the part.
struct InPart {
  PartDims part;
  std::int64_t together() const { return part.together(); }
  template <class I>
  NORMLAB_HOST_DEVICE I place(I i) const {
    const I image = i / I(part.size), at = i - image * I(part.size), first = I(part.first), count = I(part.count);
    return at >= first && at - first < count ? image * count + (at - first) : I(kPadding);
  }
};
using MoveDims = std::variant<PatchDims, WindowDims, GridDims, PartDims, InPart>;

/// Calls f(place, I()) with the struct in `place` and the smallest unsigned type for indices of both ends: 32-bit
/// divisions cost a fraction of longer ones.
template <class F>
void with_place(const MoveDims& place, std::int64_t pieces, std::int64_t whole, F&& f) {
  std::visit(
      [&](const auto& places) {
        if (std::max(pieces, whole) < std::numeric_limits<std::int32_t>::max())
          f(places, std::uint32_t());
        else
          f(places, std::uint64_t());
      },
      place);
}

}  // namespace normlab
