#include "experiments/lab/ledger/forest.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "experiments/lab/ledger/claim_words.h"
#include "experiments/lab/pictures/strip_plot.h"

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

PlotLane lane_of(const LedgerLine& line, const Estimate& e) {
  PlotLane lane;
  lane.label = line.number + (line.device.empty() ? "  " : " GPU  ") + line.claim.brief;
  lane.numbers = estimate_text(e);
  lane.tone = line.verdict == Verdict::holds ? "holds" : line.verdict == Verdict::fails ? "fails" : "undecided";
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
  lane.mean = clipped(ends[0]);
  // Inside a range with two bounds, the distance is largest between the ends; outside it is smallest there.
  lane.interval = {clipped(*std::min_element(ends, ends + 3)), clipped(*std::max_element(ends, ends + 3))};
  return lane;
}

}  // namespace

std::string forest_plot(const std::vector<LedgerLine>& lines, bool standalone) {
  StripPlot plot{.title = "What decides each claim",
                 .description =
                     "A line per claim: the distance of the deciding estimate from the bound of its range, "
                     "in units of its margin, or without one of its interval's half width. Right of zero the claim "
                     "holds.",
                 .axis = "distance from the bound, in margins or half widths (holds to the right of zero)",
                 .gains = true,
                 .strips = {}};
  for (const LedgerLine& line : lines) {
    const Estimate* e = line.verdict < Verdict::not_run ? deciding(line) : nullptr;
    if (e == nullptr || !has_interval(*e)) continue;
    const std::string text = text_of(line.claim);
    auto strip = std::find_if(plot.strips.begin(), plot.strips.end(),
                              [&](const PlotStrip& other) { return other.heading == text; });
    if (strip == plot.strips.end())
      strip = plot.strips.insert(plot.strips.end(), PlotStrip{.heading = text, .zero = "", .lanes = {}});
    strip->lanes.push_back(lane_of(line, *e));
  }
  if (standalone) return strip_plot(plot, "claims", StripWidth::wide, true);
  return "<div class=\"wide\">" + strip_plot(plot, "claims", StripWidth::wide, false) +
         "</div>\n<div class=\"narrow\">" + strip_plot(plot, "claims-narrow", StripWidth::narrow, false) + "</div>\n";
}

}  // namespace normlab
