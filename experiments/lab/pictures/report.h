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

/// The metrics drawn by default: the table's metric and the training loss.
std::vector<std::string> default_curves(const std::string& metric);

}  // namespace normlab
