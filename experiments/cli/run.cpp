#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "core/cpu/blas.h"
#include "cuda/backend.h"
#include "experiments/cli/commands.h"
#include "experiments/cli/descriptor_options.h"
#include "experiments/results/progress.h"
#include "experiments/sweep/runner.h"
#include "experiments/sweep/signals.h"
#include "experiments/sweep/sweep_table.h"
#include "experiments/train/probes.h"

namespace normlab {
namespace {

struct RunCommand {
  DescriptorOptions descriptor;
  RunOptions options;
  std::string data, device = "cpu";

  int operator()() {
    if (device == "cuda") make_cuda_backend();  // says what is missing before any work is done
    const Experiment experiment = descriptor.load();
    options.out = descriptor.out;
    if (!data.empty()) options.data = data;
    fmt::print(stderr, "{}: {} trials, OpenBLAS {} ({}), {} cores\n", experiment.stem, experiment.trials.size(),
               blas_info().core, blas_info().flavour, available_cores());
    const auto begin = std::chrono::steady_clock::now();
    const RunSummary summary = run_experiment(experiment, options);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    fmt::print(stderr, "{} of {} trials done ({} before), {} diverged, {} failed, {} refused, {}\n",
               summary.done_before + summary.finished, summary.trials, summary.done_before, summary.diverged,
               summary.failed, summary.refused, duration_text(seconds));
    fmt::print(stderr, "{}", missing_probes_note(experiment, ResultStore(options.out)));
    fmt::print("{}", sweep_table(experiment, ResultStore(options.out), "eval/accuracy", TableFormat::text));
    if (summary.stopped) return stop_exit_code();
    if (summary.refused > 0) return static_cast<int>(ExitCode::bad_input);
    return summary.failed > 0 ? static_cast<int>(ExitCode::trials_failed) : 0;
  }
};

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto run = std::make_shared<RunCommand>();
  CLI::App& command =
      *app.add_subcommand("run", "train what a descriptor asks for and is not done yet, then print its table");
  run->descriptor.add_file(command);
  run->descriptor.add_out(command);
  command.add_option("--data", run->data, "folder of the data sets (otherwise NORMLAB_DATA, then ./data)");
  command.add_option("--workers", run->options.workers, "trials at a time (default: one a core)")
      ->check(CLI::Range(1, 1024));
  command
      .add_option("--threads", run->options.threads,
                  "cores in a trial (default: what the workers leave); changes no result")
      ->check(CLI::Range(1, 1024));
  command
      .add_option("--data-threads", run->options.data_threads,
                  "more cores in each trial, which make the next batches while a step trains; 0: made in the step; "
                  "changes no result")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command.add_option("--device", run->device, "where to compute")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command.add_option("--tensorboard", run->options.tensorboard,
                     "folder for TensorBoard's event files, one folder a trial below it");
  command.add_flag("--allow-different-bits", run->options.allow_different_bits,
                   "go on from checkpoints of another binary or BLAS core; marked in the result");
  command.footer("Killed or stopped with Ctrl-C, the same command goes on where it was.");
  command.callback([run, &action] { action = [run] { return (*run)(); }; });
}

}  // namespace normlab
