// The measurements under `normlab bench`. Each adds itself; results go to standard output.
#pragma once

#include <string>

#include "experiments/cli/commands.h"
#include "experiments/cli/machine_load.h"

namespace normlab {

void add_bench_step(CLI::App& bench, Action& action);
void add_bench_profile(CLI::App& bench, Action& action);
void add_bench_gemm(CLI::App& bench, Action& action);
void add_bench_norms(CLI::App& bench, Action& action);

/// What every measurement ends with. JSON: `"load": 0.01, "publishable": true, "note": ""`.
std::string load_json(const LoadMeter& meter, int threads);
/// One line on standard error where the figures are not worth publishing.
void warn_of_load(const LoadMeter& meter, int threads);

}  // namespace normlab
