// Learning curves as small multiples: a panel a row, in it the mean of its seeds, their range as a band, and the
// baseline's mean as a dashed line. All panels of a metric share their axes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/report/axis.h"
#include "experiments/report/curve_data.h"
#include "experiments/report/svg.h"

namespace normlab {

struct CurvePanel {
  std::size_t row = 0;  // of the plan
  std::string label;
  std::vector<BandPoint> band;  // in the picture's unit, thinned to what can be seen
  std::vector<BandPoint> baseline;
  std::size_t seeds = 0;
  struct End {
    std::int64_t step = 0;
    double value = 0;
    std::string name;  // "seed 3"
  };
  std::vector<End> diverged;  // last finite value of each seed that diverged
};

struct CurvePlot {
  std::string metric, unit;  // unit "%" or ""
  std::vector<CurvePanel> panels;
  std::vector<CurvePanel> single;  // rows with one value, which are named instead of drawn
  PlotAxis steps, values;
  bool cut = false;        // some values lie outside the picture
  std::int64_t every = 1;  // of so many points at most one is drawn; 1: all are
  /// "eval/accuracy [%]"
  std::string heading() const { return unit.empty() ? metric : metric + " [" + unit + "]"; }
};

/// More points than this in a curve 300 pixels wide cannot be seen.
inline constexpr std::size_t kMaxCurvePoints = 120;

/// At most `most` of them, evenly, the last one included.
std::vector<BandPoint> thinned(const std::vector<BandPoint>& band, std::size_t most);

/// Panels for the rows `shown` (plan indices) in that order, each with the curve of its baseline row where it has one.
/// Values are multiplied by `scale`. A few wild values, a loss that explodes, do not flatten all others: the axis then
/// leaves them out and `cut` is set.
CurvePlot curve_plot(const MetricCurves& curves, const std::vector<std::size_t>& shown,
                     const std::vector<std::optional<std::size_t>>& baselines, const std::string& unit, double scale);

inline constexpr double kPanelWidth = 300, kPanelHeight = 190;

/// One panel, as a picture of its own.
std::string curve_panel(const CurvePlot& plot, std::size_t panel, const std::string& id);

/// All panels in one picture, for a file.
std::string curve_sheet(const CurvePlot& plot, const std::string& id, const std::string& title);

/// What a panel shows, in words.
std::string curve_text(const CurvePlot& plot, const CurvePanel& panel);

}  // namespace normlab
