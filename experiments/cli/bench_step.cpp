// Measured speed of whole optimisation steps, on made-up images: no data set, nothing but forward, backward, clip and
// update.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "experiments/cli/bench.h"
#include "experiments/sweep/runner.h"
#include "nn/engine.h"
#include "nn/init.h"

namespace normlab {
namespace {

struct BenchShape {
  const char* name;
  std::int64_t image, patch, embed_dim, depth, heads, classes, batch;
};
constexpr BenchShape kShapes[] = {
    {"micro", 32, 4, 64, 4, 2, 10, 64},
    {"tiny", 32, 4, 192, 12, 3, 10, 128},
    {"small", 224, 16, 384, 12, 6, 1000, 32},
};

struct BenchStep {
  std::string shape = "micro", precision = "fp32", placement = "pre_pre", format = "text";
  int threads = available_cores();
  double seconds = 5.0;

  ViTConfig model(const BenchShape& s) const {
    ViTConfig c;
    c.image_size = {s.image, s.image};
    c.patch_size = s.patch;
    c.embed_dim = s.embed_dim;
    c.mlp_dim = 4 * s.embed_dim;
    c.depth = s.depth;
    c.num_heads = s.heads;
    c.num_classes = s.classes;
    const NamedPlacement* row = find_placement(placement);
    if (!row) throw InputError(fmt::format("--placement {}: no row of that name", placement));
    c.placement = row->placement;
    return c;
  }

  int operator()() const {
    const BenchShape& s =
        *std::find_if(std::begin(kShapes), std::end(kShapes), [&](const BenchShape& k) { return shape == k.name; });
    const ViTConfig config = model(s);
    EngineSettings settings;
    settings.dtype = precision == "fp32" ? DType::f32 : DType::bf16;
    settings.bf16_products = precision == "bf16_emulated" ? Bf16Products::emulated : Bf16Products::native;
    settings.max_batch = s.batch;
    ShardPool pool(threads);
    Engine engine(cpu_backend(), pool, config, settings);
    initialise(engine.parameters(), config, 0);

    Arena memory;
    const Tensor images = memory.empty({s.batch, s.image, s.image, 3}, settings.dtype);
    const Tensor labels = memory.empty({s.batch}, DType::i32);
    const StreamKey key = stream_key(0, "bench", "images");
    for (std::int64_t i = 0; i < images.size(); ++i) {
      const auto value = static_cast<float>(normal(key, static_cast<std::uint64_t>(i)));
      if (settings.dtype == DType::bf16)
        images.data<bf16>()[i] = bf16(value);
      else
        images.data<float>()[i] = value;
    }
    for (std::int64_t i = 0; i < s.batch; ++i)
      labels.data<std::int32_t>()[i] = static_cast<std::int32_t>(i % s.classes);
    engine.state().lr = 1e-3;
    engine.state().clip_norm = 1.0;

    using Clock = std::chrono::steady_clock;
    constexpr int kWarmup = 3;
    std::vector<double> times;
    double total = 0.0;
    for (int step = 0; total < seconds || times.size() < 3; ++step) {
      const Clock::time_point begin = Clock::now();
      engine.train_step(images, labels);
      const double t = std::chrono::duration<double>(Clock::now() - begin).count();
      if (step < kWarmup) continue;
      times.push_back(t);
      total += t;
    }
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    const double median = times[times.size() / 2], rate = double(s.batch) / median;
    // Backward costs twice the forward's products.
    const double gflops = 3 * 2 * double(model_cost(config).macs) * rate * 1e-9;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const double peak_mb = double(usage.ru_maxrss) / 1024;
    if (format == "json")
      fmt::print(
          "{{\"shape\": \"{}\", \"precision\": \"{}\", \"placement\": \"{}\", \"images_per_second\": {:.1f}, "
          "\"peak_mb\": {:.0f}, "
          "\"gflops\": {:.1f}, \"threads\": {}, \"steps\": {}}}\n",
          shape, precision, placement, rate, peak_mb, gflops, threads, times.size());
    else
      fmt::print(
          "{} {} {}: images_per_second {:.1f}  peak_mb {:.0f}  gflops {:.1f}  threads {}  (median of {} steps)\n",
          shape, precision, placement, rate, peak_mb, gflops, threads, times.size());
    return 0;
  }
};

}  // namespace

void add_bench_step(CLI::App& bench, Action& action) {
  auto step = std::make_shared<BenchStep>();
  CLI::App& command = *bench.add_subcommand("step", "optimisation steps: forward, backward, clip, AdamW");
  command
      .add_option("--shape", step->shape,
                  "micro: 32 px, patch 4, width 64, depth 4; tiny: 192, 12; small: 224 px, patch 16, 384, 12")
      ->check(CLI::IsMember({"micro", "tiny", "small"}))
      ->capture_default_str();
  command.add_option("--precision", step->precision, "of activations")
      ->check(CLI::IsMember({"fp32", "bf16", "bf16_emulated"}))
      ->capture_default_str();
  command.add_option("--placement", step->placement, "a named row")->capture_default_str();
  command.add_option("--threads", step->threads, "cores")->check(CLI::Range(1, 1024))->capture_default_str();
  command.add_option("--seconds", step->seconds, "how long to measure")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--format", step->format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command.callback([step, &action] { action = [step] { return (*step)(); }; });
}

}  // namespace normlab
