#include "experiments/cli/network_speed.h"

#include "experiments/cli/bench_measure.h"
#include "experiments/cli/bench_shapes.h"
#include "nn/fuse.h"
#include "nn/host_tensors.h"
#include "nn/init.h"
#include "nn/nonfinite.h"

namespace normlab {
namespace {

/// Images a second of `run`, which does `images` and ends by itself.
double speed(double seconds, std::int64_t images, const std::function<void()>& run) {
  constexpr int kWarmup = 2;
  for (int i = 0; i < kWarmup; ++i) run();
  std::vector<double> times;
  for (double total = 0; total < seconds || times.size() < 3; total += times.back()) {
    const BenchClock::time_point begin = BenchClock::now();
    run();
    times.push_back(seconds_since(begin));
  }
  return double(images) / median(std::move(times));
}

}  // namespace

double training_speed(Backend& backend, int threads, const ModelConfig& config, const EngineSettings& settings,
                      double seconds) {
  BenchEngine bench(backend, config, settings, threads);
  return speed(seconds, settings.max_batch, [&] { bench.step(); });
}

double inference_speed(Backend& backend, int threads, const ModelConfig& config, const EngineSettings& settings,
                       double seconds) {
  BenchEngine bench(backend, config, settings, threads);
  std::vector<double> losses(static_cast<std::size_t>(settings.max_batch));
  std::vector<std::int32_t> predictions(losses.size());
  return speed(seconds, settings.max_batch, [&] {
    if (const auto found = bench.engine->evaluate(bench.images, bench.labels, losses, predictions))
      throw NonFiniteError("bench: " + found->text(), found->value);
  });
}

ModelConfig fused_config(Backend& backend, const ModelConfig& config) {
  ParameterSet parameters(backend.memory());
  make_model(parameters, config);
  parameters.allocate(DType::f32, 1, false);
  backend.synchronize();
  initialise(parameters, config, 0);
  return fuse_batch_norms(config, host_tensors(parameters)).config;
}

}  // namespace normlab
