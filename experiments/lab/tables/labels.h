// The descriptor's "labels": what readers see instead of the names of rows, values of axes and metrics.
#pragma once

#include <map>
#include <string>

#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/tables/table_model.h"

namespace normlab {

/// The label of a row, of a value or of a metric; "placement=dpn, lr=0.1" has those of its values. Else the name itself.
std::string shown_name(const std::string& name, const std::map<std::string, std::string>& labels);

/// The same table for a reader: headings, rows, strips and sentences have the labels. Metric, columns' keys and numbers
/// stay.
TableModel with_labels(TableModel model);

/// For figures and reports: the labels of the rows and their trials.
void show_labels(Experiment& experiment);

}  // namespace normlab
