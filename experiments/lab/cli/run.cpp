#include <algorithm>
#include <chrono>

#include "core/cpu/bf16_products.h"
#include "core/cpu/blas.h"
#include "experiments/lab/base/build_info.h"
#include "experiments/lab/base/clock.h"
#include "experiments/lab/base/first_wins.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/cli/device_option.h"
#include "experiments/lab/cli/output_file.h"
#include "experiments/lab/sweep/launched.h"
#include "experiments/lab/sweep/plan_file.h"
#include "experiments/lab/sweep/runner.h"
#include "experiments/lab/sweep/signals.h"
#include "experiments/lab/sweep/stages.h"
#include "experiments/lab/sweep/worker.h"
#include "experiments/lab/tables/sweep_table.h"
#include "experiments/lab/tables/table.h"
#include "experiments/lab/train/probes.h"
#include "experiments/lab/trials/progress.h"
#include "experiments/lab/trials/trial_copies.h"

namespace normlab {
namespace {

struct RunCommand {
  DescriptorOptions descriptor;
  RunOptions options;
  std::vector<std::string> retry;
  std::string share;
  int ranks_per_trial = 0;

  int operator()() {
    const Experiment experiment = descriptor.load();
    options.out = descriptor.out;
    options.data = descriptor.data_root();
    options.retry_failed = std::count(retry.begin(), retry.end(), "failed") > 0;
    options.retry_diverged = std::count(retry.begin(), retry.end(), "diverged") > 0;
    if (!share.empty()) options.part.share = read_share(share);
    if (!options.json_progress.empty()) require_output(options.json_progress, descriptor.inputs(&experiment));
    LaunchedRanks launched;
    if (const auto launch = find_launch()) {
      launched.mpi = start_mpi(*launch);
      const bool tells = launched.mpi->world().root();
      try {
        launched.divide(*launch, experiment, options, ranks_per_trial);
      } catch (const Error& error) {
        if (tells) throw;
        return static_cast<int>(error.code());  // all ranks have the same error
      }
    } else if (ranks_per_trial > 0) {
      throw InputError(
          "--ranks-per-trial: no launcher such as mpirun or srun has started this process with others; --ranks starts "
          "ranks on this machine");
    }
    const bool on_gpus = options.device != DeviceKind::cpu;
    if (options.gpu_shards > 0 && !on_gpus)
      throw InputError("--gpu-shards: cuts the batches of GPUs; add --device cuda, or leave it out");
    if (options.stack > 1 && !on_gpus)
      throw InputError(fmt::format(
          "--stack {}: networks are trained together on a GPU; add --device cuda, or leave it out", options.stack));
    if (options.stack > 1 && options.team.size() > 1)
      throw InputError(fmt::format("--stack {}: {} ranks train one trial at a time; leave it out", options.stack,
                                   options.team.size()));
    if (options.gpu_shards == 0) options.gpu_shards = on_gpus ? options.team.size() : 1;
    if (launched.serves()) {
      serve_trials(options, experiment);
      return 0;
    }
    if (on_gpus && options.team.forked > 1) return run_on_gpus(experiment);
    return run(experiment, launched.words);
  }

  /// On ranks that are forked once, for all trials, since a process that has used CUDA cannot pass it on.
  int run_on_gpus(const Experiment& experiment) {
    if (options.workers > 1)
      throw InputError(fmt::format("--workers {}: {} ranks on GPUs train one trial at a time; leave it out",
                                   options.workers, options.team.size()));
    if (options.threads == 0) options.threads = std::max(1, available_cores() / options.team.size());
    int code = 0;
    const Team team = options.team;
    const DeviceNeeds needs = device_needs(experiment, options);
    team.run([&](Group& group) {
      options.team = {.group = &group};
      options.gpu = group.number();
      group.agree([&] { require_device(options.device, needs, options.algorithms, options.gpu); });
      if (!group.root()) return serve_trials(options, experiment);
      code = run(experiment, "");
      end_serving(group);
    });
    return code;
  }

  int run(const Experiment& experiment, const std::string& ranks) {
    const bool words = options.json_progress != "-" && !options.quiet;
    if (!ranks.empty() && words) tell("{}\n", ranks);
    const ResultStore store(options.out);
    const Experiment planned = next_stage(experiment, store);
    if (words) {
      if (is_uncommitted(build_version()))
        tell(
            "this program is built from sources that were not committed ({}); commit and build again before a run that "
            "you publish\n",
            build_version());
      const bool on_cpu = options.device == DeviceKind::cpu;
      const bool bf16 = std::any_of(planned.trials.begin(), planned.trials.end(),
                                    [](const Trial& t) { return t.config.train.precision == Precision::bf16; });
      tell("{}: {}, {}\n", experiment.stem, plural(planned.trials.size(), "trial"),
           on_cpu
               ? concat("OpenBLAS ", blas_info().core, " (", blas_info().flavour, ")",
                        bf16 ? ", oneDNN " + onednn_info() : "", ", ", plural(std::size_t(available_cores()), "core"))
               : "on the GPU");
      if (on_cpu && !blas_info().wider.empty())
        tell(
            "this OpenBLAS lacks the {} kernels that fit this CPU, so large products are slow; install a newer version\n",
            blas_info().wider);
      if (const std::string change = describe(plan_change(planned, store), planned); !change.empty())
        tell("{}: {}\n", planned.stem, change);
    }
    if (words)
      for (const std::string& what : experiment.repeated_rows) tell("{}: {}\n", experiment.stem, what);
    options.first_wins = choose_first_wins(options.out);
    if (const std::string& notice = options.first_wins.notice; words && !notice.empty()) tell("{}\n", notice);
    put_back_set_aside(store);
    const auto begin = std::chrono::steady_clock::now();
    const RunSummary summary = run_experiment(experiment, options);
    const double seconds = seconds_since(begin);
    const Experiment run = next_stage(experiment, store);  // the descriptor may have been edited meanwhile
    if (words) tell_summary(summary, seconds, missing_measurements_note(run, store));
    if (options.quiet) return 0;
    TableOptions shown;
    shown.where = options.part.where;
    const TableModel table = sweep_table_model(run, store, shown);
    print_text("{}", render_table_text(table, text_columns()));
    for (const std::string& problem : table.problems) tell("{}\n", problem);
    if (summary.stopped) return stop_exit_code();
    return static_cast<int>(std::max(table.outcome, summary.exit_code()));
  }

  void tell_summary(const RunSummary& summary, double seconds, const std::string& note) const {
    tell("{}, {}\n", summary.text(), duration_text(seconds));
    if (summary.failed > 0)
      tell("{} failed; run the same command with --retry failed to resume from their last checkpoints\n",
           summary.failed);
    if (summary.failed_before > 0)
      tell("{} failed in an earlier run and were not trained again; add --retry failed to resume them\n",
           summary.failed_before);
    if (summary.waiting > 0)
      tell("{} not begun: the trial to start from has no weights yet\n", plural(summary.waiting, "trial"));
    if (summary.elsewhere > 0)
      tell("{} left to other processes{}\n", plural(summary.elsewhere, "trial"),
           options.no_wait                                                 ? " because of --no-wait"
           : options.max_trials > 0 && summary.begun >= options.max_trials ? " because of --max-trials"
                                                                           : "");
    if (!options.part.share.whole())
      tell("share {}: {} of other shares; copy the results of all shares into one folder with `normlab merge`{}\n",
           options.part.share.text(), plural(summary.left_out, "trial"),
           summary.more_to_come ? ", then run again there: further trials depend on them" : "");
    else if (options.part.some_rows() && summary.left_out > 0)
      tell("{} of other rows and seeds left out\n", plural(summary.left_out, "trial"));
    tell("{}", note);
  }
};

}  // namespace

void add_run(Command& app) {
  auto [command, run] = app.add_command<RunCommand>(
      "run", "train the trials of a descriptor that are not done yet, then print the result table");
  run.descriptor.add_file(command);
  run.descriptor.add_out(command).output(Output::folder);
  command.add_bounded("--workers", run.options.workers,
                      "how many trials to train at once (default: one per core, or one on a GPU)", 1, 1024);
  command.add_bounded(
      "--threads", run.options.threads,
      "cores per trial, or per rank; does not change results (default: the cores divided among the workers and ranks)",
      1, 1024);
  command.add_number(
      "--ranks", run.options.team.forked,
      "processes that train each trial together, on this machine; with --device cuda, on a GPU each; does not change "
      "results (on GPUs: for equal --gpu-shards)",
      1, Team::kMostForked);
  command.add_bounded(
      "--ranks-per-trial", run.ranks_per_trial,
      "under mpirun or srun: ranks that train each trial together (default: all, or 1 if there are at least as many "
      "trials as ranks)",
      1, 1 << 20);
  command.add_number(
      "--data-threads", run.options.data_threads,
      "additional cores per trial that prepare the next batches during a step; 0: each step prepares its own batch; "
      "does not change results",
      0, 1024);
  run.options.gpu_shards = 0;
  add_device(command, run.options.device);
  add_gpu_algorithms(command, run.options.algorithms);
  add_gpu_shards(command, run.options.gpu_shards,
                 "shards that a batch is cut into on GPUs, which ranks divide; changes the bits (default: the ranks)");
  command.add_number("--stack", run.options.stack,
                     "on a GPU: networks that each worker trains together, their kernels side by side; does not change "
                     "results",
                     1, kMostStacked);
  command.add_output(Output::folder, "--tensorboard", run.options.tensorboard,
                     "folder for TensorBoard event files, with a subfolder per trial");
  command.add_flag("--allow-different-bits", run.options.allow_different_bits,
                   "resume from checkpoints of another binary or BLAS core, and mark the results");
  command.add_number("--lease", run.options.lease_seconds,
                     "seconds without a sign of life after which another process may take over a trial from this one",
                     kShortestLease, kLongestLease);
  command
      .add_option(
          "--retry", run.retry,
          "retrain trials that failed (from their last checkpoint) or diverged (from the first step); may be repeated")
      .one_of({"failed", "diverged"})
      .one_each();
  command.add_flag("--stop-on-failure", run.options.stop_on_failure,
                   "when a trial fails, stop the others with checkpoints");
  command.add_flag("--no-wait", run.options.no_wait,
                   "exit when only trials of other processes are left, instead of waiting for them");
  command
      .add_option("--max-trials", run.options.max_trials,
                  "exit after this process has trained so many trials; 0: no limit")
      .show_default();
  command.add_option("--where", run.options.part.where,
                     "train only the rows that match, by axes: 'placement = dpn and lr = 1e-3'");
  command.add_option("--seed", run.options.part.seeds, "train only these seeds of the table's rows")
      .comma_separated()
      .one_each();
  command.add_option(
      "--share", run.share,
      "train only this part of the trials, as 3/16, without a folder in common with the others; auto: by "
      "SLURM_ARRAY_TASK_ID or JOB_COMPLETION_INDEX; auto/16: of 16");
  command.add_output(
      Output::stream, "--json-progress", run.options.json_progress,
      "append the progress to this file, one JSON object per line; -: to standard error, without other messages");
  command.footer(
      "After Ctrl-C, SIGTERM, SIGUSR1, a closed terminal (SIGHUP) or a crash, run the same command again to resume "
      "from the last checkpoints. To share the work, run it in other shells too, or on other hosts with the same "
      "folder. `normlab status` shows the progress.");
  command.examples({"normlab run experiments/placements_gratings.json --workers 2",
                    "normlab run experiments/placements_cifar10.json --data ~/data --set train.epochs=2"});
}

}  // namespace normlab
