// Learning curves of an experiment: what metrics.jsonl says of each trial, and the band of each row's seeds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "experiments/descriptor/experiment.h"
#include "experiments/results/metrics_log.h"
#include "experiments/results/store.h"

namespace normlab {

/// What a trial has measured so far: of the attempt that its result names, or of the latest one. Nothing for a trial
/// without a result in an exported file. InputError where the file is damaged, or is not there though it was exported.
std::vector<MetricsLine> trial_metrics(const TrialFolder& folder, const TrialStatus& status);

/// One metric of one trial.
struct SeedCurve {
  std::uint64_t seed = 0;
  TrialState state = TrialState::missing;
  std::map<std::int64_t, double> values;  // by step, as stored; NaN and infinities included
};

/// The seeds of a row at one step: mean, lowest and highest of the finite values there.
struct BandPoint {
  std::int64_t step = 0;
  double mean = 0, low = 0, high = 0;
  std::size_t n = 0;
};

struct RowCurves {
  std::size_t row = 0;  // of the plan
  std::string label;
  std::vector<SeedCurve> seeds;  // those that have a value, in the plan's order
  std::vector<BandPoint> band;   // by step
};

struct MetricCurves {
  std::string metric;
  std::vector<RowCurves> rows;  // all rows of the plan
};

/// A trial whose curves are left out since a file of it cannot be read.
struct CurveProblem {
  std::string trial;  // its label
  std::string error;
  ExitCode fault;  // the file's, or the machine's
  std::string text() const { return trial + ": left out of the curves: " + error; }
};

struct ExperimentCurves {
  std::vector<MetricCurves> metrics;  // as asked for
  std::vector<std::string> known;     // names of all metrics that some trial has, sorted
  std::vector<CurveProblem> problems;
  /// What a command that shows them ends with: the gravest fault.
  ExitCode outcome() const;
};

/// Reads the metrics of each trial once: of the attempt that its result names, or of the latest one.
ExperimentCurves read_curves(const Experiment& experiment, const ResultStore& store,
                             const std::vector<std::string>& metrics);

std::vector<BandPoint> seed_band(const std::vector<SeedCurve>& seeds);

/// InputError where some trial has metrics and none has this one: `option` "--metric", the nearest name, all of them.
void require_metric(const ExperimentCurves& curves, const std::string& metric, const std::string& option);

/// "row,step,mean,low,high,n", or "row,seed,step,value" for `each_seed`: RFC 4180, numbers in full.
std::string curves_csv(const MetricCurves& curves, bool each_seed);

}  // namespace normlab
