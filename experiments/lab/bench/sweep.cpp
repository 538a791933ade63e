#include <algorithm>
#include <chrono>
#include <numeric>

#include "experiments/lab/base/folders.h"
#include "experiments/lab/bench/cases.h"
#include "experiments/lab/sweep/signals.h"

namespace normlab {
namespace {

struct PartWords {
  WorkPart part;
  const char *key, *words;
};
constexpr PartWords kParts[] = {
    {WorkPart::start, "start", "start of processes and trials, before the first step"},
    {WorkPart::data, "data", "batches, made in the step or waited for"},
    {WorkPart::steps, "steps", "steps and metric lines"},
    {WorkPart::evaluation, "evaluation", "evaluations"},
    {WorkPart::checkpoints, "checkpoints", "checkpoints and state hashes"},
    {WorkPart::result, "result", "results: seals, kept weights, syncs"},
    {WorkPart::waiting, "waiting", "waiting for a trial, or for the last worker"},
};

}  // namespace

Measured bench_sweep(const BenchOptions& o) {
  const TemporaryFolderBeside folder(std::filesystem::temp_directory_path() / "normlab-bench");
  RunOptions options;
  options.out = folder.path() / "results";
  options.data = o.data;
  options.workers = o.workers;
  options.threads = o.threads;
  const BenchClock::time_point begin = BenchClock::now();
  RunSummary summary = run_experiment(*o.experiment, options);
  const double wall = seconds_since(begin), all = wall * double(summary.workers);
  if (summary.stopped) return {.exit_code = stop_exit_code()};
  // Waiting for the end of the run, and the time before the workers started.
  const double told = std::accumulate(summary.times.seconds.begin(), summary.times.seconds.end(), 0.0);
  summary.times[WorkPart::waiting] += std::max(0.0, all - told);
  Json parts = Json::object(), rows = Json::array();
  for (const PartWords& row : kParts) {
    const double seconds = summary.times[row.part];
    parts[row.key] = rounded(seconds, 3);
    rows.push_back({{"part", row.words}, {"seconds", seconds}, {"share", seconds / all}});
  }
  return {{{"descriptor", o.experiment->stem},
           {"trials", summary.trials},
           {"failed", summary.failed + summary.refused},
           {"workers", summary.workers},
           {"wall_seconds", rounded(wall, 3)},
           {"worker_seconds", std::move(parts)}},
          available_cores(),
          {{"worker_seconds", std::move(rows)}}};
}

}  // namespace normlab
