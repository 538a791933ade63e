#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "experiments/lab/pictures/chart.h"

namespace normlab {
namespace {

/// Below the settings of the chart. Colours and marks are matplotlib's.
constexpr std::string_view kDraw = R"py(
data = {}
with open(pathlib.Path(__file__).with_suffix(".csv"), newline="", encoding="utf-8") as file:
    for panel, row, at, *numbers, n in list(csv.reader(file))[1:]:
        data.setdefault((panel, row), []).append((at, *map(float, numbers)))

plt.rcParams.update({"text.parse_math": False, "font.size": 8, "axes.spines.top": False, "axes.spines.right": False})


def lanes(axes, panel):
    """A line per row: the mean, and its interval. What lies beyond the axis ends in an arrow with its number."""
    labels = panel["labels"]
    least, most = LIMITS
    for y, (key, label) in enumerate(zip(panel["rows"], labels)):
        for _, mean, low, high in data.get(tuple(key[:2]), []):
            ends = [min(max(value, least), most) for value in (low, high)]
            axes.plot(ends, [y, y], color="C0", linewidth=1.5)
            caps = [end for end in (low, high) if least <= end <= most and low < high]
            axes.plot(caps, [y] * len(caps), "|", color="C0")
            if least <= mean <= most:
                axes.plot(mean, y, "D", color="C0", markersize=4)
            for edge, end, mark, side, step in ((least, low, "<", "left", 4), (most, high, ">", "right", -4)):
                outside = [value for value in (mean, end) if (value < least if side == "left" else value > most)]
                if outside:
                    axes.plot(edge, y, mark, color="C0", markersize=5, clip_on=False)
                    axes.annotate(f"{outside[0]:.3g}", (edge, y), (step, 5), ha=side, fontsize=6,
                                  textcoords="offset points")
    if KIND == "gains":
        axes.axvline(0, color="black", linewidth=1)
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()


def lines(axes, panel):
    for source, row, look in panel["rows"]:
        points = data.get((source, row), [])
        x = [NAMES.index(p[0]) if NAMES else float(p[0]) for p in points]
        y = [p[1] for p in points]
        if look == "base":
            axes.plot(x, y, "--", color="black", linewidth=1)
        elif look == "dots":
            axes.plot(x, y, ".", markersize=3, label=row)
        else:
            (line,) = axes.plot(x, y, marker="o" if look == "line" and len(x) < 30 else "", markersize=3, label=row)
            if look == "band":
                axes.fill_between(x, [p[2] for p in points], [p[3] for p in points], alpha=0.2, color=line.get_color())
    if panel["log"]:
        axes.set_yscale("log")
    axes.set_ylim(panel["limits"])
    axes.set_ylabel(panel["values"])
    if NAMES:
        ticks = MARKS or list(enumerate(NAMES))[:: max(1, len(NAMES) // 6)]
        axes.set_xticks([at for at, _ in ticks], [name for _, name in ticks])
    elif LOG_ACROSS:
        axes.set_xscale("log")
    if KIND == "lines":
        axes.legend(frameon=False, fontsize=6)


def pixels(axes, panel):
    rows = [data[tuple(key[:2])] for key in panel["rows"]]
    least, most = min(p[1] for r in rows for p in r), max(p[1] for r in rows for p in r)
    axes.axis("off")
    for i, (key, row) in enumerate(zip(panel["rows"], rows)):
        side = 1 + max(int(p[0].split("x")[1]) for p in row)
        inset = axes.inset_axes([i / len(rows), 0, 0.9 / len(rows), 0.9])
        shown = inset.imshow([[p[1] for p in row[k : k + side]] for k in range(0, len(row), side)],
                             cmap="Greys", vmin=least, vmax=most)
        inset.set(xlabel=key[1], xticks=[], yticks=[])
    axes.figure.colorbar(shown, ax=axes, shrink=0.8)


columns = 1 if KIND in ("gains", "values") else min(len(PANELS), 3 if KIND == "small" else 2)
if WIDTH:
    columns = min(columns, max(1, int(WIDTH / 1.6)))
beside = 0.06 * max(len(label) for panel in PANELS for label in panel.get("labels", [""]))
rows = -(-len(PANELS) // columns)
heights = [1 + 0.25 * len(panel["rows"]) if columns == 1 and "labels" in panel else 2.2 for panel in PANELS[::columns]]
figure, grid = plt.subplots(rows, columns, squeeze=False, figsize=(WIDTH or 3.6 * columns + beside, sum(heights)),
                            height_ratios=heights, layout="constrained")
for axes, panel in zip(grid.flat, PANELS):
    {"gains": lanes, "values": lanes, "pixels": pixels}.get(KIND, lines)(axes, panel)
    axes.set_title(panel["heading"], loc="left", fontsize=8)
    if KIND != "pixels":
        axes.set_xlabel(ACROSS)
    if LIMITS:
        axes.set_xlim(LIMITS)
for axes in list(grid.flat)[len(PANELS):]:
    axes.remove()
if TITLE:
    figure.suptitle(TITLE, x=0, ha="left", fontsize=9, fontweight="bold")
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_suffix(".matplotlib.pdf"))
)py";

const char* look_word(ChartLook look) {
  constexpr const char* kWords[] = {"line", "dots", "shape", "band", "base"};
  return kWords[std::size_t(look)];
}

}  // namespace

std::string chart_script(const Chart& chart) {
  using nlohmann::json;
  json panels = json::array();
  bool pixels = false;
  const auto number = [](const PlotAxis& axis, double end) { return axis.logarithmic ? std::pow(10, end) : end; };
  const auto ends = [&](const PlotAxis& axis) {
    return json::array({number(axis, axis.low), number(axis, axis.high)});
  };
  for (const ChartPanel& panel : chart.panels) {
    if (!panel.drawn) continue;
    json rows = json::array(), labels = json::array();
    for (const ChartSeries& s : panel.series)
      rows.push_back({s.look == ChartLook::base ? s.label : panel_name(chart, panel), s.label, look_word(s.look)});
    for (const ChartPixels& p : panel.pixels) rows.push_back({panel_name(chart, panel), p.label, ""});
    pixels = pixels || !panel.pixels.empty();
    for (const ChartLane& lane : panel.lanes) {
      rows.push_back({panel_name(chart, panel), lane.row, ""});
      labels.push_back(lane.label);
    }
    panels.push_back({{"heading", heading_of(panel)},
                      {"values", panel.values_name},
                      {"log", int(panel.values.logarithmic)},
                      {"limits", ends(panel.values)},
                      {"rows", rows}});
    if (chart.has_lanes()) panels.back()["labels"] = labels;
  }
  constexpr const char* kKinds[] = {"lines", "small", "gains", "values"};
  std::string text = fmt::format(
      "#!/usr/bin/env python3\n"
      "\"\"\"Draws {0}.csv, which lies beside this script, by matplotlib: python3 {0}.py [FILE.pdf]\"\"\"\n"
      "import csv\nimport pathlib\nimport sys\n\nimport matplotlib\n\nmatplotlib.use(\"Agg\")\n"
      "import matplotlib.pyplot as plt\n\n",
      chart.name);
  const auto set = [&](const char* name, const json& value) { text += concat(name, " = ", value.dump(), "\n"); };
  set("TITLE", chart.titles ? chart.title : "");
  set("KIND", pixels ? "pixels" : kKinds[std::size_t(chart.kind)]);
  set("ACROSS", chart.across_name);
  set("WIDTH", chart.width / 96);  // inches; 0: by the panels
  set("NAMES", chart.categories);
  set("MARKS", chart.marks);
  set("LOG_ACROSS", int(chart.across.logarithmic));
  set("LIMITS", chart.has_lanes() || (chart.categories.empty() && !pixels && !panels.empty() && !chart.panels[0].across)
                    ? ends(chart.across)
                    : json::array());
  text += "PANELS = [\n";
  for (const json& panel : panels) text += "    " + panel.dump() + ",\n";
  return text + "]\n" + std::string(kDraw);
}

}  // namespace normlab
