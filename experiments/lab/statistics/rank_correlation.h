// Correlation of ranks.
#pragma once

#include <span>

namespace normlab {

/// Spearman's rank correlation, from -1 to 1; equal values share the mean of their ranks. NaN if fewer than two pairs
/// are given or if all values of a side are equal. Both sides have the same size.
double spearman(std::span<const double> x, std::span<const double> y);

}  // namespace normlab
