// The measurements under `normlab bench`. Each adds itself; results go to standard output.
#pragma once

#include <string>

#include "experiments/cli/commands.h"
#include "experiments/cli/device_option.h"
#include "experiments/cli/machine_load.h"
#include "experiments/sweep/runner.h"
#include "nn/engine.h"

namespace normlab {

void add_bench_step(CLI::App& bench, Action& action);
void add_bench_profile(CLI::App& bench, Action& action);
void add_bench_gemm(CLI::App& bench, Action& action);
void add_bench_norms(CLI::App& bench, Action& action);
void add_bench_data(CLI::App& bench, Action& action);
void add_bench_update(CLI::App& bench, Action& action);

/// What the measurements share. Each adds those options that it reads, with the defaults that it sets.
struct BenchOptions {
  std::string shape = "micro", precision = "fp32", placement = "pre_pre", format = "text";
  int threads = available_cores();
  double seconds = 5.0;
  DeviceKind device = DeviceKind::cpu;

  void add_shape(CLI::App& command);
  void add_network(CLI::App& command);  // shape, precision and placement
  void add_threads(CLI::App& command);
  void add_seconds(CLI::App& command, const char* what = "how long to measure");
  void add_format(CLI::App& command);
  bool on_gpu() const { return device != DeviceKind::cpu; }
  bool json() const { return format == "json"; }
  EngineSettings settings(std::int64_t batch) const;  // for steps of `batch` images in that precision
};

/// The kind of a device in a line of results: "cpu", or the GPU's name.
std::string device_words(const Backend& backend);

/// What every measurement ends with. JSON: `"load": 0.01, "publishable": true, "note": ""`.
std::string load_json(const LoadMeter& meter, int threads);
/// One line on standard error where the figures are not worth publishing.
void warn_of_load(const LoadMeter& meter, int threads);

}  // namespace normlab
