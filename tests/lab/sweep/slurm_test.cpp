#include "experiments/lab/sweep/slurm.h"

#include <doctest/doctest.h>

#include "tests/lab/base/text.h"

using namespace normlab;

namespace {

SlurmJob sixty_trials() {
  SlurmJob job;
  job.missing = 60;
  job.trial_seconds = 600;
  return job;
}

SlurmJob five_trials() {
  SlurmJob job;
  job.name = "a 100% sweep";
  job.missing = 5;
  job.cpus = 3;
  job.command = {"/bin/normlab", "run", "it's.json", "--set", "train.epochs=2"};
  job.trials_per_task = 2;
  return job;
}

}  // namespace

TEST_CASE("slurm: the number of tasks follows from the trials of a task") {
  SlurmJob job = sixty_trials();
  CHECK(slurm_tasks(job) == 60);
  job.trials_per_task = 7;
  CHECK(slurm_tasks(job) == 9);
}

TEST_CASE("slurm: there are no more tasks than trials") {
  SlurmJob job = sixty_trials();
  job.trials_per_task = 7;
  job.tasks = 100;
  CHECK(slurm_tasks(job) == 60);
}

TEST_CASE("slurm: the time limit grows with the trials of a task") {
  SlurmJob job = sixty_trials();
  CHECK(slurm_minutes(job) == 10 + 20);
  job.trials_per_task = 7;
  CHECK(slurm_minutes(job) == 10 + 7 * 20);
  job.tasks = 8;
  CHECK(slurm_minutes(job) == 10 + 8 * 20);
  job.time_factor = 1.01;
  CHECK(slurm_minutes(job) == 10 + 81);
}

TEST_CASE("slurm: the script quotes names for the shell") {
  const std::string script = slurm_script(five_trials());
  CHECK(has(script, "\n#SBATCH --job-name=a_100__sweep\n"));
  CHECK(has(script, "\n#SBATCH --output=a_100__sweep-%A_%a.log\n"));
  CHECK(has(
      script,
      "\n/bin/normlab run 'it'\\''s.json' --set train.epochs=2 --workers 1 --threads 3 --no-wait --max-trials 2 &\n"));
}

TEST_CASE("slurm: the script asks for an array of tasks that Slurm may requeue") {
  const std::string script = slurm_script(five_trials());
  CHECK(script.find("#!/bin/bash\n") == 0);
  CHECK(has(script, "\n#SBATCH --array=0-2\n"));
  CHECK(has(script, "\n#SBATCH --cpus-per-task=3\n"));
  CHECK(has(script, "\n#SBATCH --requeue\n"));
  CHECK(has(script, "\n#SBATCH --signal=B:USR1@120\n"));
  CHECK(has(script, "scontrol requeue \"${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}\""));
}

TEST_CASE("slurm: with a number of tasks a task has no limit of trials") {
  SlurmJob job = five_trials();
  job.tasks = 2;
  CHECK(slurm_script(job).find("--max-trials") == std::string::npos);
}

TEST_CASE("slurm: other schedulers get a command line per task, each with its share") {
  SlurmJob job;
  job.command = {"normlab", "run", "my sweep.json"};
  job.missing = 5;
  job.trials_per_task = 2;
  job.cpus = 4;
  CHECK(task_commands(job) ==
        "normlab run 'my sweep.json' --workers 1 --threads 4 --share 1/3\n"
        "normlab run 'my sweep.json' --workers 1 --threads 4 --share 2/3\n"
        "normlab run 'my sweep.json' --workers 1 --threads 4 --share 3/3\n");
}
