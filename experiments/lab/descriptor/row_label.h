// Rows of a sweep in words.
#pragma once

#include <string>
#include <vector>

#include "experiments/lab/descriptor/start_source.h"
#include "experiments/lab/descriptor/sweep.h"

namespace normlab {

/// "placement=pre_pre, depth=12" from a row's axes; the value alone if `paths`, the axes of the sweep, are only one;
/// `stem`, the descriptor's name, without axes.
std::string row_label(const AxisLabels& axes, const std::vector<std::string>& paths, const std::string& stem);

/// The same for a choice of rows.
std::string choice_label(const AxisChoice& choice, const std::vector<Grid>& grids,
                         const std::vector<std::string>& paths);

}  // namespace normlab
