#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "experiments/lab/pictures/chart.h"

namespace normlab {
namespace {

constexpr double kDot = 3.5, kMean = 4.5, kCap = 4;  // radius, half diagonal, half height
constexpr double kHeading = 24, kLaneAxis = 42, kNote = 14, kTick = 4;
// Of the width of wide lanes: labels have at least and at most this share, numbers at least this.
constexpr double kLabels = 220.0 / 760, kWidestLabels = 350.0 / 760, kNumbers = 120.0 / 760;

struct LaneLayout {
  bool narrow = false;
  double width, left, right, lane_height, dots, bar, note, grid;  // the last four: offset from a lane's top
  explicit LaneLayout(const LaneRoom& room)
      : narrow(room.narrow),
        width(room.width),
        left(narrow ? 14 : kLabels * width),
        right(narrow ? width - 14 : (1 - kNumbers) * width),
        lane_height(narrow ? 46 : 30),
        dots(narrow ? 25 : 9),
        bar(narrow ? 36 : 20),
        note(narrow ? 29 : 40),
        grid(narrow ? 20 : 0) {}
};

double lane_height(const ChartLane& lane, const LaneRoom& room) {
  return LaneLayout(room).lane_height + (lane.note.empty() ? 0 : kNote);
}

/// How a lane ends at the side of the axis that its values leave: the number that is printed there, none if it does not
/// leave it. Of the mean, else of the interval, else of the furthest seed.
std::optional<double> end_of(const ChartLane& lane, const PlotAxis& axis, int side) {
  std::optional<double> end;
  for (const ChartDot& dot : lane.dots)
    if (axis.beyond(dot.value) == side && (!end || (dot.value - *end) * side > 0)) end = dot.value;
  if (!lane.point) return end;
  if (const double bar = side < 0 ? lane.point->low : lane.point->high; lane.bar && axis.beyond(bar) == side) end = bar;
  if (axis.beyond(lane.point->mean) == side) end = lane.point->mean;
  return end;
}

double heading_height(const ChartPanel& panel, bool narrow) {
  const std::size_t lines = !heading_of(panel).empty() + !panel.values_name.empty();
  return (narrow && lines > 1 ? 2 : 1) * kHeading;
}

class LaneDrawing {
 public:
  LaneDrawing(const Chart& chart, const ChartPanel& panel, const LaneRoom& room, SvgWriter& svg)
      : chart_(chart), panel_(panel), room_(room), layout_(room), axis_(chart.across), svg_(svg) {
    double before = 0, after = 0;  // room for the numbers of what leaves the axis
    for (const ChartPanel& each : chart.panels)
      for (const ChartLane& lane : each.lanes) {
        if (const auto end = end_of(lane, axis_, -1)) before = std::max(before, text_width(words_of(*end), 11));
        if (const auto end = end_of(lane, axis_, 1)) after = std::max(after, text_width(words_of(*end), 11));
        if (room.narrow) continue;  // otherwise labels and numbers are beside the picture
        layout_.left = std::max(layout_.left, std::min(kWidestLabels * room.width, text_width(lane.label, 12) + 14));
        layout_.right = std::min(layout_.right, layout_.width - text_width(lane.numbers, 12) - 16);
      }
    labels_ = layout_.left;
    layout_.left += before;
    layout_.right -= after;
    // As many ticks as there is room for.
    double widest = 0;
    for (const double end : {axis_.low, axis_.high}) widest = std::max(widest, text_width(axis_.label(end), 11) + 8);
    const auto most = std::size_t(std::max(2.0, (layout_.right - layout_.left) / widest));
    for (std::size_t wanted = most; axis_.ticks.size() > most && wanted > 0; --wanted)
      axis_ = with_ticks(axis_, wanted);
  }

  void draw() {
    const double lanes_top = heading_height(panel_, layout_.narrow), bottom = lanes_height(panel_, room_) - kLaneAxis,
                 middle = (layout_.left + layout_.right) / 2;
    const double left = layout_.narrow ? 2 : layout_.left;
    if (const std::string heading = heading_of(panel_); !heading.empty())
      svg_.words("p-head", 2.0, 16.0, fitted(heading, layout_.narrow ? layout_.width - 4 : left - 12, kHeadFont));
    svg_.words("p-soft", left, lanes_top - 8, fitted(panel_.values_name, layout_.width - left - 2, 11));
    double top = lanes_top;
    for (const ChartLane& lane : panel_.lanes) {
      svg_.line("p-lane", 0.0, layout_.width, top, top);
      top += lane_height(lane, room_);
    }
    for (const double tick : axis_.ticks) {
      const bool zero = chart_.kind == ChartKind::gains && std::abs(tick) < axis_.step / 2;
      svg_.element("path", {{"class", zero ? "p-zero p-s0" : "p-grid"}, {"d", grid_path(x(tick), lanes_top)}});
      svg_.words("p-soft p-mid p-tick", x(tick), bottom + 17, axis_.label(tick));
    }
    svg_.words("p-soft p-mid", layout_.narrow ? layout_.width / 2 : middle, bottom + 32,
               fitted(chart_.across_name, layout_.width - 8, 11));
    top = lanes_top;
    for (const ChartLane& lane : panel_.lanes) {
      draw_lane(lane, top);
      top += lane_height(lane, room_);
    }
    if (panel_.lanes.empty()) svg_.words("p-note", layout_.left + 8, bottom - 4, "no row to compare");
  }

 private:
  double x(double value) const {
    return axis_.pixel(std::clamp(value, axis_.low, axis_.high), layout_.left, layout_.right);
  }
  std::string words_of(double value) const { return number_label(value, axis_.with_sign); }
  /// How far a note shifts the drawing down: it is below the drawing in wide lanes and above it in narrow ones.
  double shift_of(const ChartLane& lane) const { return layout_.narrow && !lane.note.empty() ? kNote : 0; }

  /// A tick and its grid line through the lanes, interrupted at labels above narrow lanes and at notes.
  std::string grid_path(double at, double top) const {
    std::string path;
    const auto piece = [&](double from, double height) {
      path += fmt::format("M{} {}v{}", svg_number(at), svg_number(from), svg_number(height));
    };
    for (const ChartLane& lane : panel_.lanes) {
      piece(top + layout_.grid + shift_of(lane), layout_.lane_height - layout_.grid);
      top += lane_height(lane, room_);
    }
    piece(top, kTick);
    return path;
  }

  void draw_lane(const ChartLane& lane, double top) {
    const double label_room = layout_.narrow ? layout_.width - text_width(lane.numbers, 12) - 16 : labels_ - 12;
    const double label_y = top + (layout_.narrow ? 15 : 19);
    const double dots = top + layout_.dots + shift_of(lane), bar = top + layout_.bar + shift_of(lane);
    const std::string style = concat(" p-s", lane.style % kChartStyles);
    svg_.words("p-label", 2.0, label_y, fitted(lane.label, label_room, 12));
    svg_.words("p-label p-end", layout_.width - 4, label_y, lane.numbers);
    if (!lane.note.empty()) svg_.words("p-note", 2.0, top + layout_.note, fitted(lane.note, layout_.width - 8, 11));
    for (const ChartDot& dot : lane.dots)
      if (axis_.beyond(dot.value) == 0)
        svg_.element("circle", {{"class", "p-dot" + style}, {"cx", x(dot.value)}, {"cy", dots}, {"r", kDot}},
                     lane.label + ", " + dot_words(chart_, dot));
    if (lane.point) draw_mean(lane, bar, style);
    for (const int side : {-1, 1})
      if (const auto end = end_of(lane, axis_, side)) {
        const double edge = side < 0 ? layout_.left : layout_.right;
        svg_.element("path", {{"class", "p-clear" + style}, {"d", arrow_across(edge, bar, side)}},
                     lane.label + ": " + words_of(*end));
        svg_.words(side < 0 ? "p-soft p-end" : "p-soft", edge + 3 * side, bar + 4, words_of(*end));
      }
  }

  void draw_mean(const ChartLane& lane, double bar, const std::string& style) {
    const BandPoint& point = *lane.point;
    const auto cap = [&](double end) {
      if (axis_.beyond(end) != 0) return std::string();
      return fmt::format("M{} {}V{}", svg_number(x(end)), svg_number(bar - kCap), svg_number(bar + kCap));
    };
    const int side = axis_.beyond(point.low);
    if (lane.bar && (side == 0 || side != axis_.beyond(point.high)))
      svg_.element(
          "path",
          {{"class", "p-bar" + style},
           {"d", cap(point.low) +
                     fmt::format("M{} {}H{}", svg_number(x(point.low)), svg_number(bar), svg_number(x(point.high))) +
                     cap(point.high)}});
    if (axis_.beyond(point.mean) == 0)
      svg_.element("path",
                   {{"class", (lane.clear ? "p-mean p-clear" : "p-mean") + style},
                    {"d", fmt::format("M{} {}l{r} {r}l-{r} {r}l-{r} -{r}z", svg_number(x(point.mean)),
                                      svg_number(bar - kMean), fmt::arg("r", kMean))}},
                   lane.label + (lane.numbers.empty() ? "" : ": " + lane.numbers));
  }

  const Chart& chart_;
  const ChartPanel& panel_;
  LaneRoom room_;
  LaneLayout layout_;
  double labels_ = 0;  // where they end
  PlotAxis axis_;
  SvgWriter& svg_;
};

}  // namespace

double lanes_height(const ChartPanel& panel, const LaneRoom& room) {
  double height = heading_height(panel, room.narrow) + kLaneAxis;
  for (const ChartLane& lane : panel.lanes) height += lane_height(lane, room);
  return height;
}

void draw_lanes(const Chart& chart, const ChartPanel& panel, const LaneRoom& room, SvgWriter& svg) {
  LaneDrawing(chart, panel, room, svg).draw();
}

std::string dot_words(const Chart& chart, const ChartDot& dot) {
  return chart.kind == ChartKind::gains ? fmt::format("{}: {:+.4g}", dot.name, dot.value)
                                        : fmt::format("{}: {:.4g}", dot.name, dot.value);
}

}  // namespace normlab
