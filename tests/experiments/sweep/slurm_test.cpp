#include "experiments/sweep/slurm.h"

#include <doctest/doctest.h>

using namespace normlab;

TEST_CASE("slurm: tasks, trials of a task and the time limit") {
  SlurmJob job;
  job.missing = 60;
  job.trial_seconds = 600;
  CHECK(slurm_tasks(job) == 60);
  CHECK(slurm_minutes(job) == 10 + 20);
  job.trials_per_task = 7;
  CHECK(slurm_tasks(job) == 9);
  CHECK(slurm_minutes(job) == 10 + 7 * 20);
  job.tasks = 100;
  CHECK(slurm_tasks(job) == 60);
  job.tasks = 8;
  CHECK(slurm_minutes(job) == 10 + 8 * 20);
  job.time_factor = 1.01;
  CHECK(slurm_minutes(job) == 10 + 81);
}

TEST_CASE("slurm: the script names what a shell must not read") {
  SlurmJob job;
  job.name = "a 100% sweep";
  job.missing = 5;
  job.cpus = 3;
  job.command = {"/bin/normlab", "run", "it's.json", "--set", "train.epochs=2"};
  job.trials_per_task = 2;
  const std::string script = slurm_script(job);
  const auto has = [&](const std::string& text) { return script.find(text) != std::string::npos; };
  CHECK(script.find("#!/bin/bash\n") == 0);
  CHECK(has("\n#SBATCH --job-name=a_100__sweep\n"));
  CHECK(has("\n#SBATCH --output=a_100__sweep-%A_%a.log\n"));
  CHECK(has("\n#SBATCH --array=0-2\n"));
  CHECK(has("\n#SBATCH --cpus-per-task=3\n"));
  CHECK(has("\n#SBATCH --requeue\n"));
  CHECK(has("\n#SBATCH --signal=B:USR1@120\n"));
  CHECK(has(
      "\n/bin/normlab run 'it'\\''s.json' --set train.epochs=2 --workers 1 --threads 3 --no-wait --max-trials 2 &\n"));
  CHECK(has("scontrol requeue \"${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}\""));
  job.tasks = 2;
  CHECK(slurm_script(job).find("--max-trials") == std::string::npos);
}
