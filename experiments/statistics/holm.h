// Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979).
#pragma once

#include <span>
#include <vector>

namespace normlab {

/// Adjusted p values in the order of `p`: the i-th smallest (from 0) times (m - i), made rising, at most 1. A
/// hypothesis is rejected with family-wise error alpha where its adjusted value is below alpha.
std::vector<double> holm_adjusted(std::span<const double> p);

}  // namespace normlab
