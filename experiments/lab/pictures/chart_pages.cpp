#include <fmt/core.h>

#include <algorithm>

#include "experiments/lab/pictures/chart.h"

namespace normlab {
namespace {

constexpr double kTitle = 10, kBetween = 12;                                        // below the title; between panels
constexpr double kWideLanes = 760, kNarrowLanes = 360, kLines = 400, kSmall = 300;  // widths of panels
// The narrowest wide lanes and the narrowest panels that stand beside each other.
constexpr double kLeastWide = 560, kLeastLines = 270, kLeastSmall = 190;
constexpr std::size_t kColumns = 2, kSmallColumns = 3;

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

/// Panels in rows, whose columns are equally wide.
struct Page {
  LaneRoom room;  // of a panel
  std::size_t columns = 1;
  std::vector<const ChartPanel*> drawn;
  std::vector<std::string> title{};
  std::vector<double> tops{};  // of the panels
  double height = 0;

  Page(const Chart& chart, std::span<const ChartPanel> panels, ChartForm form) {
    const bool file = form == ChartForm::file, small = chart.kind == ChartKind::small;
    for (const ChartPanel& panel : panels)
      if (panel.drawn) drawn.push_back(&panel);
    const double width = file ? chart.width : 0;
    if (chart.has_lanes()) {
      room.narrow = form == ChartForm::narrow || (width > 0 && width < kLeastWide);
      room.width = width > 0 ? width : room.narrow ? kNarrowLanes : kWideLanes;
    } else {
      const double least = small ? kLeastSmall : kLeastLines;
      columns = std::clamp<std::size_t>(drawn.size(), 1, small ? kSmallColumns : kColumns);
      if (width > 0)
        columns = std::clamp<std::size_t>(std::size_t((width + kBetween) / (least + kBetween)), 1, columns);
      room.width = width > 0 ? (width + kBetween) / double(columns) - kBetween : small ? kSmall : kLines;
    }
    if (file && chart.titles) title = lines_of(chart.title, this->width() - 8, kHeadFont);
    height = title.empty() ? 0 : kTitle + kHeadLine * double(title.size());
    for (std::size_t from = 0, to; from < drawn.size(); from = to) {
      to = std::min(from + columns, drawn.size());
      double above = 0, below = 0;  // the plots of a row begin at one height
      std::vector<double> starts;
      for (std::size_t i = from; i < to; ++i) {
        const PanelHeights heights = chart.has_lanes() ? PanelHeights{0, lanes_height(*drawn[i], room)}
                                                       : panel_heights(chart, *drawn[i], room.width);
        above = std::max(above, heights.above);
        below = std::max(below, heights.whole - heights.above);
        starts.push_back(heights.above);
      }
      for (const double start : starts) tops.push_back(height + above - start);
      height += above + below;
    }
  }
  double width() const { return double(columns) * (room.width + kBetween) - kBetween; }
};

}  // namespace

std::string chart_picture(const Chart& chart, std::span<const ChartPanel> panels, const std::string& id,
                          ChartForm form) {
  const Page page(chart, panels, form);
  const bool file = form == ChartForm::file;
  std::string text = file ? caption_of(chart) : "";
  for (const ChartPanel* panel : page.drawn) text += (text.empty() ? "" : " ") + panel_text(chart, *panel);
  const bool one = !file && !chart.has_lanes() && page.drawn.size() == 1 && !heading_of(*page.drawn[0]).empty();
  SvgWriter svg;
  svg.open("svg", {{"xmlns", file ? "http://www.w3.org/2000/svg" : ""},
                   {"class", "picture"},
                   {"role", "img"},
                   {"aria-labelledby", id + "-title " + id + "-text"},
                   {"width", page.width()},
                   {"height", page.height},
                   {"viewBox", fmt::format("0 0 {} {}", svg_number(page.width()), svg_number(page.height))}});
  svg.text("title", one ? heading_of(*page.drawn[0]) + ": " + chart.title : chart.title, {{"id", id + "-title"}});
  svg.text("desc", text, {{"id", id + "-text"}});
  if (file) {
    svg.text("style", picture_style());
    svg.element("rect", {{"class", "p-back"}, {"width", "100%"}, {"height", "100%"}});
    for (std::size_t i = 0; i < page.title.size(); ++i)
      svg.words("p-head", 4.0, 1 + kHeadLine * double(i + 1), page.title[i]);
  }
  for (std::size_t i = 0; i < page.drawn.size(); ++i) {
    svg.open("g", {{"transform",
                    fmt::format("translate({} {})", svg_number(double(i % page.columns) * (page.room.width + kBetween)),
                                svg_number(page.tops[i]))}});
    if (chart.has_lanes())
      draw_lanes(chart, *page.drawn[i], page.room, svg);
    else
      draw_panel(chart, *page.drawn[i], page.room.width, svg);
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
    const auto page = panels.subspan(from, to - from);
    const Page size(chart, page, ChartForm::file);
    files.push_back({id + ".svg", chart_picture(chart, page, id, ChartForm::file), size.width(), size.height});
    from = to;
    bytes = 0;
  };
  for (std::size_t p = 0; p < panels.size(); ++p) {
    if (!panels[p].drawn) continue;
    const std::size_t more = chart_picture(chart, panels.subspan(p, 1), "", ChartForm::page).size();
    const Page page(chart, panels.subspan(from, p + 1 - from), ChartForm::file);
    if (bytes + more > kChartBytes || page.height > kChartHeight) finish(p);
    bytes += more;
  }
  finish(panels.size());
  return files;
}

}  // namespace normlab
