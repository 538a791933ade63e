// Parts of a chart's picture, assembled in chart_drawing.cpp.
#pragma once

#include "experiments/lab/pictures/chart.h"
#include "experiments/lab/pictures/svg.h"

namespace normlab {

inline constexpr double kWideLanes = 760, kNarrowLanes = 360;  // widths of panels of lanes

double lanes_height(const ChartPanel& panel, bool narrow);
/// With its upper left corner at the origin. Labels, scale and numbers of all panels of the chart are aligned.
void draw_lanes(const Chart& chart, const ChartPanel& panel, bool narrow, SvgWriter& svg);

/// "dpn, seed 3: +1.25": with a sign if values are gains.
std::string dot_words(const Chart& chart, const ChartDot& dot);

}  // namespace normlab
