// The measurements under `normlab bench`. Each adds itself; results go to standard output.
#pragma once

#include "experiments/cli/commands.h"

namespace normlab {

void add_bench_step(CLI::App& bench, Action& action);
void add_bench_profile(CLI::App& bench, Action& action);
void add_bench_gemm(CLI::App& bench, Action& action);
void add_bench_norms(CLI::App& bench, Action& action);

}  // namespace normlab
