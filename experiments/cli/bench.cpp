#include "experiments/cli/bench.h"

namespace normlab {

void add_bench(CLI::App& app, Action& action) {
  CLI::App& bench = *app.add_subcommand("bench", "measure speed on this machine");
  bench.require_subcommand(1);
  add_bench_step(bench, action);
  add_bench_profile(bench, action);
  add_bench_gemm(bench, action);
  add_bench_norms(bench, action);
}

}  // namespace normlab
