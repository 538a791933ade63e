#include <fmt/core.h>

#include <algorithm>

#include "experiments/report/report_parts.h"

namespace normlab {
namespace {

/// The losses of a row by rate, with a seed that diverged at its loss of the first step.
std::vector<BandPoint> loss_band(const TableLine& line) {
  std::vector<BandPoint> band;
  for (const TableRate& rate : line.rates) {
    if (rate.runs.empty()) continue;
    BandPoint& point = band.emplace_back();
    point.at = rate.rate;
    for (const TableRate::Run& run : rate.runs) point.add(run.loss);
  }
  return band;
}

CurvePanel loss_panel(const TableLine& line, const TableModel& table) {
  CurvePanel panel;
  panel.row = line.plan_index;
  panel.label = line.label;
  panel.seeds = line.seeds.size();
  panel.band = loss_band(line);
  for (const TableLine& other : table.lines)
    if (!line.is_baseline && line.baseline == other.plan_index) panel.baseline = loss_band(other);
  for (const TableRate& rate : line.rates)
    for (const TableRate::Run& run : rate.runs)
      if (run.diverged) panel.diverged.push_back({rate.rate, run.loss, fmt::format("seed {}", run.seed)});
  return panel;
}

}  // namespace

CurvePlot rates_plot(const TableModel& table) {
  CurvePlot plot;
  plot.metric = "training loss at the end";
  plot.across_name = "learning rate";
  plot.diverged_at = "at";
  std::vector<double> rates, losses;
  for (const TableLine& line : table.lines) {
    if (line.rates.size() < 2) continue;
    for (const TableRate& rate : line.rates) {
      rates.push_back(rate.rate);
      for (const TableRate::Run& run : rate.runs) losses.push_back(run.loss);
    }
    plot.panels.push_back(loss_panel(line, table));
  }
  const auto range = [](std::vector<double>& values) {
    if (values.empty()) values = {1};
    return std::minmax_element(values.begin(), values.end());
  };
  const auto [slowest, fastest] = range(rates);
  plot.across = make_log_axis(*slowest, *fastest);
  const auto [lowest, highest] = range(losses);
  plot.values = make_axis(*lowest, *highest, 4);
  return plot;
}

std::string rates_section(const ReportInput& input) {
  if (input.rates == nullptr) return "";
  const CurvePlot plot = rates_plot(*input.rates);
  std::string caption =
      "Line: mean over the seeds of the training loss at the end, at most that of the first step; band: from the "
      "lowest "
      "to the highest seed, no interval.";
  const auto any = [&](auto&& test) { return std::any_of(plot.panels.begin(), plot.panels.end(), test); };
  if (any([](const CurvePanel& panel) { return !panel.baseline.empty(); })) caption += " Dashed: the baseline's mean.";
  if (any([](const CurvePanel& panel) { return !panel.diverged.empty(); }))
    caption += " Cross: a seed diverged at this rate, and counts with its loss of the first step.";
  return "<section id=\"lr-sensitivity\">\n<h2>Learning-rate sensitivity</h2>\n" +
         table_part(*input.rates, "Table of learning-rate sensitivity") + panels_figure(plot, caption, "rates", false) +
         curve_numbers(plot, kMaxCurvePoints) + "</section>\n";
}

}  // namespace normlab
