#include "experiments/lab/cli/bench.h"

#include <fmt/core.h>

#include <cmath>

#include "core/backend.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/bench/shapes.h"

namespace normlab {
namespace {

std::string in_one_line(const Json& document) {
  std::string line;
  for (const char c : document.dump(0, ' ', false, Json::error_handler_t::replace))
    if (c != '\n')
      line += c;
    else if (line.back() == ',')
      line += ' ';
  return line;
}

}  // namespace

void BenchOptions::add_shape(Command& command) {
  command.add_choice("--shape", shape,
                     "size of the network; micro: 32 px, patch 4, width 64, depth 4; tiny: micro with width 192 and "
                     "depth 12; small: 224 px, patch 16, width 384, depth 12; s16: small with 256 images a batch; "
                     "deit_s: DeiT-S, 224 px; swin_t: Swin-T, 224 px; "
                     "dyt: 64 px, patch 8, width 768, depth 6",
                     bench_shape_names());
}

void BenchOptions::add_network(Command& command) {
  add_shape(command);
  add_precision(command);
  command.add_option("--placement", placement, "named placement of the norms, see `normlab explain --placements`")
      .show_default();
}

void BenchOptions::add_precision(Command& command) {
  command.add_choice("--precision", precision, "precision of the activations", words_of<Precision>());
}

void BenchOptions::add_forms(Command& command) {
  command
      .add_option("--drop-path", drop_path,
                  "drop-path rate of the last block; the rate rises linearly from 0 at the first")
      .range(0.0, 0.99);
  command.add_flag("--full-forms", full_forms,
                   "compute, as other programs do, what a network may skip: the branches of images that drop path "
                   "drops, and the last block's tokens other than the class token");
}

ModelConfig BenchOptions::in_forms(ModelConfig config) const {
  std::visit(
      [this](auto& c) {
        c.drop_path = drop_path;
        c.short_forms = !full_forms;
      },
      config);
  return config;
}

void BenchOptions::add_threads(Command& command) {
  command.add_number("--threads", threads, "how many cores to use at once", 1, 1024).show_default("all cores");
}

void BenchOptions::add_seconds(Command& command, const char* what) {
  command.add_option("--seconds", seconds, what).positive().show_default();
}

void BenchOptions::add_format(Command& command) {
  command.add_choice("--format", format, "output format", {"text", "json"});
}

EngineSettings BenchOptions::settings(std::int64_t batch) const {
  EngineSettings result;
  find_word(precision, result.precision);
  result.max_batch = batch;
  return result;
}

void BenchOptions::add_roofline(Command& command) {
  command.add_flag("--roofline", with_roofline,
                   "also measure how fast the CPU copies and multiplies, to compare with; a GPU is always measured");
}

Backend& BenchOptions::with_products(Backend& backend) const { return in_precision(backend, settings(1).precision); }

Roofline BenchOptions::measured_roofline(Backend& backend, ShardPool& pool) const {
  return measure_roofline(with_products(backend), pool, dtype(), roofline_sizes(on_gpu()));
}

int BenchOptions::end(Json document, const LoadMeter& meter, int of_threads, bool one_line) const {
  const std::optional<MachineLoad> load = meter.load();
  const std::string note = publishing_note(load, {of_threads, available_cores(), openblas_variables_kept()});
  if (!json()) {
    if (!note.empty()) tell("not worth publishing: {}\n", note);
    return 0;
  }
  document["load"] = load ? Json(rounded(load->others, 2)) : Json(nullptr);
  document["publishable"] = note.empty();
  document["note"] = note;
  print_bytes((one_line ? in_one_line(document) : document.dump(1, ' ', false, Json::error_handler_t::replace)) + "\n");
  return 0;
}

double rounded(double value, int digits) {
  const double scale = std::pow(10.0, digits);
  return std::round(value * scale) / scale;
}

Json roofline_json(const Roofline& roofline) {
  return {{"copy_gb_per_second", rounded(roofline.bytes_per_second * 1e-9, 2)},
          {"product_gflops", rounded(roofline.flops_per_second * 1e-9, 1)}};
}

std::string scaled(double value) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  std::size_t i = 0;
  for (; value >= 999.5 && i + 1 < std::size(kPrefixes); ++i) value *= 1e-3;
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, kPrefixes[i]);
}

std::string roofline_words(const Roofline& roofline) {
  return fmt::format("copies {}B/s, products {}FLOP/s", scaled(roofline.bytes_per_second),
                     scaled(roofline.flops_per_second));
}

std::string device_words(const Backend& backend) {
  const std::map<std::string, std::string> all = backend.provenance();
  const auto gpu = all.find("gpu");
  return gpu == all.end() ? backend.name() : gpu->second;
}

std::string threads_words(int threads) { return fmt::format("{} thread{}", threads, threads == 1 ? "" : "s"); }

void add_bench(Command& app) {
  Command bench = app.add_group("bench", "measure speed on this machine");
  add_bench_step(bench);
  add_bench_profile(bench);
  add_bench_gemm(bench);
  add_bench_attention(bench);
  add_bench_norms(bench);
  add_bench_models(bench);
  add_bench_data(bench);
  add_bench_update(bench);
  add_bench_sweep(bench);
  add_bench_intervals(bench);
  bench.examples({"normlab bench step --shape tiny", "normlab help bench step"});
}

}  // namespace normlab
