#include "experiments/cli/bench.h"

#include <fmt/format.h>

#include "experiments/cli/bench_shapes.h"

namespace normlab {
namespace {
std::string note_of(const std::optional<MachineLoad>& load, int threads) {
  return publishing_note(load, {threads, available_cores(), openblas_variables_kept()});
}
}  // namespace

void BenchOptions::add_shape(CLI::App& command) {
  command
      .add_option("--shape", shape,
                  "micro: 32 px, patch 4, width 64, depth 4; tiny: 192, 12; small: 224 px, patch 16, 384, 12; swin_t: "
                  "Swin-T, 224 px")
      ->check(CLI::IsMember(bench_shape_names()))
      ->capture_default_str();
}

void BenchOptions::add_network(CLI::App& command) {
  add_shape(command);
  command.add_option("--precision", precision, "of activations")
      ->check(CLI::IsMember({"fp32", "bf16", "bf16_emulated", "tf32"}))
      ->capture_default_str();
  command.add_option("--placement", placement, "a named row")->capture_default_str();
}

void BenchOptions::add_threads(CLI::App& command) {
  command.add_option("--threads", threads, "cores, all busy at once")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
}

void BenchOptions::add_seconds(CLI::App& command, const char* what) {
  command.add_option("--seconds", seconds, what)->check(CLI::PositiveNumber)->capture_default_str();
}

void BenchOptions::add_format(CLI::App& command) {
  command.add_option("--format", format, "text or json")->check(CLI::IsMember({"text", "json"}))->capture_default_str();
}

EngineSettings BenchOptions::settings(std::int64_t batch) const {
  EngineSettings result;
  result.dtype = precision == "fp32" || precision == "tf32" ? DType::f32 : DType::bf16;
  result.bf16_products = precision == "bf16_emulated" ? Bf16Products::emulated : Bf16Products::native;
  result.tf32 = precision == "tf32";
  result.max_batch = batch;
  return result;
}

std::string device_words(const Backend& backend) {
  const std::map<std::string, std::string> all = backend.provenance();
  const auto gpu = all.find("gpu");
  return gpu == all.end() ? backend.name() : gpu->second;
}

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
  add_bench_data(bench, action);
  add_bench_update(bench, action);
}

}  // namespace normlab
