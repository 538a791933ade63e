#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "experiments/lab/ledger/claim_words.h"
#include "experiments/lab/ledger/page.h"
#include "experiments/lab/pictures/chart.h"

namespace normlab {
namespace {

/// Estimates further from their bound are drawn at the edge, and say so.
constexpr double kEdge = 8;

/// A value's distance from the nearer bound of the range, positive where the test holds.
double distance(const ClaimRange& range, double value, const std::function<double(double)>& scale) {
  double inside = INFINITY;
  if (range.low) inside = std::min(inside, scale(value) - scale(*range.low));
  if (range.high) inside = std::min(inside, scale(*range.high) - scale(value));
  return range.outside ? -inside : inside;
}

ChartLane lane_of(const LedgerLine& line, const Estimate& e) {
  ChartLane lane{line.number + (line.device.empty() ? "  " : " GPU  ") + line.claim.brief, line.claim.brief};
  lane.numbers = estimate_text(e);
  lane.style = line.verdict == Verdict::holds ? 3 : line.verdict == Verdict::fails ? 2 : 7;
  lane.clear = line.verdict != Verdict::undecided;
  const ClaimTest& test = line.claim.tests.at(e.test);
  const bool logs = test.kind == ClaimTestKind::probe || test.kind == ClaimTestKind::timing;
  const auto scale = [&](double value) { return logs ? std::log(value) : value; };
  const double half = (scale(e.high) - scale(e.low)) / 2, unit = test.margin.value_or(half > 0 ? half : 1);
  double ends[3] = {};
  std::size_t k = 0;
  for (const double value : {e.value, e.low, e.high}) {
    ends[k] = distance(test.range, value, scale) / unit;
    if (!std::isfinite(ends[k])) return lane;
    ++k;
  }
  if (std::abs(ends[0]) > kEdge) lane.note = fmt::format("beyond the plot, at {:+.0f}", ends[0]);
  const auto clipped = [](double value) { return std::clamp(value, -kEdge, kEdge); };
  // Inside a range with two bounds, the distance is largest between the ends; outside it is smallest there.
  lane.point = {0, clipped(ends[0]), clipped(*std::min_element(ends, ends + 3)),
                clipped(*std::max_element(ends, ends + 3)), e.n};
  lane.bar = true;
  return lane;
}

}  // namespace

std::string forest_plot(const std::vector<LedgerLine>& lines, bool standalone) {
  Chart chart;
  chart.kind = ChartKind::gains;
  chart.name = "claims";
  chart.title = "What decides each claim";
  chart.caption =
      "A line per claim: the distance of the deciding estimate from the bound of its range, in units of its margin, or "
      "without one of its interval's half width. Right of zero the claim holds.";
  chart.across_name = "distance from the bound, in margins or half widths (holds to the right of zero)";
  for (const LedgerLine& line : lines) {
    const Estimate* e = line.verdict < Verdict::not_run ? deciding(line) : nullptr;
    if (e == nullptr || !has_interval(*e)) continue;
    const std::string text = text_of(line.claim);
    auto panel = std::find_if(chart.panels.begin(), chart.panels.end(),
                              [&](const ChartPanel& other) { return other.heading == text; });
    if (panel == chart.panels.end()) panel = chart.panels.insert(chart.panels.end(), ChartPanel{text, ""});
    panel->lanes.push_back(lane_of(line, *e));
  }
  set_chart_axes(chart, ChartScale::linear, ChartScale::linear);
  return standalone ? chart_picture(chart, chart.panels, chart.name, ChartForm::file) : chart_pictures(chart);
}

}  // namespace normlab
