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
  double low = 0, high = 1;  // its ends; of make_axis() the first and the last tick
  double step = 1;           // 1, 2 or 5 times a power of ten
  std::vector<double> ticks;
  bool logarithmic = false;  // low, high and ticks are decimal logarithms, and `step` has no meaning
  bool with_sign = false;    // labels of gains: "+2"
  /// Where a value lies between low and high.
  double place(double value) const;
  /// -1 and 1 for a value below and above the axis.
  int beyond(double value) const;
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

/// The tick's label, with as many digits as distinguish it from its neighbours: "0.25", "12", "−2,000",
/// "1.5M"; "+2" with `with_sign`.
std::string tick_label(double value, double step, bool with_sign = false);
/// About three digits: "0.001", "12,500", "3×10⁻⁵"; "+2" with `with_sign`.
std::string number_label(double value, bool with_sign = false);

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
  std::vector<ChartCross> crosses{};
  std::size_t strip = 0;  // rows that share a baseline
  bool baseline = false;  // of its strip
  bool again = false;     // of another panel, whose numbers it repeats
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
  std::optional<PlotAxis> across{};   // instead of the chart's
  std::vector<ChartPixels> pixels{};  // instead of series
  std::vector<ChartLane> lanes{};     // instead of series
  std::string corner{};               // "3 seeds"
  std::string part{};                 // "1 of 2", where one panel would have too many rows
  std::optional<std::size_t> row{};   // of the plan, if it shows one; it follows the filter of a page's table
  bool drawn = true;                  // false: only among the numbers
};

/// lines: panels two beside each other; small: of one row each, three beside each other; gains and values: lanes, around
/// a line at zero or without one.
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
  std::vector<std::pair<double, std::string>> marks{};  // ticks between the categories, instead of their names
  std::string left_out{};                               // "Left out, ...: a, b": rows of the table without a picture
  // Of files:
  double width = 0;    // in pixels of 1/96 inch; 0: that of its panels
  bool titles = true;  // false: no title, as above a caption
  bool has_lanes() const { return kind >= ChartKind::gains; }
};

/// The most lines in one panel, as many as there are styles, and the most lanes.
inline constexpr std::size_t kChartStyles = 8, kChartLanes = 12;
/// The most points that a line can show.
inline constexpr std::size_t kMaxCurvePoints = 120;
/// Splits a chart into files of at most this size and height where it has more panels: a page of print.
inline constexpr std::size_t kChartBytes = 280'000;
inline constexpr double kChartHeight = 900;

/// At most `most` of the points, evenly spaced, including the last.
std::vector<BandPoint> thinned(const std::vector<BandPoint>& points, std::size_t most);

/// automatic: logarithmic if all values are above 0 and the greatest is more than 30 times the least, otherwise central.
/// central: linear without a few extreme values, as of a loss that explodes.
enum class ChartScale : std::uint8_t { linear, logarithmic, automatic, central };
/// Sets the axes of all panels from their points, equal for equal values_name. Few extreme values never stretch an
/// axis: lines, intervals and points beyond it end in an arrow with their number. A logarithmic axis spans at most ten
/// powers of ten below the greatest value that it shows.
void set_chart_axes(Chart& chart, ChartScale across, ChartScale values);
/// The end of an axis, where the values' spread sets it: of `values`, the least and the greatest without those that
/// lie further from the middle part than `room` times its width. The middle part leaves out `share` of the values at
/// each end. All values if this would not halve their range.
std::pair<double, double> central_range(std::vector<double> values, double share, double room);
/// Sets the ends of the axis across to exactly these, above 0 if it is logarithmic.
void cut_across(Chart& chart, double low, double high);
/// The same for --xlim: false, and no change, if it has names. InputError if it is logarithmic and `low` is not above
/// 0, or if nothing lies between them.
bool set_limits(Chart& chart, double low, double high);
/// The axis with about `wanted` gaps between its ticks, and the same ends.
PlotAxis with_ticks(PlotAxis axis, std::size_t wanted);

/// A picture as a file: a name without folder, the SVG, and its size in pixels of 1/96 inch.
struct PictureFile {
  std::string name, svg;
  double width = 0, height = 0;
};
/// The chart as files, usually one: "xspp.svg", "xspp-2.svg".
std::vector<PictureFile> chart_files(const Chart& chart);

/// page: the style is the page's; narrow: the same for phones, with the labels above their lanes.
enum class ChartForm : std::uint8_t { file, page, narrow };
/// Some panels of the chart as SVG. `id`: unique in the page.
std::string chart_picture(const Chart& chart, std::span<const ChartPanel> panels, const std::string& id,
                          ChartForm form);

/// With a sentence on arrows, and what is left out.
std::string caption_of(const Chart& chart);
/// "panel,row,AT,value,lowest,highest,n" with all digits (RFC 4180).
std::string chart_csv(const Chart& chart);
/// A panel's name there.
std::string panel_name(const Chart& chart, const ChartPanel& panel);
/// A Python script that draws the chart from NAME.csv beside it by matplotlib.
std::string chart_script(const Chart& chart);
/// The numbers as a table, with at most `most` points of a series.
std::string chart_markdown(const Chart& chart, std::size_t most);
/// For a page: all panels, lanes both wide and narrow.
std::string chart_pictures(const Chart& chart);
/// For a page: caption, panels and numbers, without a heading.
std::string chart_html(const Chart& chart, std::size_t most);

// Parts of a chart's picture, assembled in chart_pages.cpp. Each is drawn with its upper left corner at the origin.

/// Of a panel of lanes; a narrow one has the labels above its lanes.
struct LaneRoom {
  double width = 760;
  bool narrow = false;
};
double lanes_height(const ChartPanel& panel, const LaneRoom& room);
/// Labels, scale and numbers of all panels of the chart are aligned.
void draw_lanes(const Chart& chart, const ChartPanel& panel, const LaneRoom& room, SvgWriter& svg);

/// Of a panel of lines or pixels: the height above its plot, and the whole.
struct PanelHeights {
  double above, whole;
};
PanelHeights panel_heights(const Chart& chart, const ChartPanel& panel, double width);
void draw_panel(const Chart& chart, const ChartPanel& panel, double width, SvgWriter& svg);

/// Of titles and headings: a size that estimates their bold type, and from line to line.
inline constexpr double kHeadFont = 14.5, kHeadLine = 16;
/// "AFSM, step 0 (1 of 2)"
std::string heading_of(const ChartPanel& panel);
/// A triangle whose tip is at (x, y) and points left or up for -1, right or down for 1.
std::string arrow_across(double x, double y, int side);
std::string arrow_along(double x, double y, int side);

/// "dpn, seed 3: +1.25": with a sign if values are gains.
std::string dot_words(const Chart& chart, const ChartDot& dot);

}  // namespace normlab
