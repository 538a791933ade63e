// `normlab plan --slurm`: the array script for what is missing.
#pragma once

#include "experiments/cli/descriptor_options.h"
#include "experiments/cli/device_option.h"
#include "experiments/sweep/slurm.h"

namespace normlab {

struct PlanSlurm {
  bool wanted = false;
  std::size_t tasks = 0, trials_per_task = 0;
  double time_factor = 2, hours = 0;  // hours 0: by the estimate
  int cpus = 1;
  DeviceKind device = DeviceKind::cpu;

  void add_options(CLI::App& plan);
  /// Prints the script for the trials of `experiment` that have no result. `gflops`: of one core; 0: as measured.
  /// InputError where nobody knows how long a trial takes.
  int print(const Experiment& experiment, const DescriptorOptions& descriptor, double gflops) const;
};

}  // namespace normlab
