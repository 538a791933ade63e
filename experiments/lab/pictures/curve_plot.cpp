#include "experiments/lab/pictures/curve_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace normlab {
namespace {

constexpr double kLeft = 46, kRight = 290, kTop = 28, kBottom = 158;
constexpr double kCross = 4;  // half the width
constexpr std::size_t kSheetColumns = 3;
constexpr double kSheetGap = 12, kSheetHeading = 30;

void draw_path(SvgWriter& svg, const std::string& path, const char* name) {
  if (!path.empty()) svg.element("path", {{"class", name}, {"d", path}});
}

/// Splits a band where n changes. When a seed ends, the mean of the others is a different curve, so no line
/// joins the two.
template <class See>
void each_piece(const std::vector<BandPoint>& band, See&& see) {
  for (std::size_t begin = 0, end; begin < band.size(); begin = end) {
    for (end = begin + 1; end < band.size() && band[end].n == band[begin].n;) ++end;
    see(begin, end);
  }
}

class PanelDrawing {
 public:
  PanelDrawing(const CurvePlot& plot, const CurvePanel& panel, SvgWriter& svg)
      : plot_(plot),
        panel_(panel),
        svg_(svg),
        x_{plot.across.low, plot.across.high, 0, kRight - kLeft},
        y_{plot.values.low, plot.values.high, kBottom - kTop, 0} {}

  void draw() {
    const std::string count = fmt::format("{} seed{}", panel_.seeds, panel_.seeds == 1 ? "" : "s");
    svg_.words("p-head", 4.0, 16.0, fitted(panel_.label, kRight - 12 - text_width(count, 11), 14.5));
    svg_.words("p-soft p-end", kRight, 16.0, count);
    for (const double tick : plot_.values.ticks) {
      const double y = kTop + y_(tick);
      svg_.line("p-grid", kLeft, kRight, y, y);
      svg_.words("p-soft p-end p-tick", kLeft - 5, y + 4, plot_.values.label(tick));
    }
    for (const double tick : plot_.across.ticks) {
      const double x = kLeft + x_(tick);
      svg_.line("p-grid", x, x, kBottom, kBottom + 4);
      svg_.words("p-soft p-mid p-tick", x, kBottom + 16, plot_.across.label(tick));
    }
    svg_.words("p-soft p-end", kRight, kBottom + 29, "step");
    // A nested svg element clips what lies outside its frame.
    svg_.open("svg", {{"class", "p-frame"},
                      {"x", kLeft},
                      {"y", kTop},
                      {"width", kRight - kLeft},
                      {"height", kBottom - kTop},
                      {"overflow", "hidden"}});
    draw_curves();
    svg_.close();
    if (panel_.band.empty()) svg_.words("p-note p-mid", (kLeft + kRight) / 2, (kTop + kBottom) / 2, "no values yet");
  }

 private:
  double x(double at) const { return x_(at); }

  std::string point(double at, double value) const { return svg_number(x(at)) + ' ' + svg_number(y_(value)); }

  void draw_curves() {
    const std::vector<BandPoint>& band = panel_.band;
    std::string area, line, base;
    each_piece(band, [&](std::size_t begin, std::size_t end) {
      if (band[begin].n > 1 && end - begin > 1) {
        for (std::size_t i = begin; i < end; ++i) area += (i == begin ? "M" : "L") + point(band[i].at, band[i].high);
        for (std::size_t i = end; i-- > begin;) area += "L" + point(band[i].at, band[i].low);
        area += "Z";
      }
      for (std::size_t i = begin; i < end; ++i) line += (i == begin ? "M" : "L") + point(band[i].at, band[i].mean);
    });
    each_piece(panel_.baseline, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i)
        base += (i == begin ? "M" : "L") + point(panel_.baseline[i].at, panel_.baseline[i].mean);
    });
    draw_path(svg_, area, "p-band");
    draw_path(svg_, base, "p-base");
    draw_path(svg_, line, "p-line");
    // A piece of one point has no line: draw a dot, and the range of its seeds as a vertical bar.
    each_piece(band, [&](std::size_t begin, std::size_t end) {
      if (end - begin > 1) return;
      const BandPoint& only = band[begin];
      svg_.element("circle", {{"class", "p-point"}, {"cx", x(only.at)}, {"cy", y_(only.mean)}, {"r", 3.0}});
      if (only.n > 1) draw_path(svg_, "M" + point(only.at, only.low) + "L" + point(only.at, only.high), "p-bar");
    });
    for (const CurvePanel::End& end : panel_.diverged) {
      const double left = x(end.at) - kCross, y = std::clamp(y_(end.value), kCross, kBottom - kTop - kCross);
      svg_.element("path",
                   {{"class", "p-cross"},
                    {"d", fmt::format("M{} {}l{r} {r}m0 -{r}l-{r} {r}", svg_number(left), svg_number(y - kCross),
                                      fmt::arg("r", 2 * kCross))}},
                   fmt::format("{}: diverged after step {}", end.name, end.at));
    }
  }

  const CurvePlot& plot_;
  const CurvePanel& panel_;
  SvgWriter& svg_;
  LinearScale x_, y_;
};

/// An axis for all values, or without those that lie far beyond the rest (`cut` is then set).
PlotAxis value_axis(std::vector<double> values, bool& cut) {
  cut = false;
  if (values.empty()) return make_axis(0, 1, 4);
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) { return values[std::size_t(share * double(values.size() - 1))]; };
  const double low = at(0.05), high = at(0.95), room = 2 * (high - low);
  const double from = std::max(values.front(), low - room), to = std::min(values.back(), high + room);
  if (!(from < to)) return make_axis(values.front(), values.back(), 4);
  cut = from > values.front() || to < values.back();
  return make_axis(from, to, 4);
}

void rescale(std::vector<BandPoint>& band, double scale) {
  for (BandPoint& point : band) {
    point.mean *= scale;
    point.low *= scale;
    point.high *= scale;
  }
}

std::string value_words(double value, const std::string& unit) {
  return fmt::format("{:.4g}{}", value, unit.empty() ? "" : " " + unit);
}

}  // namespace

std::vector<BandPoint> thinned(const std::vector<BandPoint>& band, std::size_t most) {
  if (band.size() <= most) return band;
  const std::size_t every = (band.size() + most - 1) / most;
  std::vector<BandPoint> result;
  for (std::size_t i = (band.size() - 1) % every; i < band.size(); i += every) result.push_back(band[i]);
  return result;
}

CurvePlot curve_plot(const MetricCurves& curves, const std::vector<std::size_t>& shown,
                     const std::vector<std::optional<std::size_t>>& baselines, const std::string& unit, double scale) {
  CurvePlot plot;
  plot.metric = curves.metric;
  plot.unit = unit;
  std::vector<double> values;
  double first = 0, last = 0;
  const auto prepared = [&](const RowCurves& row) {
    std::vector<BandPoint> band = thinned(row.band, kMaxCurvePoints);
    if (row.band.size() > kMaxCurvePoints)
      plot.every = std::max(plot.every, std::int64_t((row.band.size() + kMaxCurvePoints - 1) / kMaxCurvePoints));
    rescale(band, scale);
    return band;
  };
  for (const std::size_t r : shown) {
    const RowCurves& row = curves.rows[r];
    CurvePanel& panel = plot.panels.emplace_back();
    panel.row = r;
    panel.label = row.label;
    panel.seeds = row.seeds.size();
    panel.band = prepared(row);
    if (const auto baseline = baselines[r]; baseline && *baseline != r)
      panel.baseline = prepared(curves.rows[*baseline]);
    for (const SeedCurve& seed : row.seeds) {
      if (seed.state != TrialState::diverged) continue;
      for (auto entry = seed.values.rbegin(); entry != seed.values.rend(); ++entry)
        if (std::isfinite(entry->second)) {
          panel.diverged.push_back({double(entry->first), scale * entry->second, fmt::format("seed {}", seed.seed)});
          break;
        }
    }
    for (const BandPoint& point : panel.band) {
      values.push_back(point.low);
      values.push_back(point.high);
      last = std::max(last, point.at);
    }
    for (const BandPoint& point : panel.baseline) {
      values.push_back(point.mean);
      last = std::max(last, point.at);
    }
  }
  plot.across = make_axis(first, last, 4);
  plot.values = value_axis(std::move(values), plot.cut);
  return plot;
}

std::string curve_text(const CurvePlot& plot, const CurvePanel& panel) {
  if (panel.band.empty()) return panel.label + ": no values yet.";
  const BandPoint &first = panel.band.front(), &last = panel.band.back();
  std::string text =
      fmt::format("{}: mean of {} from {} at step {} to {} at step {}", panel.label, plot.metric,
                  value_words(first.mean, plot.unit), first.at, value_words(last.mean, plot.unit), last.at);
  if (last.n > 1)
    text += fmt::format(", there {} seeds from {} to {}", last.n, value_words(last.low, plot.unit),
                        value_words(last.high, plot.unit));
  text += ".";
  for (const CurvePanel::End& end : panel.diverged)
    text += fmt::format(" {} diverged after step {}.", end.name, end.at);
  return text;
}

std::string curve_panel(const CurvePlot& plot, std::size_t index, const std::string& id) {
  const CurvePanel& panel = plot.panels[index];
  SvgWriter svg;
  open_picture(svg, {id, fmt::format("{}: {} by step", panel.label, plot.metric), curve_text(plot, panel), kPanelWidth,
                     kPanelHeight, false});
  PanelDrawing(plot, panel, svg).draw();
  svg.close();
  return svg.take();
}

std::string curve_sheet(const CurvePlot& plot, const std::string& id, const std::string& title) {
  const std::size_t columns = std::clamp<std::size_t>(plot.panels.size(), 1, kSheetColumns);
  const std::size_t lines = (plot.panels.size() + columns - 1) / columns;
  std::string text;
  for (const CurvePanel& panel : plot.panels) text += (text.empty() ? "" : " ") + curve_text(plot, panel);
  SvgWriter svg;
  open_picture(svg, {id, title, text, double(columns) * (kPanelWidth + kSheetGap) + kSheetGap,
                     kSheetHeading + double(lines) * (kPanelHeight + kSheetGap), true});
  svg.words("p-head", kSheetGap, 19.0, fitted(title, double(columns) * kPanelWidth, 14.5));
  for (std::size_t i = 0; i < plot.panels.size(); ++i) {
    const double x = kSheetGap + double(i % columns) * (kPanelWidth + kSheetGap);
    const double y = kSheetHeading + double(i / columns) * (kPanelHeight + kSheetGap);
    svg.open("g", {{"transform", fmt::format("translate({} {})", svg_number(x), svg_number(y))}});
    PanelDrawing(plot, plot.panels[i], svg).draw();
    svg.close();
  }
  svg.close();
  return svg.take();
}

}  // namespace normlab
