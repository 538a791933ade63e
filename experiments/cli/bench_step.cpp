// Measured speed of whole optimisation steps, on made-up images: no data set, nothing but forward, backward, clip and
// update.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "experiments/cli/bench.h"
#include "experiments/cli/bench_shapes.h"

namespace normlab {
namespace {

struct BenchStep : BenchOptions {
  std::int64_t batch = 0, depth = 0, images_per_shard = 0;  // 0: the shape's, and by the rule

  int operator()() const {
    const ComputeDevice computer(device);
    BenchShape s = bench_shape(shape);
    if (batch > 0) s.batch = batch;
    if (depth > 0) s.depth = depth;
    const ModelConfig config = bench_model(s, placement);
    EngineSettings cut = settings(s.batch);
    cut.images_per_shard = images_per_shard;
    try {
      measure(computer.backend(), config, cut, s);
    } catch (const DeviceMemoryError& error) {
      throw_step_too_large(error, computer.backend(), threads, config, cut, {"--batch", ""});
    }
    return 0;
  }

 private:
  void measure(Backend& backend, const ModelConfig& config, const EngineSettings& cut, const BenchShape& s) const {
    BenchEngine bench(backend, config, cut, threads);

    using Clock = std::chrono::steady_clock;
    constexpr int kWarmup = 3;
    const int together = on_gpu() ? 10 : 1;  // that no step waits for, where the host may run ahead
    const auto steps = [&](int count) {
      for (int step = 0; step < count; ++step) bench.step();
      backend.synchronize();
    };
    steps(kWarmup);
    std::vector<double> times;
    double total = 0.0;
    const LoadMeter meter;
    while (total < seconds || times.size() < 3) {
      const Clock::time_point begin = Clock::now();
      steps(together);
      times.push_back(std::chrono::duration<double>(Clock::now() - begin).count() / together);
      total += times.back() * together;
    }
    const std::string load = load_json(meter, threads);
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    const double median = times[times.size() / 2], rate = double(s.batch) / median;
    // Backward costs twice the forward's products.
    const double gflops = 3 * 2 * double(model_cost(config).macs) * rate * 1e-9;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const double peak_mb = double(usage.ru_maxrss) / 1024;
    if (json()) {
      fmt::print(
          "{{\"shape\": \"{}\", \"device\": \"{}\", \"precision\": \"{}\", \"placement\": \"{}\", "
          "\"images_per_second\": {:.1f}, "
          "\"peak_mb\": {:.0f}, \"gflops\": {:.1f}, \"threads\": {}, \"steps\": {}, \"batch\": {}, \"depth\": {}, "
          "\"step_ms\": {:.3f}, {}}}\n",
          shape, device_words(backend), precision, placement, rate, peak_mb, gflops, threads,
          times.size() * static_cast<std::size_t>(together), s.batch, s.depth, 1e3 * median, load);
    } else {
      fmt::print(
          "{}{} {} {}: images_per_second {:.1f}  peak_mb {:.0f}  gflops {:.1f}  threads {}  batch {}  depth {}  "
          "step_ms "
          "{:.3f}  (median of {} steps)\n",
          on_gpu() ? device_words(backend) + ", " : "", shape, precision, placement, rate, peak_mb, gflops, threads,
          s.batch, s.depth, 1e3 * median, times.size() * static_cast<std::size_t>(together));
      warn_of_load(meter, threads);
    }
  }
};

}  // namespace

void add_bench_step(CLI::App& bench, Action& action) {
  auto step = std::make_shared<BenchStep>();
  CLI::App& command = *bench.add_subcommand("step", "optimisation steps: forward, backward, clip, AdamW");
  step->add_network(command);
  step->add_threads(command);
  add_device(command, step->device);
  command.add_option("--batch", step->batch, "images a step (default: the shape's)")->check(CLI::Range(1, 1 << 20));
  command.add_option("--depth", step->depth, "blocks (default: the shape's)")->check(CLI::Range(1, 1 << 10));
  command.add_option("--images-per-shard", step->images_per_shard, "how a batch is cut; 0: by the rule")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  step->add_seconds(command);
  step->add_format(command);
  command.callback([step, &action] { action = [step] { return (*step)(); }; });
}

}  // namespace normlab
