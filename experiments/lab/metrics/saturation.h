// How much a function of one variable bends like tanh or erf.
#pragma once

#include <cstdint>
#include <span>

namespace normlab {

enum class SaturationShape : std::uint8_t { tanh, erf };

/// The least-squares fit out = scale * shape(slope * in). curvature: slope times the root mean square of `in`. Around 0
/// the points lie on a line; above 1 most of them lie where the shape has bent.
struct Saturation {
  double slope = 0, scale = 0, curvature = 0;
};

double saturated(SaturationShape shape, double x);

/// `in` and `out` have equal sizes; pairs that are not finite are left out. Zeros if fewer than three remain or all
/// `in` are 0. The curvature is searched between 0.01 and 100.
Saturation fit_saturation(std::span<const double> in, std::span<const double> out, SaturationShape shape);

}  // namespace normlab
