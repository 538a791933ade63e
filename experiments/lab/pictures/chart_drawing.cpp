#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "experiments/lab/pictures/chart.h"

namespace normlab {
namespace {

constexpr double kAxis = 36, kLegendRow = 16, kTitle = 26, kGap = 12;
constexpr double kCell = 10, kPixelsEdge = 18;  // least width of the picture of a pixel, room beside them
constexpr double kCross = 4.5;                  // half the width
constexpr std::size_t kMarked = 12, kLevels = 16, kColumns = 3;

double panel_width(const Chart& chart, bool narrow) {
  if (chart.has_lanes()) return narrow ? kNarrowLanes : kWideLanes;
  return chart.kind == ChartKind::small ? 300 : 400;
}

bool is_named(const ChartSeries& s) { return !s.label.empty() && s.look < ChartLook::band; }

/// The places in a panel of lines or pixels.
struct Layout {
  double width, left, right, top, plot;
  std::size_t legend_columns = 1, legend_rows = 0;
  double side = kCell, step = 0, pixels = 0;  // of pixels: side of one, from picture to picture, height of the largest

  Layout(const Chart& chart, const ChartPanel& panel) : width(panel_width(chart, false)) {
    const bool small = chart.kind == ChartKind::small;
    left = small ? 46 : 50;
    right = width - (!panel.right_name.empty() ? 46 : small ? 10 : 18);
    top = small ? 28 : 42;
    plot = small ? 130 : 150;
    std::size_t entries = 0;
    double widest = 1;
    for (const ChartSeries& s : panel.series) {
      if (!is_named(s)) continue;
      ++entries;
      widest = std::max(widest, text_width(s.label, 11) + 34);
    }
    // Entries beside each other: as many as the longest label leaves room for.
    legend_columns = std::clamp<std::size_t>(std::size_t((width - left) / widest), 1, 4);
    legend_rows = (entries + legend_columns - 1) / legend_columns;
    if (panel.pixels.empty()) return;
    step = (width - 2 * kPixelsEdge) / double(panel.pixels.size());
    for (const ChartPixels& p : panel.pixels) side = std::min(side, (step - kGap) / double(p.width));
    for (const ChartPixels& p : panel.pixels)
      pixels = std::max(pixels, side * double(p.values.size() / std::size_t(p.width)));
  }
  double bottom() const { return top + plot; }
  double height() const {
    return pixels > 0 ? top + pixels + 24 : bottom() + kAxis + kLegendRow * double(legend_rows) + kGap;
  }
};

std::string move_to(double x, double y) { return fmt::format("M{} {}", svg_number(x), svg_number(y)); }

class PanelDrawing {
 public:
  PanelDrawing(const Chart& chart, const ChartPanel& panel, SvgWriter& svg)
      : chart_(chart),
        panel_(panel),
        across_(panel.across ? *panel.across : chart.across),
        at_(chart, panel),
        svg_(svg) {}

  void draw() {
    svg_.words("p-head", 4.0, 16.0, fitted(panel_.heading, at_.right - 12 - text_width(panel_.corner, 11), 14.5));
    svg_.words("p-soft p-end", at_.right, 16.0, panel_.corner);
    if (panel_.pixels.empty())
      draw_lines();
    else
      draw_pixels();
  }

 private:
  double x(double at) const { return across_.pixel(across_.place(at), at_.left, at_.right); }
  double y(const PlotAxis& axis, double value) const { return axis.pixel(axis.place(value), at_.bottom(), at_.top); }

  void draw_lines() {
    const double left = at_.left, right = at_.right, bottom = at_.bottom();
    for (const double tick : panel_.values.ticks) {
      const double at = panel_.values.pixel(tick, bottom, at_.top);
      svg_.line("p-grid", left, right, at, at);
      svg_.words("p-soft p-end p-tick", left - 5, at + 4, panel_.values.label(tick));
    }
    if (!panel_.right_name.empty())
      for (const double tick : panel_.right.ticks)
        svg_.words("p-soft p-tick", right + 5, panel_.right.pixel(tick, bottom, at_.top) + 4, panel_.right.label(tick));
    draw_across();
    svg_.words("p-soft", 4.0, at_.top - 11, panel_.values_name);
    svg_.words("p-soft p-end", at_.width - 4, at_.top - 11, panel_.right_name);
    svg_.words("p-soft p-end", right, bottom + 30, chart_.across_name);
    // A nested svg element clips what lies outside its frame.
    svg_.open("svg", {{"class", "p-frame"},
                      {"x", left},
                      {"y", at_.top - 4},
                      {"width", right - left + 4},
                      {"height", at_.plot + 8},
                      {"viewBox", fmt::format("{} {} {} {}", left, at_.top - 4, right - left + 4, at_.plot + 8)},
                      {"overflow", "hidden"}});
    bool any = false;
    for (const ChartSeries& s : panel_.series) {
      draw_series(s);
      any = any || !s.points.empty();
    }
    for (const ChartSeries& s : panel_.series)
      for (const ChartCross& cross : s.crosses) {
        const double at = std::clamp(y(panel_.values, cross.value), at_.top + kCross, bottom - kCross);
        svg_.element("path", {{"class", "p-cross p-s2"}, {"d", move_to(x(cross.at), at) + "m-4.5-4.5l9 9m0-9l-9 9"}},
                     s.label + ", " + cross.words);
      }
    svg_.close();
    if (!any) svg_.words("p-note p-mid", (left + right) / 2, at_.top + at_.plot / 2, "no values yet");
    draw_legend(bottom + kAxis);
  }

  void draw_across() {
    const double bottom = at_.bottom();
    const auto tick = [&](double at, const std::string& label) {
      svg_.line("p-grid", at, at, bottom, bottom + 4);
      svg_.words("p-soft p-mid p-tick", at, bottom + 15, label);
    };
    const std::vector<std::string>& names = chart_.categories;
    if (names.empty())
      for (const double at : across_.ticks) tick(across_.pixel(at, at_.left, at_.right), across_.label(at));
    double widest = 0;
    for (const std::string& name : names) widest = std::max(widest, text_width(name, 11) + 8);
    const double share = widest * double(names.size()) / (at_.right - at_.left);
    const auto every = std::max<std::size_t>(1, std::size_t(std::ceil(share)));
    for (std::size_t i = 0; i < names.size(); i += every) tick(x(double(i)), names[i]);
  }

  void draw_series(const ChartSeries& s) {
    const PlotAxis& axis = s.right ? panel_.right : panel_.values;
    std::vector<BandPoint> points = s.look == ChartLook::dots ? s.points : thinned(s.points, kMaxCurvePoints);
    std::erase_if(points,
                  [&](const BandPoint& p) { return !std::isfinite(p.mean) || (axis.logarithmic && p.mean <= 0); });
    const std::string style = concat(" p-s", s.style % kChartStyles);
    const auto place = [&](double at, double value) { return svg_number(x(at)) + ' ' + svg_number(y(axis, value)); };
    if (s.look == ChartLook::dots) {
      std::string path;
      for (const BandPoint& p : points) path += "M" + place(p.at, p.mean) + "h0";
      if (!path.empty()) svg_.element("path", {{"class", "p-dots" + style}, {"d", path}});
      return;
    }
    std::string line, area;
    std::vector<BandPoint> lone;
    for (std::size_t begin = 0, end; begin < points.size(); begin = end) {
      for (end = begin + 1; end < points.size() && (s.look < ChartLook::band || points[end].n == points[begin].n);)
        ++end;
      if (end - begin == 1 && s.look == ChartLook::band) lone.push_back(points[begin]);
      for (std::size_t i = begin; i < end; ++i) line += (i == begin ? "M" : "L") + place(points[i].at, points[i].mean);
      if (end - begin == 1 || points[begin].n == 1 || s.look != ChartLook::band) continue;
      for (std::size_t i = begin; i < end; ++i) area += (i == begin ? "M" : "L") + place(points[i].at, points[i].high);
      for (std::size_t i = end; i-- > begin;) area += "L" + place(points[i].at, points[i].low);
      area += "Z";
    }
    if (!area.empty()) svg_.element("path", {{"class", "p-band" + style}, {"d", area}});
    if (points.size() > 1) svg_.element("path", {{"class", line_class(s)}, {"d", line}});
    // A piece of one point has no line: a dot, and the range of its seeds as a vertical bar.
    for (const BandPoint& p : lone) {
      svg_.element("circle", {{"class", "p-point" + style}, {"cx", x(p.at)}, {"cy", y(axis, p.mean)}, {"r", 3.0}});
      if (p.n > 1)
        svg_.element("path", {{"class", "p-bar" + style}, {"d", "M" + place(p.at, p.low) + "L" + place(p.at, p.high)}});
    }
    if (s.look != ChartLook::line || points.empty()) return;
    std::string marks;
    for (std::size_t i = 0; i < points.size(); i += std::max<std::size_t>(1, points.size() / kMarked))
      marks += marker(s.style, x(points[i].at), y(axis, points[i].mean));
    svg_.element("path", {{"class", mark_class(s)}, {"d", marks}});
  }

  static std::string line_class(const ChartSeries& s) {
    const std::string style = std::to_string(s.style % kChartStyles);
    const bool base = s.look == ChartLook::base;
    return "p-many p-s" + style + (base ? " p-base" : s.look == ChartLook::band ? "" : " p-d" + style);
  }
  static std::string mark_class(const ChartSeries& s) {
    return concat("p-mark p-s", s.style % kChartStyles, " p-f", s.style % kChartStyles);
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
    const double width = (at_.width - at_.left) / double(at_.legend_columns);
    std::size_t i = 0;
    for (const ChartSeries& s : panel_.series) {
      if (!is_named(s)) continue;
      const double left = at_.left + width * double(i % at_.legend_columns),
                   y = top + kLegendRow * double(i / at_.legend_columns) + 8;
      if (s.look == ChartLook::dots)
        svg_.element("path",
                     {{"class", concat("p-dots p-s", s.style % kChartStyles)}, {"d", move_to(left + 11, y) + "h0"}});
      else
        svg_.element("path", {{"class", line_class(s)}, {"d", move_to(left, y) + "h22"}});
      if (s.look == ChartLook::line)
        svg_.element("path", {{"class", mark_class(s)}, {"d", marker(s.style, left + 11, y)}});
      svg_.words("p-soft", left + 27, y + 4, fitted(s.label, width - 30, 11));
      ++i;
    }
  }

  void draw_pixels() {
    double low = INFINITY, high = -INFINITY;
    for (const ChartPixels& p : panel_.pixels)
      for (const double v : p.values)
        if (std::isfinite(v)) low = std::min(low, v), high = std::max(high, v);
    double left = kPixelsEdge;
    for (const ChartPixels& p : panel_.pixels) {
      std::vector<std::string> levels(kLevels);
      for (std::size_t i = 0; i < p.values.size(); ++i) {
        if (!std::isfinite(p.values[i])) continue;
        const double share = high > low ? (p.values[i] - low) / (high - low) : 1;
        const auto level = std::min(kLevels - 1, std::size_t(share * double(kLevels)));
        levels[level] += move_to(left + at_.side * double(i % std::size_t(p.width)),
                                 at_.top + at_.side * double(i / std::size_t(p.width))) +
                         fmt::format("h{s}v{s}h-{s}z", fmt::arg("s", svg_number(at_.side)));
      }
      for (std::size_t level = 0; level < kLevels; ++level)
        if (!levels[level].empty())
          svg_.element("path", {{"class", "p-pixel p-s0"},
                                {"fill-opacity", 0.04 + 0.96 * double(level) / double(kLevels - 1)},
                                {"d", levels[level]}});
      svg_.words("p-soft", left, at_.top + at_.pixels + 15, p.label);
      left += at_.step;
    }
    svg_.words("p-soft", 4.0, at_.top - 11, fmt::format("light {:.3g}, dark {:.3g}", low, high));
  }

  const Chart& chart_;
  const ChartPanel& panel_;
  const PlotAxis& across_;
  Layout at_;
  SvgWriter& svg_;
};

/// The panel in words.
std::string panel_text(const Chart& chart, const ChartPanel& panel) {
  std::string text;
  if (!panel.heading.empty() && chart.kind != ChartKind::small) text = panel.heading + ".";
  for (const ChartSeries& s : panel.series) {
    const bool band = s.look == ChartLook::band;
    if (s.label.empty() || (s.look != ChartLook::line && !band)) continue;
    if (s.points.empty()) {
      text += fmt::format(" {}: no values yet.", s.label);
      continue;
    }
    const BandPoint &first = s.points.front(), &last = s.points.back();
    const auto at = [&](const BandPoint& p) {
      return fmt::format("{:.4g}", p.mean) + (band ? fmt::format(" at {} {}", chart.across_name, p.at) : "");
    };
    text += fmt::format(" {}: from {} to {}", s.label, at(first), at(last));
    if (band && last.n > 1) text += fmt::format(", there {} seeds from {:.4g} to {:.4g}", last.n, last.low, last.high);
    text += ".";
    for (const ChartCross& cross : s.crosses) text += fmt::format(" {}, {}.", s.label, cross.words);
  }
  for (const ChartLane& lane : panel.lanes) {
    text += fmt::format(" {}: {}", lane.label, lane.numbers);
    text += lane.note.empty() ? "." : fmt::format(" ({}).", lane.note);
  }
  return text;
}

}  // namespace

std::string chart_picture(const Chart& chart, std::span<const ChartPanel> panels, const std::string& id,
                          ChartForm form) {
  const bool narrow = form == ChartForm::narrow, file = form == ChartForm::file;
  const auto height_of = [&](const ChartPanel& panel) {
    return chart.has_lanes() ? lanes_height(panel, narrow) : Layout(chart, panel).height();
  };
  std::string text = file ? chart.caption : "";
  const double width = panel_width(chart, narrow);
  std::vector<const ChartPanel*> drawn;
  for (const ChartPanel& panel : panels)
    if (panel.drawn) drawn.push_back(&panel);
  const std::size_t columns = chart.kind == ChartKind::small ? std::clamp<std::size_t>(drawn.size(), 1, kColumns) : 1;
  std::vector<double> tops{file ? kTitle : 0};  // of the rows of panels, and the end
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    if (i % columns == 0) tops.push_back(tops.back());
    tops.back() = std::max(tops.back(), tops[i / columns] + height_of(*drawn[i]));
    text += (text.empty() ? "" : " ") + panel_text(chart, *drawn[i]);
  }
  const bool one = !file && !chart.has_lanes() && drawn.size() == 1;
  const double whole = double(columns) * (width + kGap) - kGap;
  SvgWriter svg;
  svg.open("svg", {{"xmlns", file ? "http://www.w3.org/2000/svg" : ""},
                   {"class", "picture"},
                   {"role", "img"},
                   {"aria-labelledby", id + "-title " + id + "-text"},
                   {"width", whole},
                   {"height", tops.back()},
                   {"viewBox", fmt::format("0 0 {} {}", svg_number(whole), svg_number(tops.back()))}});
  svg.text("title", one ? drawn.front()->heading + ": " + chart.title : chart.title, {{"id", id + "-title"}});
  svg.text("desc", text, {{"id", id + "-text"}});
  if (file) {
    svg.text("style", picture_style());
    svg.element("rect", {{"class", "p-back"}, {"width", "100%"}, {"height", "100%"}});
    svg.words("p-head", 4.0, 17.0, fitted(chart.title, width - 8, 14.5));
  }
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    svg.open("g", {{"transform", fmt::format("translate({} {})", svg_number(double(i % columns) * (width + kGap)),
                                             svg_number(tops[i / columns]))}});
    if (chart.has_lanes())
      draw_lanes(chart, *drawn[i], narrow, svg);
    else
      PanelDrawing(chart, *drawn[i], svg).draw();
    svg.close();
  }
  svg.close();
  return svg.take();
}

std::vector<PictureFile> chart_files(const Chart& chart) {
  std::vector<PictureFile> files;
  const std::span<const ChartPanel> panels(chart.panels);
  std::size_t from = 0, bytes = 0;
  const auto finish = [&](std::size_t to) {
    if (bytes == 0) return;
    const std::string id = files.empty() ? chart.name : fmt::format("{}-{}", chart.name, files.size() + 1);
    files.push_back({id + ".svg", chart_picture(chart, panels.subspan(from, to - from), id, ChartForm::file)});
    from = to;
    bytes = 0;
  };
  for (std::size_t p = 0; p < panels.size(); ++p) {
    if (!panels[p].drawn) continue;
    const std::size_t more = chart_picture(chart, panels.subspan(p, 1), "", ChartForm::page).size();
    if (bytes + more > kChartBytes) finish(p);
    bytes += more;
  }
  finish(panels.size());
  return files;
}

}  // namespace normlab
