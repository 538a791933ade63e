// NaN and infinity in a tensor, for what tells people of them.
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor.h"

namespace normlab {

/// A value that is not finite, and its place among those of its tensor.
struct NonFiniteValue {
  std::int64_t index = 0;
  double value = 0.0;
};

/// The first such value of `t`, which the host can read; none where all are finite or `t` holds integers.
std::optional<NonFiniteValue> first_nonfinite(const Tensor& t);

/// "nan" of either sign, "inf" or "-inf".
const char* nonfinite_word(double value);

}  // namespace normlab
