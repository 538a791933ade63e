// Weights of resampling along one axis, for images and tables of positions: each place of the result is a sum over a
// few neighbours of the input. One table serves both directions: the gradient runs through it transposed.
#pragma once

#include <cstdint>
#include <string_view>

namespace normlab {

/// How values between the grid points come about. Pixel i of n lies at (i + 1/2) / n, but for `corners`, where the
/// first and the last points of both grids coincide.
enum class Resampling : std::uint8_t {
  bilinear,            // two neighbours, also where the image shrinks (timm's import of npz, TensorFlow)
  bilinear_antialias,  // a triangle, as wide as a pixel of the result where the image shrinks (Pillow, PyTorch)
  corners,             // two neighbours, corners on corners (order-1 spline zoom: Big Vision's resize of positions)
  bicubic,             // Keys 1981, a = -0.75, borders repeated (PyTorch)
  bicubic_antialias,   // a = -0.5, stretched where the image shrinks, cut at the borders (Pillow, PyTorch; timm's
                       // resize)
};
constexpr std::string_view to_string(Resampling how) {
  constexpr std::string_view kNames[] = {"bilinear", "bilinear_antialias", "corners", "bicubic", "bicubic_antialias"};
  return kNames[static_cast<int>(how)];
}

/// Neighbours that each place of the result has a weight for; at most `in`. in, out >= 1.
std::int64_t resample_taps(Resampling how, std::int64_t in, std::int64_t out);

/// Fills first [out] and weights [out, taps], taps as above: value o of the result is the sum over t of weights[o, t]
/// times value first[o] + t of the input; all of these lie inside it. The weights of one place add up to 1.
void resample_weights(Resampling how, std::int64_t in, std::int64_t out, std::int64_t* first, double* weights);

}  // namespace normlab
