#include "experiments/cli/plan_slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "experiments/base/terminal.h"
#include "experiments/results/store.h"
#include "experiments/train/cost.h"

namespace normlab {
namespace {

std::string absolute(const std::string& path) { return std::filesystem::absolute(path).lexically_normal().string(); }

}  // namespace

void PlanSlurm::add_options(CLI::App& plan) {
  CLI::Option* slurm = plan.add_flag("--slurm", wanted, "print a Slurm array script for what is missing instead");
  CLI::Option* by_task = plan.add_option("--tasks", tasks, "--slurm: tasks, each a worker until nothing is left")
                             ->check(CLI::Range(1, 1'000'000))
                             ->needs(slurm);
  plan.add_option("--trials-per-task", trials_per_task, "--slurm: trials of a task (default 1)")
      ->check(CLI::Range(1, 1'000'000))
      ->needs(slurm)
      ->excludes(by_task);
  plan.add_option("--time-factor", time_factor, "--slurm: time limit over the estimate")
      ->check(CLI::PositiveNumber)
      ->needs(slurm)
      ->capture_default_str();
  plan.add_option("--hours", hours, "--slurm: of one trial, where the estimate is not wanted or not known")
      ->check(CLI::PositiveNumber)
      ->needs(slurm);
  plan.add_option("--cpus", cpus, "--slurm: cores of a task")
      ->check(CLI::Range(1, 1024))
      ->needs(slurm)
      ->capture_default_str();
  add_device(plan, device)->needs(slurm);
}

int PlanSlurm::print(const Experiment& experiment, const DescriptorOptions& descriptor, double gflops) const {
  const ResultStore store(descriptor.out);
  SlurmJob job;
  job.name = experiment.stem;
  job.tasks = tasks;
  job.trials_per_task = trials_per_task;
  job.time_factor = time_factor;
  job.cpus = cpus;
  job.trial_seconds = 3600 * hours;
  job.gpu = device == DeviceKind::cuda;
  if (job.gpu && hours == 0)
    throw InputError("plan --slurm --device cuda: estimates are for CPUs; give a trial's time with --hours");
  for (const Trial& trial : experiment.trials) {
    if (store.trial(trial.id).load_result()) continue;  // one that failed is left alone by `run` too
    ++job.missing;
    if (hours > 0) continue;
    const TrialCost cost = trial_cost(trial.config);
    if (!cost.steps)
      throw InputError(
          fmt::format("plan --slurm: nothing is known of \"{}\", so neither is the time of a trial; give "
                      "it with --hours",
                      trial.config.dataset.name));
    const double rate = 1e9 * (gflops > 0 ? gflops : default_gflops(trial.config.train.precision));
    const double used = std::min<double>(cpus, double(cost.shards.lanes));
    job.trial_seconds = std::max(job.trial_seconds, (cost.training_flops + cost.evaluation_flops) / rate / used);
  }
  if (job.missing == 0) {
    tell("all {} trials have a result; there is nothing to submit\n", experiment.trials.size());
    return 0;
  }
  job.command = {std::filesystem::read_symlink("/proc/self/exe").string(), "run", absolute(descriptor.file), "--out",
                 absolute(descriptor.out)};
  if (job.gpu) job.command.insert(job.command.end(), {"--device", "cuda"});
  if (!descriptor.data.empty()) job.command.insert(job.command.end(), {"--data", absolute(descriptor.data)});
  for (const std::string& set : descriptor.sets) job.command.insert(job.command.end(), {"--set", set});
  print_bytes(slurm_script(job));
  return 0;
}

}  // namespace normlab
