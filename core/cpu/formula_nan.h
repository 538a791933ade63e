// Where a formula's values stop being numbers.
#pragma once

#include <optional>
#include <string>

#include "core/formula/program.h"
#include "core/kernels.h"

namespace normlab {

/// What of a formula is NaN first on the CPU: a part of its text such as "log(x)", of which no part is NaN; or if only
/// gradients are, "the derivative by log(x)", the one that is nearest to the result. Nothing if there is none. `input`
/// holds x, dy and the parameters, on the CPU; its results are neither read nor written.
std::optional<std::string> first_nan(const formula::Tree& tree, const formula::Programs& programs, FormulaDims dims,
                                     const FormulaBackward& input);

}  // namespace normlab
