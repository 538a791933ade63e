// Weights for resampling along one axis, for images and position tables: each output value is a sum over a few input
// neighbours. One table serves both directions: the gradient uses its transpose.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/words.h"

namespace normlab {

/// How values between grid points are interpolated. Pixel i of n lies at (i + 1/2) / n, except for `corners`, where the
/// first and last points of both grids coincide.
enum class Resampling : std::uint8_t {
  bilinear,            // two neighbours, even when shrinking (timm's import of npz, TensorFlow)
  bilinear_antialias,  // a triangle, as wide as an output pixel when shrinking (Pillow, PyTorch)
  corners,             // two neighbours, corners on corners (order-1 spline zoom: Big Vision's resize of positions)
  bicubic,             // Keys 1981, a = -0.75, borders repeated (PyTorch)
  bicubic_antialias,   // a = -0.5, stretched when shrinking, cut at borders (Pillow, PyTorch; timm's resize)
};
constexpr auto stated_words(Resampling) {
  return words<Resampling>("bilinear", "bilinear_antialias", "corners", "bicubic", "bicubic_antialias");
}
constexpr std::string_view to_string(Resampling method) {
  constexpr std::string_view kNames[] = {"bilinear", "bilinear_antialias", "corners", "bicubic", "bicubic_antialias"};
  return kNames[static_cast<int>(method)];
}

/// Number of neighbours weighted per output value; at most `in`. in, out >= 1.
std::int64_t resample_taps(Resampling method, std::int64_t in, std::int64_t out);

/// Fills first [out] and weights [out, taps], with taps as above. Output o is the sum over t of weights[o, t] times
/// input first[o] + t; all of these lie inside the input. The weights of one output add up to 1.
void resample_weights(Resampling method, std::int64_t in, std::int64_t out, std::int64_t* first, double* weights);

}  // namespace normlab
