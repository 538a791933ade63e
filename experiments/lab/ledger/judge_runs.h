// The tests of a claim that read what runs measured: differences of metrics, probes and trends.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/ledger/verdict.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

/// What a claim's tests read.
struct ClaimResults {
  const Experiment& experiment;
  const ResultStore& store;
  std::vector<std::string> names;   // row_names()
  std::set<std::string>& problems;  // collects results that cannot be read, or lack what a test reads

  /// The table of a metric, with `names` as labels.
  TableInput table(const std::string& metric) const;
  /// The metrics of a finished trial by measured step; empty without any.
  std::vector<MetricsLine> curve(std::size_t trial) const;
};

/// For a test of kind difference, probe or trend: an estimate per selected row, at simultaneous `level`. InputError as
/// judge_rows().
RowsJudged judge_runs(const ClaimTest& test, const ClaimResults& results, double level);

}  // namespace normlab
