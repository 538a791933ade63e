#include "experiments/lab/sweep/slurm.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace normlab {

std::string shell_quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string("._-/+=:,@%").find(static_cast<char>(c)) != std::string::npos;
  });
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::size_t slurm_tasks(const SlurmJob& job) {
  if (job.tasks > 0) return std::max<std::size_t>(1, std::min(job.tasks, job.missing));
  const std::size_t each = std::max<std::size_t>(1, job.trials_per_task);
  return std::max<std::size_t>(1, (job.missing + each - 1) / each);
}

std::int64_t slurm_minutes(const SlurmJob& job) {
  const std::size_t tasks = slurm_tasks(job), each = (job.missing + tasks - 1) / tasks;
  return 10 + static_cast<std::int64_t>(std::ceil(double(each) * job.trial_seconds * job.time_factor / 60));
}

std::string task_commands(const SlurmJob& job) {
  std::string line, text;
  for (const std::string& word : job.command) line += shell_quoted(word) + " ";
  const std::size_t tasks = slurm_tasks(job);
  for (std::size_t task = 1; task <= tasks; ++task)
    text += fmt::format("{}--workers 1 --threads {} --share {}/{}\n", line, job.cpus, task, tasks);
  return text;
}

std::string words_of_later(const SlurmJob& job) {
  std::string words;
  if (job.waiting > 0) words = fmt::format("{} more start from these trials", job.waiting);
  if (job.to_come > 0)
    words += fmt::format("{}{} more follow from their results", words.empty() ? "" : ", and ", job.to_come);
  return words.empty() ? "" : words + "; plan and submit them afterwards";
}

std::string slurm_script(const SlurmJob& job) {
  const std::size_t tasks = slurm_tasks(job);
  const std::int64_t minutes = slurm_minutes(job);
  std::string command;
  for (const std::string& word : job.command) command += shell_quoted(word) + " ";
  const std::size_t most = job.tasks > 0 ? 0 : std::max<std::size_t>(1, job.trials_per_task);
  const std::string limit = most > 0 ? fmt::format(" --max-trials {}", most) : "";
  std::string name;  // Slurm interprets % in log names
  for (const char c : job.name) name += c == '%' || std::isspace(static_cast<unsigned char>(c)) != 0 ? '_' : c;
  const std::string later = words_of_later(job);
  return fmt::format(
      R"(#!/bin/bash
# Missing trials: {missing}. Tasks: {tasks}, each a worker that takes unclaimed trials{most}.
{waiting}# Submit with sbatch, adding the --partition, --account or --mem your cluster needs; submit again if trials are missing.
#SBATCH --job-name={name}
#SBATCH --array=0-{last}
#SBATCH --ntasks=1
#SBATCH --cpus-per-task={cpus}
#SBATCH --time={minutes}{gpu}
#SBATCH --requeue
#SBATCH --signal=B:USR1@120
#SBATCH --open-mode=append
#SBATCH --output={name}-%A_%a.log

{command}--workers 1 --threads {cpus} --no-wait{limit} &
run=$!
trap 'kill -USR1 "$run" 2>/dev/null' USR1 # sent two minutes before the time limit, to this shell only
trap : TERM                               # preempted or requeued: sent to all processes of the task
while true; do
  wait "$run"
  code=$?
  kill -0 "$run" 2>/dev/null || break # otherwise a signal ended the wait
done
if [ "$code" = 138 ]; then # ended by USR1, with a checkpoint
  scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}"
fi
exit "$code"
)",
      fmt::arg("waiting", later.empty() ? "" : fmt::format("# {}.\n", later)), fmt::arg("missing", job.missing),
      fmt::arg("tasks", tasks), fmt::arg("most", most > 0 ? fmt::format(", {} at most", most) : ""),
      fmt::arg("name", name), fmt::arg("last", tasks - 1), fmt::arg("cpus", job.cpus), fmt::arg("minutes", minutes),
      fmt::arg("gpu", job.gpu ? "\n#SBATCH --gres=gpu:1" : ""), fmt::arg("command", command), fmt::arg("limit", limit));
}

}  // namespace normlab
