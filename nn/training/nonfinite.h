// Errors for results that are not finite.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/error.h"
#include "nn/model/parameters.h"

namespace normlab {

/// A measurement is invalid because a value it depends on is NaN or infinite. The message names the place.
struct NonFiniteError : Error {
  NonFiniteError(const std::string& what, double where) : Error(ExitCode::trials_failed, what), value(where) {}
  double value;
};

/// The first non-finite value, parameters before running statistics.
struct NonFiniteWeight {
  std::string tensor;
  std::int64_t index = 0;
  double value = 0.0;
  /// "head.weight[3] is nan"
  std::string text() const;
};
/// None if all are finite. `parameters` must be allocated and their device synchronised.
std::optional<NonFiniteWeight> first_nonfinite(const ParameterSet& parameters);

}  // namespace normlab
