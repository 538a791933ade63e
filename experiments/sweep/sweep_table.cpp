#include "experiments/sweep/sweep_table.h"

#include <fmt/format.h>

#include <set>

#include "core/error.h"
#include "experiments/results/text_layout.h"

namespace normlab {
namespace {

/// What has to be equal for two results to be comparable to the bit, in words.
std::string environment_of(const TrialResult& result) {
  std::string words;
  for (const char* key : {"version", "device", "cpu", "blas_core", "arithmetic"}) {
    const auto found = result.provenance.find(key);
    if (found == result.provenance.end()) continue;
    if (!words.empty()) words += ", ";
    words += found->second;
  }
  if (result.different_bits) words += ", resumed under another program";
  return words;
}

}  // namespace

std::string sweep_table(const Experiment& experiment, const ResultStore& store, const std::string& metric,
                        TableFormat format) {
  TableSpec spec;
  spec.about = experiment.about;
  spec.metric = metric;
  const bool share = metric.ends_with("accuracy");
  spec.unit = share ? "%" : "";
  spec.scale = share ? 100 : 1;
  for (std::size_t r = 0; r < experiment.rows.size(); ++r) {
    const Cell& row = experiment.rows[r];
    TableRow out;
    out.label = row.label;
    out.is_baseline = row.baseline == r;
    if (!out.is_baseline) out.baseline_row = row.baseline;
    spec.rows.push_back(out);
  }
  std::set<std::string> known;
  bool found_any = false;
  for (const Trial& trial : experiment.trials) {
    if (trial.tuning) continue;
    const TrialStatus status = store.trial(trial.id).status();
    TableCellInput cell;
    cell.seed = trial.config.seed;
    cell.state = status.state;
    cell.progress = status.progress;
    cell.message = status.message;
    if (status.result) {
      cell.environment = environment_of(*status.result);
      cell.diverged_step = status.result->diverged_step.value_or(0);
      for (const auto& [name, value] : status.result->metrics) known.insert(name);
      if (const auto found = status.result->metrics.find(metric); found != status.result->metrics.end()) {
        cell.value = found->second;
        found_any = true;
      }
    }
    spec.rows[trial.row].cells.push_back(cell);
  }
  if (!known.empty() && !found_any)
    throw InputError(
        fmt::format("--metric {}: no result has it; there are {}", metric, joined({known.begin(), known.end()}, ", ")));
  return render_table(spec, format);
}

}  // namespace normlab
