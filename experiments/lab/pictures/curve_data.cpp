#include "experiments/lab/pictures/curve_data.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/visible_text.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/metric_names.h"
#include "experiments/lab/tables/markup.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {

std::vector<MetricsLine> trial_metrics(const TrialFolder& folder, const TrialStatus& status) {
  if (status.finished()) return by_measured_step(read_result_metrics(folder, *status.result));
  if (folder.exported() != nullptr) return {};
  const std::int64_t attempt = last_attempt(folder.path());
  const auto path = folder.metrics(attempt), checkpoint = folder.checkpoint(attempt);
  if (status.state != TrialState::running && std::filesystem::exists(checkpoint))
    require_checkpoint_metrics(SafetensorsFile::read(checkpoint), checkpoint, path);
  return std::filesystem::exists(path) ? read_metrics(path) : std::vector<MetricsLine>();
}

void BandPoint::add(double value) {
  low = n == 0 ? value : std::min(low, value);
  high = n == 0 ? value : std::max(high, value);
  ++n;
  mean = std::clamp(mean + (value - mean) / double(n), low, high);  // against rounding
}

std::vector<BandPoint> seed_band(const std::vector<SeedCurve>& seeds) {
  std::map<std::int64_t, BandPoint> points;
  for (const SeedCurve& seed : seeds)
    for (const auto& [step, value] : seed.values) {
      if (!std::isfinite(value)) continue;
      points[step].add(value);
    }
  std::vector<BandPoint> band;
  for (auto& [step, point] : points) {
    point.at = double(step);
    band.push_back(point);
  }
  return band;
}

ExitCode ExperimentCurves::outcome() const {
  ExitCode gravest = ExitCode::done;
  for (const CurveProblem& problem : problems) gravest = std::max(gravest, problem.fault);
  return gravest;
}

std::string ExperimentCurves::without_words() const {
  if (without == 0) return "";
  return fmt::format(
      "{} of {} with a result came without learning curves; export them again with `normlab export --full`", without,
      plural(finished, "trial"));
}

MetricCurves metric_curves(const Experiment& experiment, const std::vector<TrialCurves>& trials,
                           const std::string& metric) {
  MetricCurves curves{metric, {}};
  for (std::size_t r = 0; r < experiment.rows.size(); ++r) curves.rows.push_back({r, experiment.rows[r].label, {}, {}});
  for (const TrialCurves& trial : trials) {
    SeedCurve seed{trial.seed, trial.state, {}};
    for (const MetricsLine& line : trial.lines)
      if (const auto found = line.values.find(metric); found != line.values.end())
        seed.values[line.step] = found->second;
    if (!seed.values.empty()) curves.rows[trial.row].seeds.push_back(std::move(seed));
  }
  for (RowCurves& row : curves.rows) row.band = seed_band(row.seeds);
  return curves;
}

ExperimentCurves read_curves(const Experiment& experiment, const ResultStore& store,
                             const std::vector<std::string>& metrics) {
  ExperimentCurves curves;
  std::set<std::string> known;
  for (std::size_t r = 0; r < experiment.rows.size(); ++r)
    for (const std::size_t t : experiment.rows[r].trials) {
      const Trial& trial = experiment.trials[t];
      try {
        const TrialFolder folder = store.trial(trial.id);
        const TrialStatus status = folder.status();
        const bool without = status.finished() && !has_curve(folder, *status.result);
        curves.finished += status.finished();
        curves.without += without;
        curves.trials.push_back(
            {r, trial.config.seed, status.state, without ? std::vector<MetricsLine>() : trial_metrics(folder, status)});
      } catch (const Error& error) {
        curves.problems.push_back({trial.label, error.what(), error.code()});
        continue;
      }
      for (const MetricsLine& line : curves.trials.back().lines)
        for (const auto& [name, value] : line.values) known.insert(name);
    }
  curves.known.assign(known.begin(), known.end());
  for (const std::string& metric : metrics) curves.metrics.push_back(metric_curves(experiment, curves.trials, metric));
  return curves;
}

void require_metric(const ExperimentCurves& curves, const std::string& metric, const std::string& option) {
  if (curves.known.empty() || std::binary_search(curves.known.begin(), curves.known.end(), metric)) return;
  const std::vector<std::string_view> names(curves.known.begin(), curves.known.end());
  const std::string_view near = nearest(metric, names);
  throw InputError(fmt::format("{} {}: no trial has this metric{}; known are {}", option, shown(metric),
                               near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near),
                               joined(short_list({curves.known.begin(), curves.known.end()}), ", ")));
}

std::string curves_csv(const MetricCurves& curves, bool each_seed) {
  std::string csv = each_seed ? "row,seed,step,value\n" : "row,step,mean,low,high,n\n";
  for (const RowCurves& row : curves.rows) {
    const std::string label = csv_cell(row.label);
    if (each_seed) {
      for (const SeedCurve& seed : row.seeds)
        for (const auto& [step, value] : seed.values)
          csv += fmt::format("{},{},{},{}\n", label, seed.seed, step, value);
      continue;
    }
    for (const BandPoint& point : row.band)
      csv += fmt::format("{},{},{},{},{},{}\n", label, point.at, point.mean, point.low, point.high, point.n);
  }
  return csv;
}

}  // namespace normlab
