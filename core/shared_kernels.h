// Kernels with one source for all devices, in core/shared/. A device says how work is distributed:
//   each_row(op, rows, f)   calls f(row, r) for each row, whose loops and sums `row` runs on a thread or a warp;
//   map(op, rows, cols, f, operands)   calls f for the values of one place, or on a CPU for a vector of them.
// Each device instantiates the class in one file, which includes core/shared/.
#pragma once

#include <cstddef>

#include "core/backend.h"

namespace normlab {

/// y [rows, cols] (+)= f(in [rows, cols].., columns[c / group]..), and for kSums > 0 the sums over rows of the terms
/// that f(terms, ..) sets: those wanted in `sums`. y may be empty.
template <std::size_t kIn, std::size_t kColumns = 0, std::size_t kSums = 0>
struct Operands {
  Tensor in[kIn];
  Tensor columns[kColumns > 0 ? kColumns : 1]{};
  Gradient y{};
  Gradient sums[kSums > 0 ? kSums : 1]{};
  std::int64_t group = 1;
  std::size_t by_part = kColumns;  // on a GPU: columns from this one on are [parts, cols]
};

/// Of GELU: 1 / sqrt(2), 1 / sqrt(2 pi), sqrt(2 / pi), and the cubic term of the tanh form (Hendrycks and Gimpel 2016).
inline constexpr double kRootHalf = 0.70710678118654752440, kInverseRootTwoPi = 0.39894228040143267794,
                        kRootTwoOverPi = 0.79788456080286535588, kGeluCubic = 0.044715;

/// dx of a normalised row or group: g = dy gamma, and the means of g and of g x_hat. V is a value or a vector.
template <class S, class V, class M>
NORMLAB_DEVICE V norm_dx(S rstd, V g, M mean_g, V x_hat, M mean_gh) {
  return rstd * (g - mean_g - x_hat * mean_gh);
}

template <class D>
class SharedKernels : public Backend {
 public:
  NORMLAB_SHARED_KERNELS(NORMLAB_OVERRIDE)

 private:
  D& on() { return static_cast<D&>(*this); }
};

}  // namespace normlab
