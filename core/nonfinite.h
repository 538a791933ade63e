// Finds NaN and infinity in a tensor, for messages.
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor.h"

namespace normlab {

/// A non-finite value and its index in the tensor.
struct NonFiniteValue {
  std::int64_t index = 0;
  double value = 0.0;
};

/// The first non-finite value of `t`, which the host must be able to read. None if all are finite or `t`
/// holds integers.
std::optional<NonFiniteValue> first_nonfinite(const Tensor& t);

/// "nan" of either sign, "inf" or "-inf".
const char* nonfinite_word(double value);

}  // namespace normlab
