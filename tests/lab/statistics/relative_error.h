#pragma once

#include <cmath>

namespace normlab {

inline double relative_error(double value, double expected) { return std::abs(value - expected) / std::abs(expected); }

}  // namespace normlab
