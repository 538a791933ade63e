// The measurements of `normlab bench` as a table of cases. Each measures and returns a document, which print.h writes as
// text; the command line adds the options that a case names.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/lab/bench/measure.h"
#include "experiments/lab/sweep/runner.h"
#include "nn/model/model_config.h"
#include "nn/training/train_settings.h"

namespace normlab {

using Json = nlohmann::ordered_json;

/// What a case can be told. norm_rows: shapes and kinds of norm, or a published table. op_sizes: --tokens, --heads and
/// --head-dim. tune: --tune and a descriptor. model_batch: --batch of at least two images. forms: drop-path and --full-forms. cpu_only: a --device
/// that refuses the GPU.
enum class BenchOption {
  shape,
  precision,
  placement,
  forms,
  threads,
  device,
  stack,
  algorithms,
  tune,
  cpu_only,
  batch,
  model_batch,
  depth,
  images_per_shard,
  frozen,
  roofline,
  op_sizes,
  ops,
  norm_rows,
  models,
  image,
  folder,
  size,
  lanes,
  descriptor,
  workers,
  rows,
  seeds,
  sweeps,
  pairs,
  seconds
};

/// The values of the options. 0 and empty lists: the case's or the shape's own.
struct BenchOptions {
  std::string shape = "micro", precision = "fp32", placement = "pre_pre", folder = {}, table = {};
  std::vector<std::string> shapes{"65x768",        "4096x4096",     "8320x192",   "128x56x56x96",
                                  "128x28x28x192", "128x14x14x384", "128x7x7x768"};
  std::vector<std::string> norms{}, formulas{}, ops{}, models{"swin_t", "swin_s", "swin_b", "deit_s"};
  int threads = available_cores(), workers = 0, stack = 1;
  double seconds = 5.0, drop_path = 0;
  DeviceKind device = DeviceKind::cpu;
  std::int64_t batch = 0, depth = 0, images_per_shard = 0, tokens = 0, heads = 0, head_dim = 0, image = 224, size = 224,
               lanes = 1;
  int rows = 11, sweeps = 10'000;
  std::vector<std::int64_t> seeds{3, 4, 5, 10};
  bool pairs = false;          // of rows, not gains
  bool full_forms = false;     // the model's short_forms is off
  bool with_roofline = false;  // always measured on a GPU; on the CPU only if set
  bool frozen = false;         // all but the head
  ProductAlgorithms algorithms{};
  std::string tune = {};  // a file for the fastest algorithms; empty: products are timed as they are
  const Experiment* experiment = nullptr;
  std::optional<std::filesystem::path> data{};

  bool on_gpu() const { return device != DeviceKind::cpu; }
  const char* forms() const { return full_forms ? "full" : "short"; }
  EngineSettings settings(std::int64_t images) const;  // for steps of so many images in that precision
  ModelConfig in_forms(ModelConfig config) const;      // with drop-path and full forms
  DType dtype() const { return dtype_of(settings(1).precision); }
  /// EnvironmentError if the device lacks instructions for products in that precision.
  Backend& with_products(Backend& backend) const { return in_precision(backend, settings(1).precision); }
  bool wants_roofline() const { return with_roofline || on_gpu(); }
  /// In that precision, with all threads of `pool`.
  Roofline measured_roofline(Backend& backend, ShardPool& pool) const;
};

struct Measured {
  Json document = {};           // what --format json prints; other programs read its keys
  int threads = 0;              // that were busy; 0: no time was measured
  Json text = Json::object();   // for the text alone: replaces values of the document, or follows them
  int exit_code = 0;            // another one ends the command without output
  std::string algorithms = {};  // for the file of BenchOptions::tune
};

using Measurement = Measured(const BenchOptions& options);

struct BenchCase {
  const char *name, *what;
  const char* note;  // what the columns mean, for the help and the text
  std::vector<const char*> examples;
  std::vector<BenchOption> options;
  BenchOptions defaults;
  Measurement* measure;
  bool one_line = false;  // JSON for files of many documents
};
const std::vector<BenchCase>& bench_cases();

// How often the intervals of many_to_one() and all_pairs() hold where the rows of a strip are not equally noisy.

/// A strip of rows without true gains and a baseline, seeds as blocks. Runs have the sd 1, those of the first
/// `noisy_rows` rows and of a noisy baseline the sd `times`.
struct SimulatedStrip {
  std::size_t rows = 11, seeds = 5;
  std::size_t noisy_rows = 0;
  bool noisy_baseline = false;
  double times = 1;
  bool pairs = false;  // every two of the rows and the baseline are compared
};

struct SimulatedIntervals {
  double coverage = 0;  // share of the sweeps in which all intervals of the strip hold
  double width = 0;     // mean half width of gains or pairs of rows that are not noisy, over their true standard errors
};

/// Over `sweeps` drawn from the normal distribution: the same numbers for the same arguments.
SimulatedIntervals simulated_intervals(const SimulatedStrip& strip, std::size_t sweeps);

/// The width of intervals that assume equal spreads, Dunnett's (JASA 50, 1955) or for pairs Tukey's, where they cover 95%
/// of these sweeps. The strip has no noisy row.
double simulated_equal_width(const SimulatedStrip& strip, std::size_t sweeps);

/// To `digits` decimal places.
double rounded(double value, int digits);
Json roofline_json(const Roofline& roofline);
/// "cpu", or the GPU's name.
std::string device_words(const Backend& backend);
/// `bench gemm --tune`.
Measured tuned_products(const BenchOptions& options);
/// What `bench norms` and `bench models` know, by their words on the command line.
std::vector<std::string> bench_norm_words();
std::vector<std::string> bench_model_words();
/// The rows of network_ops().
std::vector<std::string> bench_op_words();

Measurement bench_step, bench_profile, bench_gemm, bench_ops, bench_norms, bench_models, bench_data, bench_update,
    bench_sweep, bench_intervals;

}  // namespace normlab
