#include "experiments/cli/bench.h"

#include <fmt/format.h>

#include "experiments/sweep/runner.h"

namespace normlab {
namespace {
std::string note_of(const std::optional<MachineLoad>& load, int threads) {
  return publishing_note(load, {threads, available_cores(), openblas_variables_kept()});
}
}  // namespace

std::string load_json(const LoadMeter& meter, int threads) {
  const std::optional<MachineLoad> load = meter.load();
  const std::string note = note_of(load, threads);
  return fmt::format("\"load\": {}, \"publishable\": {}, \"note\": \"{}\"",
                     load ? fmt::format("{:.2f}", load->others) : "null", note.empty(), note);
}

void warn_of_load(const LoadMeter& meter, int threads) {
  const std::string note = note_of(meter.load(), threads);
  if (!note.empty()) fmt::print(stderr, "not worth publishing: {}\n", note);
}

void add_bench(CLI::App& app, Action& action) {
  CLI::App& bench = *app.add_subcommand("bench", "measure speed on this machine");
  bench.require_subcommand(1);
  add_bench_step(bench, action);
  add_bench_profile(bench, action);
  add_bench_gemm(bench, action);
  add_bench_norms(bench, action);
}

}  // namespace normlab
