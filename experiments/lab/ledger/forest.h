// The forest plot of the ledger.
#pragma once

#include <string>
#include <vector>

#include "experiments/lab/ledger/ledger.h"

namespace normlab {

/// For each judged claim the estimate that decides it, as the distance from the bound of its range: positive where the
/// claim holds, in units of the test's margin, or without one of the interval's half width. SVG, coloured by verdict.
/// As part of a page it has a wide and a narrow form; `standalone` gives a file.
std::string forest_plot(const std::vector<LedgerLine>& lines, bool standalone);

}  // namespace normlab
