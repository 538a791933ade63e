// The report of an experiment: one HTML file that needs neither network nor server, and its pictures as separate files.
#pragma once

#include <string>
#include <vector>

#include "experiments/lab/pictures/chart.h"
#include "experiments/lab/tables/table_model.h"

namespace normlab {

/// The contents of a report. The referenced objects must outlive it.
struct ReportInput {
  const Experiment& experiment;
  const ResultStore& store;
  const TableModel& table;
  const ExperimentCurves& curves;     // of the metrics to draw
  const TableModel* rates = nullptr;  // the table of --lr-sensitivity
  std::vector<Chart> measurements{};  // of probes
  std::string written{};              // when and by which program: "2026-11-21 17:20 UTC by normlab 1a2b3c4"
  int reload_seconds = 0;             // the page reloads after this many seconds; 0: never
};

/// UTF-8 HTML that includes its style, script and pictures. All texts are escaped, and the Content-Security-Policy
/// allows only the page's own script.
std::string report_html(const ReportInput& input);

/// What could not be read, one sentence each. An error that the table reports is not repeated for the curves.
std::vector<std::string> report_problems(const ReportInput& input);

/// "gains.svg" or "values.svg", "curves-eval-accuracy.svg" for each metric, and those of measurements and rates.
std::vector<PictureFile> report_pictures(const ReportInput& input);

/// The gains of rows with a baseline, one panel per baseline, then the values of rows without; no empty charts.
std::vector<Chart> strip_charts(const TableModel& table);

inline constexpr std::size_t kReportNumbers = 20;  // of a line of a picture, in the table of its numbers

/// The metrics that some shown row has, by step; `caption` says why rows are not drawn.
std::vector<Chart> curve_charts(const Experiment& experiment, const TableModel& table,
                                const std::vector<MetricCurves>& metrics);
/// The band of a row, in the picture's unit.
ChartSeries curve_of(const RowCurves& row, double scale, ChartLook look);
/// "eval/accuracy [%]", and what its values are multiplied by.
std::pair<std::string, double> curve_unit(const std::string& metric);

/// Per row: its differences from the baseline, its config, and its trials with provenance.
std::string trials_section(const ReportInput& input);

/// "79.1 ±0.3", or only the value if there is no interval.
inline std::string with_interval(const Figure& value, const Figure& half_width) {
  return half_width.text.empty() ? value.text : value.text + " ±" + half_width.text;
}

/// The metrics drawn by default: the table's metric and the training loss.
std::vector<std::string> default_curves(const std::string& metric);

}  // namespace normlab
