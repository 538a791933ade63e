// Where a number was promised and there is none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/error.h"
#include "nn/parameters.h"

namespace normlab {

/// What was measured is no result, since a value that it comes from is NaN or infinite. The message names the place.
struct NonFiniteError : Error {
  NonFiniteError(const std::string& what, double where) : Error(ExitCode::trials_failed, what), value(where) {}
  double value;
};

/// The first value that is not finite, parameters before running statistics.
struct NonFiniteWeight {
  std::string tensor;
  std::int64_t index = 0;
  double value = 0.0;
  /// "head.weight[3] is nan"
  std::string text() const;
};
/// None where all are finite. `parameters` are allocated, and their device has been waited for.
std::optional<NonFiniteWeight> first_nonfinite(const ParameterSet& parameters);

}  // namespace normlab
