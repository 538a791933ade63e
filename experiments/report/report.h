// The report of an experiment: one HTML file that needs no network and no server, and its pictures as files.
#pragma once

#include <string>
#include <vector>

#include "experiments/report/curve_data.h"
#include "experiments/report/curve_plot.h"
#include "experiments/report/strip_plot.h"
#include "experiments/results/table_model.h"

namespace normlab {

/// What a report is made of. The references outlive it.
struct ReportInput {
  const Experiment& experiment;
  const ResultStore& store;
  const TableModel& table;
  const ExperimentCurves& curves;  // of the metrics to draw
  std::string written;             // when and by what: "2026-11-21 17:20 UTC by normlab 1a2b3c4"
  int reload_seconds = 0;          // the page loads itself again after so many; 0: never
};

/// A picture as a file: name without folder, and SVG.
struct PictureFile {
  std::string name, svg;
};

/// UTF-8 HTML with style, script and pictures inside. Labels, messages and all other texts are escaped, and no script
/// but its own may run (Content-Security-Policy).
std::string report_html(const ReportInput& input);

/// What could not be read, a sentence each; an error that the table names is not said again for the curves.
std::vector<std::string> report_problems(const ReportInput& input);

/// "gains.svg" or "values.svg", and "curves-eval-accuracy.svg" for each metric.
std::vector<PictureFile> report_pictures(const ReportInput& input);

/// Gains of the rows that have a baseline, then the values of those that have none; no empty plots.
std::vector<StripPlot> strip_plots(const TableModel& table);

/// Metrics that are drawn unless others are named: the table's and the training loss.
std::vector<std::string> default_curves(const std::string& metric);

}  // namespace normlab
