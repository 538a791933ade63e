// Gains over a baseline, as in Figure 1 of the Dual PatchNorm paper: one strip per baseline with a line at zero. Each
// row is a lane with one dot per seed, and a bar for the interval around the mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/lab/pictures/svg.h"

namespace normlab {

struct PlotDot {
  std::string name;  // "seed 3"
  double value = 0;
};

struct PlotLane {
  std::string label;
  std::vector<PlotDot> dots;  // finite values only
  std::optional<double> mean;
  std::optional<std::pair<double, double>> interval;  // its ends, finite
  bool clear = false;                                 // the interval excludes zero
  std::string numbers;                                // "+0.4 ±1.3", printed beside the lane
  std::string note;                                   // "1/3 diverged @1200"
  std::string tone{};                                 // "holds", "fails" or "undecided": its colour; "": that of all
};

struct PlotStrip {
  std::string heading;  // "variant=Ti/4"
  std::string zero;     // label of the line at zero: "0 = pre_pre, 63.71 ±0.76"
  std::vector<PlotLane> lanes;
};

struct StripPlot {
  std::string title, description;
  std::string axis;   // "gain in eval/accuracy [percentage points]"
  bool gains = true;  // false: plots the values themselves, without a line at zero
  std::vector<PlotStrip> strips;
};

/// narrow: labels above their lanes, for phones.
enum class StripWidth : std::uint8_t { wide, narrow };

/// Draws all strips on one scale, with dots in the upper half of a lane and the bar in the lower. A
/// plot without lanes says so.
std::string strip_plot(const StripPlot& plot, const std::string& id, StripWidth width, bool standalone);

}  // namespace normlab
