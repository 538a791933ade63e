// Charts: panels of lines, of pixels, or of lanes with a dot per seed. Whoever draws hands over the data; the scales,
// ticks, legends and texts are made here. Colour, dash and marker carry the same information, so that a chart can be
// read in grey print.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/lab/pictures/curve_data.h"
#include "experiments/lab/pictures/page.h"

namespace normlab {

/// An axis: its ticks, tick labels and scale.
struct PlotAxis {
  double low = 0, high = 1;  // the first and the last tick
  double step = 1;           // 1, 2 or 5 times a power of ten
  std::vector<double> ticks;
  bool logarithmic = false;  // low, high and ticks are decimal logarithms, and `step` has no meaning
  bool with_sign = false;    // labels of gains: "+2"
  /// Where a value lies between low and high.
  double place(double value) const;
  /// Maps [low, high] linearly to [begin, end] in pixels; `begin` may be the larger.
  double pixel(double place, double begin, double end) const;
  /// The label of one of the ticks.
  std::string label(double tick) const;
};

/// An axis that covers [low, high] in about `wanted` gaps, never more than twice as many. A single value, an empty
/// range or a non-finite bound gives an axis around what is there.
PlotAxis make_axis(double low, double high, std::size_t wanted);

/// A logarithmic axis from `low` to `high`, both above 0, with a little room around them. Its ticks are powers of ten,
/// in a narrow range also 1, 3 or 1, 2, 5 times these.
PlotAxis make_log_axis(double low, double high);

/// The tick's label, with as many digits as distinguish it from its neighbours: "0.25", "12", "20k",
/// "1.5M"; "+2" with `with_sign`.
std::string tick_label(double value, double step, bool with_sign = false);

/// line: joined points; dots: single ones; shape: a line without markers, such as a fitted curve. Without an entry in
/// the legend, and interrupted where the number of seeds changes, since the mean of the others is a different curve:
/// band: a line in the range of its seeds; base: the dashed line of a baseline.
enum class ChartLook : std::uint8_t { line, dots, shape, band, base };

/// A point that is marked because of what happened there; outside the axes it is drawn at the edge.
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

struct ChartDot {
  std::string name;  // "seed 3"
  double value = 0;  // finite
};

/// A row of values across, as in Figure 1 of the Dual PatchNorm paper: a dot per seed in its upper half, a diamond at
/// the mean and a bar for its interval in the lower.
struct ChartLane {
  std::string label, row;  // `row` is whole, `label` without what the panel's heading says
  std::vector<ChartDot> dots{};
  std::optional<BandPoint> point{};  // place in the table, mean (finite), and ends of its interval
  bool bar = false;                  // the ends are finite and drawn
  bool clear = false;                // the interval excludes zero: a filled diamond
  std::string numbers{}, note{};     // "+0.4 ±1.3", printed beside the lane; "1/3 diverged @1200"
  std::size_t style = 1;
};

struct ChartPanel {
  std::string heading, values_name;  // of lanes: label of the line at zero: "0 = pre_pre, 63.71 ±0.76"
  std::vector<ChartSeries> series{};
  PlotAxis values{};
  std::string right_name{};  // "" without a right axis
  PlotAxis right{};
  std::optional<PlotAxis> across{};   // instead of the chart's
  std::vector<ChartPixels> pixels{};  // instead of series
  std::vector<ChartLane> lanes{};     // instead of series
  std::string corner{};               // "3 seeds"
  std::optional<std::size_t> row{};   // of the plan; the panel follows the filter of a page's table
  bool drawn = true;                  // false: only among the numbers
};

/// lines: panels 400 pixels wide below each other; small: of one row each, 300 wide and side by side; gains and values:
/// lanes, around a line at zero or without one.
enum class ChartKind : std::uint8_t { lines, small, gains, values };

struct Chart {
  std::string name;     // "xspp", the file's name without its suffix
  std::string title;    // "Signal by residual branch"
  std::string caption;  // what lines and axes are
  std::string across_name;
  ChartKind kind = ChartKind::lines;
  std::string quantity{};  // of lanes: "eval/accuracy"
  PlotAxis across{};
  bool cut = false;                       // some values lie outside the axes
  std::vector<std::string> categories{};  // if not empty: the names of the positions 0, 1, ...
  std::vector<ChartPanel> panels{};
  bool has_lanes() const { return kind >= ChartKind::gains; }
};

/// The most lines in one panel: as many as there are styles.
inline constexpr std::size_t kChartStyles = 8;
/// The most points that a line can show.
inline constexpr std::size_t kMaxCurvePoints = 120;
/// Splits a chart into files of at most this size where it has more panels.
inline constexpr std::size_t kChartBytes = 280'000;

/// At most `most` of the points, evenly spaced, including the last.
std::vector<BandPoint> thinned(const std::vector<BandPoint>& points, std::size_t most);

/// automatic: logarithmic if all values are above 0 and the greatest is more than 30 times the least. central: linear
/// without a few extreme values, as of a loss that explodes.
enum class ChartScale : std::uint8_t { linear, logarithmic, automatic, central };
/// Sets the axes of all panels from their points, equal for equal values_name. A logarithmic axis spans at most six
/// powers of ten below the greatest value; what lies below is cut off.
void set_chart_axes(Chart& chart, ChartScale across, ChartScale values);

/// A picture as a file: a name without folder, and the SVG.
struct PictureFile {
  std::string name, svg;
};
/// The chart as files, usually one: "xspp.svg", "xspp-2.svg".
std::vector<PictureFile> chart_files(const Chart& chart);

/// page: the style is the page's; narrow: the same for phones, with the labels above their lanes.
enum class ChartForm : std::uint8_t { file, page, narrow };
/// Some panels of the chart as SVG. `id`: unique in the page.
std::string chart_picture(const Chart& chart, std::span<const ChartPanel> panels, const std::string& id,
                          ChartForm form);

/// "panel,row,AT,value,lowest,highest,n" with all digits (RFC 4180).
std::string chart_csv(const Chart& chart);
/// The numbers as a table, with at most `most` points of a series.
std::string chart_markdown(const Chart& chart, std::size_t most);
/// For a page: all panels, lanes both wide and narrow.
std::string chart_pictures(const Chart& chart);
/// For a page: caption, panels and numbers, without a heading.
std::string chart_html(const Chart& chart, std::size_t most);

// Parts of a chart's picture, assembled in chart_drawing.cpp.

inline constexpr double kWideLanes = 760, kNarrowLanes = 360;  // widths of panels of lanes

double lanes_height(const ChartPanel& panel, bool narrow);
/// With its upper left corner at the origin. Labels, scale and numbers of all panels of the chart are aligned.
void draw_lanes(const Chart& chart, const ChartPanel& panel, bool narrow, SvgWriter& svg);

/// "dpn, seed 3: +1.25": with a sign if values are gains.
std::string dot_words(const Chart& chart, const ChartDot& dot);

}  // namespace normlab
