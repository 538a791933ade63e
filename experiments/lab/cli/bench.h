// The measurements of `normlab bench`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "experiments/lab/base/machine_load.h"
#include "experiments/lab/bench/measure.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/device_option.h"
#include "experiments/lab/sweep/runner.h"
#include "nn/model/model_config.h"
#include "nn/training/train_settings.h"

namespace normlab {

void add_bench_step(Command& bench);
void add_bench_profile(Command& bench);
void add_bench_gemm(Command& bench);
void add_bench_attention(Command& bench);
void add_bench_norms(Command& bench);
void add_bench_models(Command& bench);
void add_bench_data(Command& bench);
void add_bench_update(Command& bench);
void add_bench_sweep(Command& bench);
void add_bench_intervals(Command& bench);

using Json = nlohmann::ordered_json;

/// Options of the measurements. Each adds those that it reads, with its own defaults.
struct BenchOptions {
  std::string shape = "micro", precision = "fp32", placement = "pre_pre", format = "text";
  int threads = available_cores();
  double seconds = 5.0;
  DeviceKind device = DeviceKind::cpu;
  double drop_path = 0;
  bool full_forms = false;     // the model's short_forms is off
  bool with_roofline = false;  // always measured on a GPU; on the CPU only if set

  void add_shape(Command& command);
  void add_network(Command& command);  // shape, precision and placement
  void add_precision(Command& command);
  void add_forms(Command& command);  // drop-path and --full-forms
  void add_roofline(Command& command);
  void add_threads(Command& command);
  void add_seconds(Command& command, const char* what = "seconds to measure");
  void add_format(Command& command);
  bool on_gpu() const { return device != DeviceKind::cpu; }
  bool json() const { return format == "json"; }
  const char* forms() const { return full_forms ? "full" : "short"; }
  EngineSettings settings(std::int64_t batch) const;  // for steps of `batch` images in that precision
  ModelConfig in_forms(ModelConfig config) const;     // with the settings of add_forms()
  DType dtype() const { return dtype_of(settings(1).precision); }
  /// EnvironmentError if the device lacks instructions for products in that precision.
  Backend& with_products(Backend& backend) const;
  bool wants_roofline() const { return with_roofline || on_gpu(); }
  /// Ends every measurement; returns the exit code. JSON: prints `document` with "load": 0.01, "publishable": true,
  /// "note": "" appended; `one_line` is for files of many documents. Text: a line on standard error if the figures
  /// are not worth publishing.
  int end(Json document, const LoadMeter& meter, int of_threads, bool one_line = false) const;
  /// In that precision, with all threads.
  Roofline measured_roofline(Backend& backend, ShardPool& pool) const;
};

/// To `digits` decimal places, as in the text.
double rounded(double value, int digits);
Json roofline_json(const Roofline& roofline);
/// "copies 4.21 TB/s, products 712 TFLOP/s"
std::string roofline_words(const Roofline& roofline);
/// "712 G", "1.21 T": three digits.
std::string scaled(double value);

/// "cpu", or the GPU's name.
std::string device_words(const Backend& backend);

/// "1 thread", "2 threads".
std::string threads_words(int threads);

}  // namespace normlab
