// An array job for Slurm that trains what a descriptor still misses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace normlab {

/// `missing` trials, shared out over tasks of an array. A task is a worker: it takes trials that nobody has, one after
/// the other.
struct SlurmJob {
  std::string name;                  // of the job and its logs
  std::vector<std::string> command;  // program and arguments that run the sweep, not yet quoted for a shell
  std::size_t missing = 0;
  std::size_t tasks = 0;            // 0: as many as trials_per_task asks for
  std::size_t trials_per_task = 0;  // 0: as many as a task finds; both 0: one
  double trial_seconds = 0;         // of the longest trial, on cpus cores
  double time_factor = 2;           // the time limit over the estimate
  int cpus = 1;                     // a task
  bool gpu = false;                 // one for each task
};

/// Tasks of the array.
std::size_t slurm_tasks(const SlurmJob& job);
/// Minutes that a task may take: its trials by the estimate, times the factor, and 10 to load data and to evaluate.
std::int64_t slurm_minutes(const SlurmJob& job);

/// The script for sbatch. Before the time limit Slurm sends USR1, upon which the run writes a checkpoint and ends; the
/// task then requeues itself. A task that is preempted or requeued is sent TERM, which writes a checkpoint too, and
/// resumes there. Nothing watches over the tasks.
std::string slurm_script(const SlurmJob& job);

/// In single quotes where a shell would see anything in it.
std::string shell_quoted(const std::string& word);

}  // namespace normlab
