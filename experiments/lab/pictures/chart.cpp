#include "experiments/lab/pictures/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "experiments/lab/pictures/curve_plot.h"
#include "experiments/lab/pictures/svg.h"

namespace normlab {
namespace {

constexpr double kLeft = 50, kEdge = 18, kTop = 42, kPlot = 150, kAxis = 36, kLegendRow = 16, kTitle = 26, kGap = 10;
constexpr double kCell = 10;  // least width of the picture of a pixel
constexpr const char* kCross = "m-4.5-4.5l9 9m0-9l-9 9";
constexpr std::size_t kMarked = 12, kLevels = 16;

double right_of(const ChartPanel& panel) { return kChartWidth - (panel.right_name.empty() ? kEdge : 46.0); }

/// Legend entries beside each other: as many as the longest label leaves room for.
std::size_t legend_columns(const ChartPanel& panel) {
  double widest = 0;
  for (const ChartSeries& s : panel.series) widest = std::max(widest, text_width(s.label, 11) + 34);
  return std::clamp<std::size_t>(std::size_t((kChartWidth - kLeft) / std::max(widest, 1.0)), 1, 4);
}

std::vector<const ChartSeries*> named(const ChartPanel& panel) {
  std::vector<const ChartSeries*> out;
  for (const ChartSeries& s : panel.series)
    if (!s.label.empty()) out.push_back(&s);
  return out;
}

std::string move_to(double x, double y) { return fmt::format("M{} {}", svg_number(x), svg_number(y)); }

std::size_t pixel_rows(const ChartPixels& p) { return p.values.size() / std::size_t(p.width); }

/// The scale of a panel's pixels: side of one, and the place of each picture.
struct PixelLayout {
  double side = kCell;
  double step = 0, height = 0;
  explicit PixelLayout(const ChartPanel& panel) {
    const double room = (kChartWidth - 2 * kEdge) / double(panel.pixels.size()) - kGap;
    for (const ChartPixels& p : panel.pixels) side = std::min(side, room / double(p.width));
    step = room + kGap;
    for (const ChartPixels& p : panel.pixels) height = std::max(height, side * double(pixel_rows(p)));
  }
};

double panel_height(const ChartPanel& panel) {
  if (!panel.pixels.empty()) return kTop + PixelLayout(panel).height + 24;
  const std::size_t columns = legend_columns(panel), entries = named(panel).size();
  return kTop + kPlot + kAxis + kLegendRow * double((entries + columns - 1) / columns) + kGap;
}

class PanelDrawing {
 public:
  PanelDrawing(const Chart& chart, const ChartPanel& panel, SvgWriter& svg) : chart_(chart), panel_(panel), svg_(svg) {}

  void draw() {
    svg_.words("p-head", 4.0, 16.0, fitted(panel_.heading, kChartWidth - 8, 14.5));
    if (panel_.pixels.empty())
      draw_lines();
    else
      draw_pixels();
  }

 private:
  const PlotAxis& across() const { return panel_.across ? *panel_.across : chart_.across; }
  double x(double at) const {
    return LinearScale{across().low, across().high, kLeft, right_of(panel_)}(across().place(at));
  }
  double y(const PlotAxis& axis, double value) const {
    return LinearScale{axis.low, axis.high, kTop + kPlot, kTop}(axis.place(value));
  }

  void draw_lines() {
    const double right = right_of(panel_), bottom = kTop + kPlot;
    for (const double tick : panel_.values.ticks) {
      const double at = LinearScale{panel_.values.low, panel_.values.high, bottom, kTop}(tick);
      svg_.line("p-grid", kLeft, right, at, at);
      svg_.words("p-soft p-end p-tick", kLeft - 5, at + 4, panel_.values.label(tick));
    }
    if (!panel_.right_name.empty())
      for (const double tick : panel_.right.ticks)
        svg_.words("p-soft p-tick", right + 5, LinearScale{panel_.right.low, panel_.right.high, bottom, kTop}(tick) + 4,
                   panel_.right.label(tick));
    draw_across(right, bottom);
    svg_.words("p-soft", 4.0, kTop - 11, panel_.values_name);
    svg_.words("p-soft p-end", kChartWidth - 4, kTop - 11, panel_.right_name);
    svg_.words("p-soft p-end", right, bottom + 30, chart_.across_name);
    svg_.open("svg", {{"class", "p-frame"},
                      {"x", kLeft},
                      {"y", kTop - 4},
                      {"width", right - kLeft + 4},
                      {"height", kPlot + 8},
                      {"viewBox", fmt::format("{} {} {} {}", kLeft, kTop - 4, right - kLeft + 4, kPlot + 8)},
                      {"overflow", "hidden"}});
    for (const ChartSeries& s : panel_.series) draw_series(s);
    for (const ChartSeries& s : panel_.series)
      for (const ChartCross& cross : s.crosses)
        svg_.element("path",
                     {{"class", "p-cross"}, {"d", move_to(x(cross.at), y(panel_.values, cross.value)) + kCross}},
                     s.label + ", " + cross.words);
    svg_.close();
    draw_legend(bottom + kAxis);
  }

  void draw_across(double right, double bottom) {
    if (chart_.categories.empty()) {
      for (const double tick : across().ticks) {
        const double at = LinearScale{across().low, across().high, kLeft, right}(tick);
        svg_.line("p-grid", at, at, bottom, bottom + 4);
        svg_.words("p-soft p-mid p-tick", at, bottom + 15, across().label(tick));
      }
      return;
    }
    double widest = 0;
    for (const std::string& name : chart_.categories) widest = std::max(widest, text_width(name, 11) + 8);
    const std::size_t count = chart_.categories.size();
    const auto every = std::max<std::size_t>(1, std::size_t(std::ceil(widest * double(count) / (right - kLeft))));
    for (std::size_t i = 0; i < count; i += every) {
      svg_.line("p-grid", x(double(i)), x(double(i)), bottom, bottom + 4);
      svg_.words("p-soft p-mid p-tick", x(double(i)), bottom + 15, chart_.categories[i]);
    }
  }

  void draw_series(const ChartSeries& s) {
    const PlotAxis& axis = s.right ? panel_.right : panel_.values;
    std::vector<std::pair<double, double>> at;
    for (const BandPoint& point : s.look == ChartLook::dots ? s.points : thinned(s.points, kMaxCurvePoints))
      if (std::isfinite(point.mean) && (!axis.logarithmic || point.mean > 0))
        at.emplace_back(x(point.at), y(axis, point.mean));
    const std::string style = std::to_string(s.style % kChartStyles);
    if (s.look == ChartLook::dots) {
      std::string path;
      for (const auto& [px, py] : at) path += move_to(px, py) + "h0";
      if (!path.empty()) svg_.element("path", {{"class", "p-dots p-s" + style}, {"d", path}});
      return;
    }
    std::string path;
    for (const auto& [px, py] : at)
      path += fmt::format("{}{} {}", path.empty() ? "M" : "L", svg_number(px), svg_number(py));
    if (at.size() > 1) svg_.element("path", {{"class", "p-many p-s" + style + " p-d" + style}, {"d", path}});
    if (s.look == ChartLook::shape) return;
    std::string marks;
    const std::size_t every = std::max<std::size_t>(1, at.size() / kMarked);
    for (std::size_t i = 0; i < at.size(); i += every) marks += marker(s.style, at[i].first, at[i].second);
    if (!marks.empty()) svg_.element("path", {{"class", "p-mark p-s" + style + " p-f" + style}, {"d", marks}});
  }

  static std::string marker(std::size_t style, double x, double y) {
    constexpr const char* kShapes[kChartStyles] = {"m-2.5-2.5h5v5h-5z",
                                                   "m0-3.5l3.2 6h-6.4z",
                                                   "m0-3.6l3.6 3.6-3.6 3.6-3.6-3.6z",
                                                   "m-3-3l6 6m0-6l-6 6",
                                                   "m0 3.5l3.2-6h-6.4z",
                                                   "m-3.2 0h6.4m-3.2-3.2v6.4",
                                                   "m-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0z",
                                                   "m-1.5-3h3v6h-3z"};
    return move_to(x, y) + kShapes[style % kChartStyles];
  }

  void draw_legend(double top) {
    const std::size_t columns = legend_columns(panel_);
    const double width = (kChartWidth - kLeft) / double(columns);
    std::size_t i = 0;
    for (const ChartSeries* s : named(panel_)) {
      const double left = kLeft + width * double(i % columns), at = top + kLegendRow * double(i / columns) + 8;
      const std::string style = std::to_string(s->style % kChartStyles);
      const std::string line = move_to(left, at) + "h22";
      if (s->look != ChartLook::dots)
        svg_.element("path", {{"class", "p-many p-s" + style + " p-d" + style}, {"d", line}});
      if (s->look == ChartLook::dots)
        svg_.element("path", {{"class", "p-dots p-s" + style}, {"d", move_to(left + 11, at) + "h0"}});
      if (s->look == ChartLook::line)
        svg_.element("path",
                     {{"class", "p-mark p-s" + style + " p-f" + style}, {"d", marker(s->style, left + 11, at)}});
      svg_.words("p-soft", left + 27, at + 4, fitted(s->label, width - 30, 11));
      ++i;
    }
  }

  void draw_pixels() {
    const PixelLayout layout(panel_);
    double low = INFINITY, high = -INFINITY;
    for (const ChartPixels& p : panel_.pixels)
      for (const double v : p.values)
        if (std::isfinite(v)) low = std::min(low, v), high = std::max(high, v);
    const double side = layout.side;
    for (std::size_t k = 0; k < panel_.pixels.size(); ++k) {
      const ChartPixels& p = panel_.pixels[k];
      const double left = kEdge + layout.step * double(k);
      std::vector<std::string> levels(kLevels);
      for (std::size_t i = 0; i < p.values.size(); ++i) {
        if (!std::isfinite(p.values[i])) continue;
        const double share = high > low ? (p.values[i] - low) / (high - low) : 1;
        const auto level = std::min(kLevels - 1, std::size_t(share * double(kLevels)));
        const double px = left + side * double(i % std::size_t(p.width)),
                     py = kTop + side * double(i / std::size_t(p.width));
        levels[level] +=
            fmt::format("M{} {}h{s}v{s}h-{s}z", svg_number(px), svg_number(py), fmt::arg("s", svg_number(side)));
      }
      for (std::size_t level = 0; level < kLevels; ++level)
        if (!levels[level].empty())
          svg_.element("path", {{"class", "p-pixel"},
                                {"fill-opacity", 0.04 + 0.96 * double(level) / double(kLevels - 1)},
                                {"d", levels[level]}});
      svg_.words("p-soft", left, kTop + layout.height + 15, p.label);
    }
    svg_.words("p-soft", 4.0, kTop - 11, fmt::format("light {:.3g}, dark {:.3g}", low, high));
  }

  const Chart& chart_;
  const ChartPanel& panel_;
  SvgWriter& svg_;
};

std::string panel_text(const Chart& chart, const ChartPanel& panel) {
  std::string text = panel.heading;
  text += '.';
  for (const ChartSeries& s : panel.series) {
    if (s.points.empty() || s.label.empty() || s.look != ChartLook::line) continue;
    text += fmt::format(" {}: from {:.4g} to {:.4g}.", s.label, s.points.front().mean, s.points.back().mean);
    for (const ChartCross& cross : s.crosses) text += fmt::format(" {}, {}.", s.label, cross.words);
  }
  return chart.caption + " " + text;
}

}  // namespace

void set_chart_axes(Chart& chart, ChartScale across_scale, ChartScale values_scale, bool own_across) {
  struct Extent {
    double low = INFINITY, high = -INFINITY, least = INFINITY;  // least: of those above 0
    void add(double v) {
      if (!std::isfinite(v)) return;
      low = std::min(low, v);
      high = std::max(high, v);
      if (v > 0) least = std::min(least, v);
    }
    PlotAxis axis(ChartScale scale) const {
      constexpr double kDecades = 1e6, kWide = 30;
      constexpr std::size_t kMostTicks = 8;
      if (high < low) return make_axis(0, 1, 4);
      const bool wide = low > 0 && high > kWide * low;
      if (scale == ChartScale::linear || (scale == ChartScale::automatic && !wide) || least > high)
        return make_axis(low, high, 4);
      PlotAxis axis = make_log_axis(std::max(least, high / kDecades), high);
      while (axis.ticks.size() > kMostTicks) {
        std::vector<double> fewer;
        for (std::size_t i = axis.ticks.size() % 2; i < axis.ticks.size(); i += 2) fewer.push_back(axis.ticks[i]);
        axis.ticks = fewer;
      }
      return axis;
    }
  };
  Extent across;
  std::map<std::string, Extent> values;
  for (ChartPanel& panel : chart.panels) {
    Extent of_panel;
    for (const ChartSeries& s : panel.series)
      for (const BandPoint& point : s.points) {
        of_panel.add(point.at);
        if (panel.drawn) across.add(point.at);
        values[s.right ? panel.right_name : panel.values_name].add(point.mean);
      }
    if (own_across) panel.across = of_panel.axis(across_scale);
  }
  for (ChartPanel& panel : chart.panels) {
    panel.values = values[panel.values_name].axis(values_scale);
    panel.right = values[panel.right_name].axis(ChartScale::linear);
  }
  if (chart.categories.empty()) {
    chart.across = across.axis(across_scale);
  } else {
    chart.across.low = -0.5;
    chart.across.high = double(chart.categories.size()) - 0.5;
  }
}

std::vector<PictureFile> chart_files(const Chart& chart) {
  std::vector<PictureFile> pictures;
  std::vector<const ChartPanel*> panels;
  const auto finish = [&] {
    if (panels.empty()) return;
    double height = kTitle;
    std::string text = chart.caption;
    for (const ChartPanel* panel : panels) height += panel_height(*panel);
    const std::string id = pictures.empty() ? chart.name : fmt::format("{}-{}", chart.name, pictures.size() + 1);
    SvgWriter svg;
    open_picture(svg, {id, chart.title, text, kChartWidth, height, true});
    svg.words("p-head", 4.0, 17.0, fitted(chart.title, kChartWidth - 8, 14.5));
    double top = kTitle;
    for (std::size_t i = 0; i < panels.size(); ++i) {
      svg.open("g", {{"transform", fmt::format("translate(0 {})", svg_number(top))}});
      PanelDrawing(chart, *panels[i], svg).draw();
      svg.close();
      top += panel_height(*panels[i]);
    }
    svg.close();
    pictures.push_back({fmt::format("{}.svg", id), svg.take()});
    panels.clear();
  };
  std::size_t bytes = 0;
  for (const ChartPanel& panel : chart.panels) {
    if (!panel.drawn) continue;
    SvgWriter alone;
    alone.open("g");
    PanelDrawing(chart, panel, alone).draw();
    alone.close();
    const std::size_t more = alone.take().size();
    if (bytes + more > kChartBytes) {
      finish();
      bytes = 0;
    }
    bytes += more;
    panels.push_back(&panel);
  }
  finish();
  return pictures;
}

std::string chart_panel(const Chart& chart, std::size_t index, const std::string& id) {
  const ChartPanel& panel = chart.panels[index];
  SvgWriter svg;
  open_picture(svg, {id, panel.heading, panel_text(chart, panel), kChartWidth, panel_height(panel), false});
  PanelDrawing(chart, panel, svg).draw();
  svg.close();
  return svg.take();
}

}  // namespace normlab
