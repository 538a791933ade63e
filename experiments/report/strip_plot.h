// Gains over a baseline as the Dual PatchNorm paper's Figure 1 shows them: a strip for each baseline with its line at
// zero; here a lane a row, in it a dot a seed and the interval as a bar around the mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/report/svg.h"

namespace normlab {

struct PlotDot {
  std::string name;  // "seed 3"
  double value = 0;
};

struct PlotLane {
  std::string label;
  std::vector<PlotDot> dots;               // finite values only
  std::optional<double> mean, half_width;  // of the interval
  bool clear = false;                      // the interval leaves out zero
  std::string numbers;                     // "+0.4 ±1.3", beside the lane
  std::string note;                        // "1/3 diverged @1200"
};

struct PlotStrip {
  std::string heading;  // "variant=Ti/4"
  std::string zero;     // what the line at zero is: "0 = pre_pre, 63.71 ±0.76"
  std::vector<PlotLane> lanes;
};

struct StripPlot {
  std::string title, description;
  std::string axis;   // "gain in eval/accuracy [percentage points]"
  bool gains = true;  // false: the values themselves, without a line at zero
  std::vector<PlotStrip> strips;
};

/// narrow: labels above their lanes, for a telephone.
enum class StripWidth : std::uint8_t { wide, narrow };

/// All strips on one scale. Dots stand in the upper half of a lane, the bar in the lower. A plot without lanes says so.
std::string strip_plot(const StripPlot& plot, const std::string& id, StripWidth width, bool standalone);

}  // namespace normlab
