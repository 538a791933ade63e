#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "experiments/lab/base/scratch_folder.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/bench.h"
#include "experiments/lab/cli/descriptor_options.h"
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

struct BenchSweep : BenchOptions {
  DescriptorOptions descriptor;
  RunOptions options;

  int operator()() {
    const Experiment experiment = descriptor.load();
    const ScratchFolder folder("normlab-bench");
    options.out = folder.path() / "results";
    options.data = descriptor.data_root();
    const LoadMeter meter;
    const auto begin = std::chrono::steady_clock::now();
    RunSummary summary = run_experiment(experiment, options);
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (summary.stopped) return stop_exit_code();
    const double all = wall * double(summary.workers);
    // Waiting for the end of the run, and the time before the workers started.
    const double told = std::accumulate(summary.times.seconds.begin(), summary.times.seconds.end(), 0.0);
    summary.times[WorkPart::waiting] += std::max(0.0, all - told);
    Json parts = Json::object();
    for (const PartWords& row : kParts) parts[row.key] = rounded(summary.times[row.part], 3);
    if (!json()) {
      print_text("{}, {}: {:.1f} s, which is {:.1f} s of worker time\n\n{:<54}{:>9}{:>9}\n",
                 plural(summary.trials, "trial"), plural(summary.workers, "worker"), wall, all, "", "s", "share");
      for (const PartWords& row : kParts)
        print_text("{:<54}{:>9.2f}{:>8.1f}%\n", row.words, summary.times[row.part],
                   100 * summary.times[row.part] / all);
    }
    return end({{"descriptor", experiment.stem},
                {"trials", summary.trials},
                {"failed", summary.failed + summary.refused},
                {"workers", summary.workers},
                {"wall_seconds", rounded(wall, 3)},
                {"worker_seconds", parts}},
               meter, available_cores());
  }
};

}  // namespace

void add_bench_sweep(Command& bench) {
  auto [command, sweep] = bench.add_command<BenchSweep>(
      "sweep", "train a sweep as `run` does, in a temporary folder, and show where its workers spend their time");
  sweep.descriptor.add_file(command);
  command.add_option("--workers", sweep.options.workers, "how many trials to train at once (default: one per core)")
      .range(1, 1024);
  command
      .add_option("--threads", sweep.options.threads, "cores per trial (default: the cores divided among the workers)")
      .range(1, 1024);
  sweep.add_format(command);
  command.examples({"normlab bench sweep experiments/placements_gratings.json --set train.epochs=1",
                    "normlab bench sweep experiments/micro_trials.json --workers 2 --format json"});
}

}  // namespace normlab
