#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "experiments/lab/pictures/chart.h"

namespace normlab {
namespace {

constexpr double kAxis = 36, kLegendRow = 16, kLegend = 8, kGap = 12, kBar = 12;
constexpr double kCell = 10, kPixelsEdge = 18;  // least width of the picture of a pixel, room beside them
constexpr double kCross = 4.5;                  // half the width
constexpr std::size_t kMarked = 12, kLevels = 16;

bool is_named(const ChartSeries& s) { return !s.label.empty() && s.look < ChartLook::band; }

/// What the values are, unless the heading or a title says it.
std::string values_label(const Chart& chart, const ChartPanel& panel) {
  const bool said = panel.heading.starts_with(panel.values_name) || (chart.kind == ChartKind::small && chart.titles);
  return said ? "" : panel.values_name;
}

/// The places in a panel of lines or pixels.
struct Layout {
  double width, left, right, head, top, plot;  // head: of the line of the values' name
  std::vector<std::string> heading{};
  std::size_t legend_columns = 1, legend_rows = 0;
  double side = kCell, step = 0, pixels = 0;  // of pixels: side of one, from picture to picture, height of the largest

  Layout(const Chart& chart, const ChartPanel& panel, double wide) : width(wide) {
    const bool small = chart.kind == ChartKind::small;
    left = small ? 46 : 50;
    right = width - (small ? 10 : 18);
    if (const std::string words = heading_of(panel); !words.empty())
      heading = lines_of(words, right - 12 - text_width(panel.corner, 11), kHeadFont);
    const std::size_t lines = std::max<std::size_t>(heading.size(), !panel.corner.empty());
    head = 12 + kHeadLine * double(lines) + (lines > 0 ? 3 : 0);
    top = head + (values_label(chart, panel).empty() ? -3 : 11);
    plot = std::clamp(0.43 * width, 90.0, small ? 130.0 : 150.0);
    std::size_t entries = 0;
    double widest = 1;
    for (const ChartSeries& s : panel.series) {
      if (!is_named(s)) continue;
      ++entries;
      widest = std::max(widest, text_width(s.label, 11) + 42);
    }
    // Entries beside each other: as many as the longest label leaves room for.
    legend_columns = std::clamp<std::size_t>(std::size_t((width - kLegend) / widest), 1, 4);
    legend_rows = (entries + legend_columns - 1) / legend_columns;
    if (panel.pixels.empty()) return;
    step = (width - 2 * kPixelsEdge) / double(panel.pixels.size());
    for (const ChartPixels& p : panel.pixels) side = std::min(side, (step - kGap) / double(p.width));
    for (const ChartPixels& p : panel.pixels)
      pixels = std::max(pixels, side * double(p.values.size() / std::size_t(p.width)));
    top = head + kBar;
  }
  double bottom() const { return top + plot; }
  double height() const {
    return pixels > 0 ? top + pixels + 24 : bottom() + kAxis + kLegendRow * double(legend_rows) + kGap;
  }
};

std::string move_to(double x, double y) { return fmt::format("M{} {}", svg_number(x), svg_number(y)); }

class PanelDrawing {
 public:
  PanelDrawing(const Chart& chart, const ChartPanel& panel, double width, SvgWriter& svg)
      : chart_(chart),
        panel_(panel),
        across_(panel.across ? *panel.across : chart.across),
        at_(chart, panel, width),
        svg_(svg) {}

  void draw() {
    for (std::size_t i = 0; i < at_.heading.size(); ++i)
      svg_.words("p-head", 4.0, kHeadLine * double(i + 1), at_.heading[i]);
    if (!panel_.corner.empty()) svg_.words("p-soft p-end", at_.right, 16.0, panel_.corner);
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
    draw_across();
    if (const std::string name = values_label(chart_, panel_); !name.empty()) svg_.words("p-soft", 4.0, at_.head, name);
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
    for (const ChartSeries& s : panel_.series) draw_ends(s);
    if (!any) svg_.words("p-note p-mid", (left + right) / 2, at_.top + at_.plot / 2, "no values yet");
    draw_legend(bottom + kAxis);
  }

  void draw_across() {
    const double bottom = at_.bottom();
    double end = 0;  // of the last label
    const auto tick = [&](double at, const std::string& label) {
      svg_.line("p-grid", at, at, bottom, bottom + 4);
      const double half = text_width(label, 11) / 2, middle = std::min(at, at_.width - half);
      if (middle - half < end) return;
      svg_.words("p-soft p-mid p-tick", middle, bottom + 15, label);
      end = middle + half;
    };
    std::vector<std::pair<double, std::string>> ticks = chart_.marks;
    if (chart_.categories.empty())
      for (const double at : across_.ticks) ticks.emplace_back(at, across_.label(at));
    else if (ticks.empty())
      for (const std::string& name : chart_.categories) ticks.emplace_back(ticks.size(), name);
    double widest = 0;
    for (const auto& [at, name] : ticks) widest = std::max(widest, text_width(name, 11) + 6);
    const auto place = [&](double at) { return across_.pixel(at, at_.left, at_.right); };
    const double room = ticks.size() > 1 ? (place(ticks.back().first) - place(ticks.front().first)) : widest;
    const double share = widest * double(ticks.size() - 1) / room;
    const auto every = std::max<std::size_t>(1, std::size_t(std::ceil(share - 1e-9)));
    for (std::size_t i = 0; i < ticks.size(); i += every) tick(place(ticks[i].first), ticks[i].second);
  }

  void draw_series(const ChartSeries& s) {
    const PlotAxis& axis = panel_.values;
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

  /// Where a series leaves the frame: an arrow at its furthest point of each side, with its number. Lines leave it
  /// above and below alone, since their axis across shows all of them or what is asked for.
  void draw_ends(const ChartSeries& s) {
    if (s.look == ChartLook::shape || s.look == ChartLook::base) return;
    for (const int side : {-1, 1}) {
      const BandPoint *end = nullptr, *aside = nullptr;
      for (const BandPoint& p : s.points) {
        if (!std::isfinite(p.mean)) continue;
        const int across = across_.beyond(p.at);
        if (across == 0 && panel_.values.beyond(p.mean) == side && (!end || (p.mean - end->mean) * side > 0)) end = &p;
        if (across == side && s.look == ChartLook::dots && (!aside || (p.at - aside->at) * side > 0)) aside = &p;
      }
      if (end) {
        const double at = x(end->at), edge = side < 0 ? at_.bottom() : at_.top;
        draw_end(s, at, edge + (side < 0 ? -3 : 9), 11 * side, end->mean, arrow_along(at, edge, -side));
      }
      if (aside) {
        const double edge = side < 0 ? at_.left : at_.right;
        const double at = std::clamp(y(panel_.values, aside->mean), at_.top + 8, at_.bottom() - 8);
        draw_end(s, edge + 3 * side, at + 4, 11, aside->at, arrow_across(edge, at, side));
      }
    }
  }

  /// The number stands beside the arrow, or `step` further from each number that is there already; equal ones are
  /// written once.
  void draw_end(const ChartSeries& s, double at, double height, double step, double value, const std::string& arrow) {
    const std::string words = number_label(value);
    const double wide = text_width(words, 11), left = at + 6 + wide > at_.right ? at - 6 - wide : at + 6;
    bool said = false;
    for (const End& other : ends_)
      if (std::abs(other.left - left) < wide + 4 && std::abs(other.y - height) < 11) {
        said = said || other.words == words;
        height = other.y + step;
      }
    svg_.element("path", {{"class", concat("p-clear p-s", s.style % kChartStyles)}, {"d", arrow}},
                 s.label + ": " + words);
    if (said) return;
    ends_.push_back({left, height, words});
    svg_.words("p-soft p-label", left, height, words);
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
    const double width = (at_.width - kLegend) / double(at_.legend_columns);
    std::size_t i = 0;
    for (const ChartSeries& s : panel_.series) {
      if (!is_named(s)) continue;
      const double left = kLegend + width * double(i % at_.legend_columns),
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
          svg_.element("path", {{"class", "p-pixel p-s0"}, {"fill-opacity", opacity(level)}, {"d", levels[level]}});
      svg_.words("p-soft", left, at_.top + at_.pixels + 15, p.label);
      left += at_.step;
    }
    draw_bar(low, high);
  }

  /// The scale of the colours, between its least and its greatest value.
  void draw_bar(double low, double high) {
    constexpr double kLong = 6, kHigh = 10;
    const std::string first = number_label(low);
    const double left = kPixelsEdge + text_width(first, 11) + 10, top = at_.head - 9;
    svg_.words("p-soft", kPixelsEdge, at_.head, first);
    for (std::size_t level = 0; level < kLevels; ++level)
      svg_.element("rect", {{"class", "p-level p-s0"},
                            {"fill-opacity", opacity(level)},
                            {"x", left + kLong * double(level)},
                            {"y", top},
                            {"width", kLong},
                            {"height", kHigh}});
    svg_.words("p-soft", left + kLong * double(kLevels) + 6, at_.head, number_label(high));
  }
  static double opacity(std::size_t level) { return 0.04 + 0.96 * double(level) / double(kLevels - 1); }

  const Chart& chart_;
  const ChartPanel& panel_;
  const PlotAxis& across_;
  Layout at_;
  SvgWriter& svg_;
  struct End {
    double left, y;
    std::string words;
  };
  std::vector<End> ends_{};  // what draw_ends() has written
};

}  // namespace

PanelHeights panel_heights(const Chart& chart, const ChartPanel& panel, double width) {
  const Layout at(chart, panel, width);
  return {at.top, at.height()};
}

void draw_panel(const Chart& chart, const ChartPanel& panel, double width, SvgWriter& svg) {
  PanelDrawing(chart, panel, width, svg).draw();
}

std::string heading_of(const ChartPanel& panel) {
  if (panel.heading.empty() || panel.part.empty()) return panel.heading + panel.part;
  return panel.heading + " (" + panel.part + ")";
}

std::string arrow_across(double x, double y, int side) { return move_to(x, y) + fmt::format("l{} -4v8z", -7 * side); }
std::string arrow_along(double x, double y, int side) { return move_to(x, y) + fmt::format("l-4 {}h8z", -7 * side); }

}  // namespace normlab
