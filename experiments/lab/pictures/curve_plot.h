// Learning curves as small multiples: one panel per row with the mean of its seeds, their range as
// a band, and the baseline's mean as a dashed line. All panels of a metric share their axes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/lab/pictures/axis.h"
#include "experiments/lab/pictures/curve_data.h"
#include "experiments/lab/pictures/svg.h"

namespace normlab {

struct CurvePanel {
  std::size_t row = 0;  // index in the plan
  std::string label;
  std::vector<BandPoint> band;  // in the picture's unit, thinned to what is visible
  std::vector<BandPoint> baseline;
  std::size_t seeds = 0;
  struct End {
    double at = 0;
    double value = 0;
    std::string name;  // "seed 3"
  };
  std::vector<End> diverged;  // the last finite value of each seed that diverged
};

struct CurvePlot {
  std::string metric, unit;  // unit "%" or ""
  std::vector<CurvePanel> panels;
  std::vector<CurvePanel> single;  // rows with a single value, named instead of drawn
  PlotAxis across, values;
  bool cut = false;        // some values lie outside the picture
  std::int64_t every = 1;  // at most one in this many points is drawn; 1: all
  /// "eval/accuracy [%]"
  std::string heading() const { return unit.empty() ? metric : metric + " [" + unit + "]"; }
};

/// The most points that a curve 300 pixels wide can show.
inline constexpr std::size_t kMaxCurvePoints = 120;

/// At most `most` of the points, evenly spaced, including the last.
std::vector<BandPoint> thinned(const std::vector<BandPoint>& band, std::size_t most);

/// One panel per row in `shown` (plan indices), in that order, with the curve of its baseline row if it has one.
/// Values are multiplied by `scale`. The axis leaves out a few extreme values, as of a loss that explodes, and
/// then sets `cut`.
CurvePlot curve_plot(const MetricCurves& curves, const std::vector<std::size_t>& shown,
                     const std::vector<std::optional<std::size_t>>& baselines, const std::string& unit, double scale);

inline constexpr double kPanelWidth = 300, kPanelHeight = 190;

/// One panel as a separate picture.
std::string curve_panel(const CurvePlot& plot, std::size_t panel, const std::string& id);

/// All panels in one picture, for a file.
std::string curve_sheet(const CurvePlot& plot, const std::string& id, const std::string& title);

/// A description of the panel in words.
std::string curve_text(const CurvePlot& plot, const CurvePanel& panel);

}  // namespace normlab
