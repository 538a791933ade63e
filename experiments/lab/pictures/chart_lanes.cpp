#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "experiments/lab/pictures/chart.h"

namespace normlab {
namespace {

constexpr double kDot = 3.5, kMean = 4.5, kCap = 4;  // radius, half diagonal, half height
constexpr double kHeading = 24, kLaneAxis = 42, kNote = 14, kTick = 4, kWidestLabels = 350;

struct LaneLayout {
  bool narrow = false;
  double width, left, right, lane_height, dots, bar, note, grid;  // the last four: offset from a lane's top
};
constexpr LaneLayout kWide{false, kWideLanes, 220, 640, 30, 9, 20, 40, 0},
    kNarrow{true, kNarrowLanes, 14, 346, 46, 25, 36, 29, 20};

double lane_height(const ChartLane& lane, bool narrow) {
  return (narrow ? kNarrow : kWide).lane_height + (lane.note.empty() ? 0 : kNote);
}

double heading_height(const ChartPanel& panel, bool narrow) {
  return (narrow && !panel.heading.empty() && !panel.values_name.empty() ? 2 : 1) * kHeading;
}

class LaneDrawing {
 public:
  LaneDrawing(const Chart& chart, const ChartPanel& panel, bool narrow, SvgWriter& svg)
      : chart_(chart), panel_(panel), layout_(narrow ? kNarrow : kWide), axis_(chart.across), svg_(svg) {
    if (narrow) {
      axis_ = make_axis(axis_.low, axis_.high, 4);
      axis_.with_sign = chart.across.with_sign;
      return;
    }
    for (const ChartPanel& each : chart.panels)  // labels and numbers are beside the picture
      for (const ChartLane& lane : each.lanes) {
        layout_.left = std::max(layout_.left, std::min(kWidestLabels, text_width(lane.label, 12) + 14));
        layout_.right = std::min(layout_.right, layout_.width - text_width(lane.numbers, 12) - 16);
      }
  }

  void draw() {
    const double lanes_top = heading_height(panel_, layout_.narrow),
                 bottom = lanes_height(panel_, layout_.narrow) - kLaneAxis, middle = (layout_.left + layout_.right) / 2;
    const double left = layout_.narrow ? 2 : layout_.left;
    svg_.words("p-head", 2.0, 16.0, fitted(panel_.heading, layout_.narrow ? layout_.width - 4 : left - 12, 14.5));
    svg_.words("p-soft", left, lanes_top - 8, fitted(panel_.values_name, layout_.width - left - 2, 11));
    double top = lanes_top;
    for (const ChartLane& lane : panel_.lanes) {
      svg_.line("p-lane", 0.0, layout_.width, top, top);
      top += lane_height(lane, layout_.narrow);
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
      top += lane_height(lane, layout_.narrow);
    }
    if (panel_.lanes.empty()) svg_.words("p-note", layout_.left + 8, bottom - 4, "no row to compare");
  }

 private:
  double x(double value) const { return axis_.pixel(value, layout_.left, layout_.right); }
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
      top += lane_height(lane, layout_.narrow);
    }
    piece(top, kTick);
    return path;
  }

  void draw_lane(const ChartLane& lane, double top) {
    const double label_room = layout_.narrow ? layout_.width - text_width(lane.numbers, 12) - 16 : layout_.left - 12;
    const double label_y = top + (layout_.narrow ? 15 : 19);
    const double dots = top + layout_.dots + shift_of(lane), bar = top + layout_.bar + shift_of(lane);
    const std::string style = concat(" p-s", lane.style % kChartStyles);
    svg_.words("p-label", 2.0, label_y, fitted(lane.label, label_room, 12));
    svg_.words("p-label p-end", layout_.width - 4, label_y, lane.numbers);
    if (!lane.note.empty()) svg_.words("p-note", 2.0, top + layout_.note, fitted(lane.note, layout_.width - 8, 11));
    for (const ChartDot& dot : lane.dots)
      svg_.element("circle", {{"class", "p-dot" + style}, {"cx", x(dot.value)}, {"cy", dots}, {"r", kDot}},
                   lane.label + ", " + dot_words(chart_, dot));
    if (!lane.point) return;
    if (lane.bar)
      svg_.element("path", {{"class", "p-bar" + style},
                            {"d", fmt::format("M{0} {2}V{3}M{0} {4}H{1}M{1} {2}V{3}", svg_number(x(lane.point->low)),
                                              svg_number(x(lane.point->high)), svg_number(bar - kCap),
                                              svg_number(bar + kCap), svg_number(bar))}});
    svg_.element("path",
                 {{"class", (lane.clear ? "p-mean p-clear" : "p-mean") + style},
                  {"d", fmt::format("M{} {}l{r} {r}l-{r} {r}l-{r} -{r}z", svg_number(x(lane.point->mean)),
                                    svg_number(bar - kMean), fmt::arg("r", kMean))}},
                 lane.label + (lane.numbers.empty() ? "" : ": " + lane.numbers));
  }

  const Chart& chart_;
  const ChartPanel& panel_;
  LaneLayout layout_;
  PlotAxis axis_;
  SvgWriter& svg_;
};

}  // namespace

double lanes_height(const ChartPanel& panel, bool narrow) {
  double height = heading_height(panel, narrow) + kLaneAxis;
  for (const ChartLane& lane : panel.lanes) height += lane_height(lane, narrow);
  return height;
}

void draw_lanes(const Chart& chart, const ChartPanel& panel, bool narrow, SvgWriter& svg) {
  LaneDrawing(chart, panel, narrow, svg).draw();
}

std::string dot_words(const Chart& chart, const ChartDot& dot) {
  return chart.kind == ChartKind::gains ? fmt::format("{}: {:+.4g}", dot.name, dot.value)
                                        : fmt::format("{}: {:.4g}", dot.name, dot.value);
}

}  // namespace normlab
