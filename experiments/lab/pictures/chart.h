// Charts of several lines: panels that share their horizontal axis, 400 pixels wide, with a legend below each. Colour,
// dash and marker carry the same information, so that a chart can be read in grey print.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/lab/pictures/axis.h"
#include "experiments/lab/pictures/curve_data.h"
#include "experiments/lab/pictures/report.h"

namespace normlab {

/// line: joined points; dots: single ones; shape: a line without markers, such as a fitted curve.
enum class ChartLook : std::uint8_t { line, dots, shape };

/// A point that is marked because of what happened there.
struct ChartCross {
  double at = 0, value = 0;
  std::string words;  // "seed 3: diverged at 0.1"
};

struct ChartSeries {
  std::string label;
  std::vector<BandPoint> points;
  std::size_t style = 0;  // series of one style belong together across panels
  ChartLook look = ChartLook::line;
  bool right = false;  // measured by the panel's right axis
  std::vector<ChartCross> crosses{};
  std::size_t strip = 0;  // rows that share a baseline
};

/// A picture of pixels [height, width], drawn between the least and the greatest value of its panel.
struct ChartPixels {
  std::string label;
  std::int64_t width = 0;
  std::vector<double> values;
};

struct ChartPanel {
  std::string heading, values_name;
  std::vector<ChartSeries> series;
  PlotAxis values{};
  std::string right_name{};  // "" without a right axis
  PlotAxis right{};
  std::optional<PlotAxis> across{};   // instead of the chart's
  std::vector<ChartPixels> pixels{};  // instead of series
  bool drawn = true;                  // false: only among the numbers
};

struct Chart {
  std::string name;     // "xspp", the file's name without its suffix
  std::string title;    // "Signal by residual branch"
  std::string caption;  // what lines and axes are
  std::string across_name;
  PlotAxis across{};
  std::vector<std::string> categories{};  // if not empty: the names of the positions 0, 1, ...
  std::vector<ChartPanel> panels{};
};

inline constexpr double kChartWidth = 400;
/// The most lines in one panel: as many as there are styles.
inline constexpr std::size_t kChartStyles = 8;
/// Splits a chart into files of at most this size where it has more panels.
inline constexpr std::size_t kChartBytes = 280'000;

/// automatic: logarithmic if all values are above 0 and the greatest is more than 30 times the least.
enum class ChartScale : std::uint8_t { linear, logarithmic, automatic };
/// Sets the axes of all panels from their points, equal for equal values_name. A logarithmic axis spans at most six
/// powers of ten below the greatest value; what lies below is cut off. own_across: a horizontal axis for each panel.
void set_chart_axes(Chart& chart, ChartScale across, ChartScale values, bool own_across = false);

/// The chart as files, usually one: "xspp.svg", "xspp-2.svg".
std::vector<PictureFile> chart_files(const Chart& chart);
/// One panel for a page.
std::string chart_panel(const Chart& chart, std::size_t panel, const std::string& id);

/// "panel,row,AT,value,lowest,highest,n" with all digits (RFC 4180).
std::string chart_csv(const Chart& chart);
/// The numbers as a table, with at most `most` points of a series.
std::string chart_markdown(const Chart& chart, std::size_t most);
/// A part of a page: heading, caption, panels and numbers.
std::string chart_html(const Chart& chart, std::size_t most);

}  // namespace normlab
