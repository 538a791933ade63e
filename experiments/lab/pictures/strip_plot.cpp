#include "experiments/lab/pictures/strip_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/lab/pictures/axis.h"

namespace normlab {
namespace {

constexpr double kDot = 3.5, kMean = 4.5, kCap = 4;  // radius, half diagonal, half height
constexpr double kHeadingHeight = 24, kAxisHeight = 22, kAxisLabelHeight = 20, kStripGap = 14, kNoteHeight = 14,
                 kTick = 4;

struct Layout {
  bool narrow = false;
  double width, left, right, lane_height, dots, bar, note, grid;  // the last four: offset from a lane's top
};

constexpr double kWidestLabels = 350;
constexpr Layout kWide{false, 760, 220, 640, 30, 9, 20, 40, 0}, kNarrow{true, 360, 14, 346, 46, 25, 36, 29, 20};

class Drawing {
 public:
  Drawing(const StripPlot& plot, Layout layout) : plot_(plot) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    const auto see = [&](double value) {
      if (!std::isfinite(value)) return;
      low = std::min(low, value);
      high = std::max(high, value);
    };
    if (plot.gains) see(0);
    for (const PlotStrip& strip : plot.strips)
      for (const PlotLane& lane : strip.lanes) {
        for (const PlotDot& dot : lane.dots) see(dot.value);
        if (lane.mean) see(*lane.mean);
        if (lane.interval) see(lane.interval->first), see(lane.interval->second);
        if (layout.narrow) continue;
        // Labels and numbers are beside the picture.
        layout.left = std::max(layout.left, std::min(kWidestLabels, text_width(lane.label, 12) + 14));
        layout.right = std::min(layout.right, layout.width - text_width(lane.numbers, 12) - 16);
      }
    layout_ = layout;
    axis_ = low > high ? make_axis(-1, 1, 4) : make_axis(low, high, layout.narrow ? 4 : 7);
    x_ = {axis_.low, axis_.high, layout.left, layout.right};
  }

  std::string draw(const std::string& id, bool standalone) {
    double height = kAxisLabelHeight;
    for (const PlotStrip& strip : plot_.strips) height += strip_height(strip);
    SvgFrame frame{id, plot_.title, plot_.description, layout_.width, height, standalone};
    open_picture(svg_, frame);
    double top = 0;
    for (const PlotStrip& strip : plot_.strips) {
      draw_strip(strip, top);
      top += strip_height(strip);
    }
    svg_.words("p-mid", layout_.narrow ? layout_.width / 2 : (layout_.left + layout_.right) / 2, height - 6,
               fitted(plot_.axis, layout_.width - 8, 12));
    svg_.close();
    return svg_.take();
  }

 private:
  double lane_height(const PlotLane& lane) const { return layout_.lane_height + (lane.note.empty() ? 0 : kNoteHeight); }
  /// How far a note shifts the drawing down: it is below the drawing in wide lanes and above it in narrow ones.
  double shift_of(const PlotLane& lane) const { return layout_.narrow && !lane.note.empty() ? kNoteHeight : 0; }
  double lanes_height(const PlotStrip& strip) const {
    double height = 0;
    for (const PlotLane& lane : strip.lanes) height += lane_height(lane);
    return height;
  }
  double heading_height(const PlotStrip& strip) const {
    const double lines = double(!strip.heading.empty()) + double(!strip.zero.empty());
    return layout_.narrow ? std::max(1.0, lines) * kHeadingHeight : kHeadingHeight;
  }
  double strip_height(const PlotStrip& strip) const {
    return heading_height(strip) + lanes_height(strip) + kAxisHeight + kStripGap;
  }

  void draw_strip(const PlotStrip& strip, double top) {
    const double lanes_top = top + heading_height(strip), bottom = lanes_top + lanes_height(strip);
    svg_.open("g", {{"class", "p-strip"}});
    const double zero_room = layout_.narrow ? layout_.width - 4 : layout_.width - layout_.left;
    svg_.words("p-head", 2.0, top + 16,
               fitted(strip.heading, layout_.narrow ? layout_.width - 4 : layout_.left - 12, 14.5));
    svg_.words("p-soft", layout_.narrow ? 2 : layout_.left, lanes_top - 8, fitted(strip.zero, zero_room, 11));
    double line = lanes_top;
    for (const PlotLane& lane : strip.lanes) {
      svg_.line("p-lane", 0.0, layout_.width, line, line);
      line += lane_height(lane);
    }
    for (const double tick : axis_.ticks) {
      const bool zero = plot_.gains && std::abs(tick) < axis_.step / 2;
      svg_.element("path", {{"class", zero ? "p-zero" : "p-grid"}, {"d", grid_path(strip, x_(tick), lanes_top)}});
      svg_.words("p-soft p-mid p-tick", x_(tick), bottom + 17, tick_label(tick, axis_.step, plot_.gains));
    }
    double lane_top = lanes_top;
    for (const PlotLane& lane : strip.lanes) {
      draw_lane(lane, lane_top);
      lane_top += lane_height(lane);
    }
    if (strip.lanes.empty()) svg_.words("p-note", layout_.left + 8, bottom - 4, "no row to compare");
    svg_.close();
  }

  /// A tick and its grid line through the lanes, interrupted at labels above narrow lanes and at notes.
  std::string grid_path(const PlotStrip& strip, double x, double top) const {
    std::string path;
    const auto piece = [&](double from, double height) {
      path += fmt::format("M{} {}v{}", svg_number(x), svg_number(from), svg_number(height));
    };
    for (const PlotLane& lane : strip.lanes) {
      piece(top + layout_.grid + shift_of(lane), layout_.lane_height - layout_.grid);
      top += lane_height(lane);
    }
    piece(top, kTick);
    return path;
  }

  void draw_lane(const PlotLane& lane, double top) {
    const double shift = shift_of(lane);
    const double label_room = layout_.narrow ? layout_.width - text_width(lane.numbers, 12) - 16 : layout_.left - 12;
    const double label_y = layout_.narrow ? top + 15 : top + 19;
    svg_.words("p-label", 2.0, label_y, fitted(lane.label, label_room, 12));
    svg_.words("p-label p-end", layout_.width - 4, label_y, lane.numbers);
    if (!lane.note.empty()) svg_.words("p-note", 2.0, top + layout_.note, fitted(lane.note, layout_.width - 8, 11));
    const double dots = top + layout_.dots + shift, bar = top + layout_.bar + shift;
    for (const PlotDot& dot : lane.dots)
      svg_.element("circle", {{"class", "p-dot"}, {"cx", x_(dot.value)}, {"cy", dots}, {"r", kDot}},
                   fmt::format("{}, {}: {:+.4g}", lane.label, dot.name, dot.value));
    if (!lane.mean) return;
    const double x = x_(*lane.mean);
    if (lane.interval) {
      const double low = x_(lane.interval->first), high = x_(lane.interval->second);
      svg_.element("path", {{"class", lane.tone.empty() ? "p-bar" : "p-bar p-" + lane.tone},
                            {"d", fmt::format("M{0} {2}V{3}M{0} {4}H{1}M{1} {2}V{3}", svg_number(low), svg_number(high),
                                              svg_number(bar - kCap), svg_number(bar + kCap), svg_number(bar))}});
    }
    svg_.element("path",
                 {{"class", std::string(lane.clear ? "p-mean p-clear" : "p-mean") +
                                (lane.tone.empty() ? "" : " p-" + lane.tone)},
                  {"d", fmt::format("M{} {}l{r} {r}l-{r} {r}l-{r} -{r}z", svg_number(x), svg_number(bar - kMean),
                                    fmt::arg("r", kMean))}},
                 lane.label + (lane.numbers.empty() ? "" : ": " + lane.numbers));
  }

  const StripPlot& plot_;
  Layout layout_;
  PlotAxis axis_;
  LinearScale x_;
  SvgWriter svg_;
};

}  // namespace

std::string strip_plot(const StripPlot& plot, const std::string& id, StripWidth width, bool standalone) {
  return Drawing(plot, width == StripWidth::narrow ? kNarrow : kWide).draw(id, standalone);
}

}  // namespace normlab
