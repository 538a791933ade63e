// What the tests of drawn operations share.
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "experiments/lab/data/draws.h"
#include "experiments/lab/data/image.h"
#include "experiments/lab/data/ops/operation.h"

namespace normlab::test {

constexpr int kDraws = 100'000;

inline AugmentDraws draws_of(int image) { return {stream_key(3, "augment", std::to_string(image)), 5}; }

inline Image gradient(std::int64_t height, std::int64_t width) {
  Image image;
  image.resize(height, width);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = std::uint8_t(20 + (i * 37 + i / 91) % 200);
  return image;
}

/// Of counts that are expected to be equal.
inline double chi_square(const std::vector<double>& counts) {
  double total = 0, sum = 0;
  for (const double c : counts) total += c;
  const double expected = total / double(counts.size());
  for (const double c : counts) sum += (c - expected) * (c - expected) / expected;
  return sum;
}

/// Its upper 0.1% point, by Wilson and Hilferty's approximation.
inline double chi_square_limit(std::size_t cells) {
  const double freedom = double(cells) - 1, part = 2 / (9 * freedom);
  return freedom * std::pow(1 - part + 3.0902 * std::sqrt(part), 3);
}

/// By a name in policy_golden.txt.
inline AugmentOp op_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(AugmentOp::cutout); ++i)
    if (word_of(static_cast<AugmentOp>(i)) == name) return static_cast<AugmentOp>(i);
  throw std::out_of_range(name);
}

}  // namespace normlab::test
