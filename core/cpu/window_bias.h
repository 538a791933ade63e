// What is added to the scores inside a window: a bias by relative position, and a mask between tokens that only the
// cyclic shift made neighbours.
#pragma once

#include "core/cpu/kernel.h"

namespace normlab::cpu {

inline constexpr double kWindowMask = -100.0;
inline constexpr int kMaskPatterns = 4;

/// The mask of window `w` (counted over all images): bit 0 for the last row of windows if rows are shifted, bit 1 for
/// the last column. They hold what wrapped around: tokens, or with WindowPadding::after_shift perhaps padding alone.
static inline int mask_pattern(const WindowDims& d, std::int64_t w) {
  const std::int64_t in_image = w % d.windows();
  return (d.shift_y > 0 && in_image / d.across() == d.down() - 1 ? 1 : 0) +
         (d.shift_x > 0 && in_image % d.across() == d.across() - 1 ? 2 : 0);
}

/// Calls visit(i, j, row of the table) for every pair of tokens of a window, i in the outer loop.
template <class F>
static void for_relative_positions(const WindowDims& d, F&& visit) {
  const std::int64_t w = d.window, N = d.tokens();
  for (std::int64_t i = 0; i < N; ++i)
    for (std::int64_t j = 0; j < N; ++j) {
      const std::int64_t dy = i / w - j / w + w - 1, dx = i % w - j % w + w - 1;
      visit(i, j, dy * (2 * w - 1) + dx);
    }
}

/// bias [N, N] of head h from the table [offsets, heads].
template <class A, class P>
static void expand_bias(const WindowDims& d, std::int64_t heads, std::int64_t h, const P* table, A* bias) {
  const std::int64_t N = d.tokens();
  for_relative_positions(d, [&](auto i, auto j, auto row) { bias[i * N + j] = A(table[row * heads + h]); });
}

/// scores [N, N] += the mask of that pattern.
template <class A>
static void add_mask(const WindowDims& d, int pattern, A* scores) {
  const std::int64_t w = d.window, N = d.tokens();
  const auto apart_by = [&](std::int64_t shift, std::int64_t a, std::int64_t b) {
    return (a >= w - shift) != (b >= w - shift);
  };
  for (std::int64_t i = 0; i < N; ++i)
    for (std::int64_t j = 0; j < N; ++j) {
      const bool apart =
          ((pattern & 1) && apart_by(d.shift_y, i / w, j / w)) || ((pattern & 2) && apart_by(d.shift_x, i % w, j % w));
      if (apart) scores[i * N + j] += A(kWindowMask);
    }
}

/// Column h of dtable (+)= the sums of dbias [N, N] over equal relative positions.
template <class P, class A>
static void reduce_bias(const WindowDims& d, std::int64_t heads, std::int64_t h, const A* dbias,
                        const Gradient& dtable) {
  const std::int64_t N = d.tokens();
  const Scratch<double> sums(d.offsets());
  std::fill_n(sums.begin(), d.offsets(), 0.0);
  for_relative_positions(d, [&](auto i, auto j, auto row) { sums[row] += double(dbias[i * N + j]); });
  P* out = dtable.to.data<P>();
  for (std::int64_t row = 0; row < d.offsets(); ++row) put(out[row * heads + h], P(sums[row]), adds(dtable));
}

}  // namespace normlab::cpu
