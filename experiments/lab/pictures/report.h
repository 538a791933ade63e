// The report of an experiment: one HTML file that needs neither network nor server, and its pictures as separate files.
#pragma once

#include <string>
#include <vector>

#include "experiments/lab/pictures/curve_data.h"
#include "experiments/lab/pictures/curve_plot.h"
#include "experiments/lab/pictures/strip_plot.h"
#include "experiments/lab/tables/table_model.h"

namespace normlab {

/// The contents of a report. The referenced objects must outlive it.
struct ReportInput {
  const Experiment& experiment;
  const ResultStore& store;
  const TableModel& table;
  const ExperimentCurves& curves;  // of the metrics to draw
  const TableModel* rates;         // the table of --lr-sensitivity; may be null
  std::string rates_figure;        // HTML with its picture
  std::string written;             // when and by which program: "2026-11-21 17:20 UTC by normlab 1a2b3c4"
  int reload_seconds = 0;          // the page reloads after this many seconds; 0: never
  std::string measurements{};      // HTML with the pictures of probes; "" without any
};

/// A picture as a file: a name without folder, and the SVG.
struct PictureFile {
  std::string name, svg;
};

/// UTF-8 HTML that includes its style, script and pictures. All texts are escaped, and the Content-Security-Policy
/// allows only the page's own script.
std::string report_html(const ReportInput& input);

/// What could not be read, one sentence each. An error that the table reports is not repeated for the curves.
std::vector<std::string> report_problems(const ReportInput& input);

/// "gains.svg" or "values.svg", and "curves-eval-accuracy.svg" for each metric.
std::vector<PictureFile> report_pictures(const ReportInput& input);

/// A plot of the gains of rows with a baseline, then one of the values of rows without; no empty plots.
std::vector<StripPlot> strip_plots(const TableModel& table);

/// The metrics drawn by default: the table's metric and the training loss.
std::vector<std::string> default_curves(const std::string& metric);

}  // namespace normlab
