// Learning curves of an experiment: the metrics.jsonl of each trial, and the band over the seeds of each row.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

/// Metrics of the attempt that the trial's result names, or else of the latest attempt. Empty for an exported trial
/// without a result. InputError if the file is damaged, or missing for a trial with a result.
std::vector<MetricsLine> trial_metrics(const TrialFolder& folder, const TrialStatus& status);

/// What a trial measured, without lines if its archive has no curves.
struct TrialCurves {
  std::size_t row = 0;  // index in the plan
  std::uint64_t seed = 0;
  TrialState state = TrialState::missing;
  std::vector<MetricsLine> lines;
};

struct SeedCurve {
  std::uint64_t seed = 0;
  TrialState state = TrialState::missing;
  std::map<std::int64_t, double> values;  // by step, as stored, including NaN and infinities
};

/// The seeds of a row at one step or rate: mean, minimum and maximum of the finite values.
struct BandPoint {
  double at = 0;
  double mean = 0, low = 0, high = 0;
  std::size_t n = 0;
  /// Takes the finite value of another seed.
  void add(double value);
};

struct RowCurves {
  std::size_t row = 0;  // index in the plan
  std::string label;
  std::vector<SeedCurve> seeds;  // those with a value, in the plan's order
  std::vector<BandPoint> band;   // by step
};

struct MetricCurves {
  std::string metric;
  std::vector<RowCurves> rows;  // all rows of the plan
};

/// A trial whose curves are left out because one of its files cannot be read.
struct CurveProblem {
  std::string trial;  // its label
  std::string error;
  ExitCode fault;  // whether the file or the machine is at fault
  std::string text() const { return trial + ": left out of the curves: " + error; }
};

struct ExperimentCurves {
  std::vector<TrialCurves> trials;    // those that can be read, in the plan's order
  std::vector<MetricCurves> metrics;  // in the order requested
  std::vector<std::string> known;     // names of all metrics that any trial has, sorted
  std::vector<CurveProblem> problems;
  std::size_t finished = 0, without = 0;  // trials with a result, and those of them that came without a curve
  /// A sentence about these, "" for none.
  std::string without_words() const;
  /// The exit code of a command that shows the curves: the most serious fault.
  ExitCode outcome() const;
};

/// Reads the metrics of each trial once, as trial_metrics() does.
ExperimentCurves read_curves(const Experiment& experiment, const ResultStore& store,
                             const std::vector<std::string>& metrics);

/// A metric of the trials by row.
MetricCurves metric_curves(const Experiment& experiment, const std::vector<TrialCurves>& trials,
                           const std::string& metric);

std::vector<BandPoint> seed_band(const std::vector<SeedCurve>& seeds);

/// InputError if trials have metrics but none has this one. The message names `option` (such as "--metric"), the
/// nearest name and all known names.
void require_metric(const ExperimentCurves& curves, const std::string& metric, const std::string& option);

/// CSV (RFC 4180) with all digits: "row,step,mean,low,high,n", or "row,seed,step,value" if `each_seed`.
std::string curves_csv(const MetricCurves& curves, bool each_seed);

}  // namespace normlab
