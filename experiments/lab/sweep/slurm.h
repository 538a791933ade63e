// A Slurm array job that trains what a descriptor's results lack.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace normlab {

/// `missing` trials, distributed over the tasks of an array. Each task is a worker that takes unclaimed
/// trials one by one.
struct SlurmJob {
  std::string name;                  // of the job and its log files
  std::vector<std::string> command;  // program and arguments that run the sweep, not shell-quoted
  std::size_t missing = 0;
  std::size_t waiting = 0;          // for the trials that they start from
  std::size_t to_come = 0;          // that follow from the results of these
  std::size_t tasks = 0;            // 0: from trials_per_task
  std::size_t trials_per_task = 0;  // 0: as many as a task finds; if both are 0: one
  double trial_seconds = 0;         // of the longest trial, on cpus cores
  double time_factor = 2;           // time limit divided by the estimate
  int cpus = 1;                     // per task
  bool gpu = false;                 // one per task
};

std::size_t slurm_tasks(const SlurmJob& job);
/// Time limit of a task in minutes: its trials by the estimate, times the factor, plus 10 for loading data
/// and evaluation.
std::int64_t slurm_minutes(const SlurmJob& job);

/// "9 more trials follow from the results of these; ...", with those that wait; "" if there are none.
std::string words_of_later(const SlurmJob& job);

/// The script for sbatch. Before the time limit Slurm sends USR1; the run then writes a checkpoint and ends, and the
/// task requeues itself. A preempted or requeued task receives TERM, also writes a checkpoint, and resumes from it. No
/// process monitors the tasks.
std::string slurm_script(const SlurmJob& job);

/// A command line per task, each for its share of the trials (`run --share`), so that the tasks need no common folder.
std::string task_commands(const SlurmJob& job);

/// Single-quoted if the word contains characters that are special to a shell.
std::string shell_quoted(const std::string& word);

}  // namespace normlab
