// Whole steps, and how their time divides among operations.
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/backend.h"
#include "core/error.h"
#include "core/trial_stack.h"
#include "cuda/backend.h"
#include "experiments/lab/bench/cases.h"
#include "experiments/lab/bench/shapes.h"
#include "experiments/lab/train/stored_features.h"
#include "nn/model/model.h"
#include "nn/training/fitting_batch.h"

namespace normlab {
namespace {

std::vector<std::string> all_but_the_head(const ModelConfig& config) {
  ParameterSet set;
  make_model(set, config);
  std::vector<std::string> names;
  for (const ParameterInfo& p : set.parameters())
    if (p.role != Role::head && p.role != Role::head_dist) names.push_back(p.name);
  return names;
}

double step_on_features(BenchEngine& bench, double seconds) {
  std::vector<double> values;
  bench.engine->features(bench.images, values);
  const std::int64_t n = bench.images.shape()[0];
  StoredFeatures features(n, std::int64_t(values.size()) / n, bench.engine->dtype());
  features.put(0, values);
  const auto step = [&] { bench.engine->train_step(features.all(), bench.labels); };
  step();
  return median(call_times(seconds, 3, step));
}

/// Each operand and result counts once.
double bytes_of_step(BenchEngine& bench) {
  bench.engine->set_profiling(true);
  bench.step();
  double bytes = 0;
  const Profile profile = bench.engine->profile();
  for (const OpTime& op : profile.times()) bytes += op.bytes;
  return bytes;
}

Measured measure(const BenchOptions& o, Backend& backend, const ModelConfig& config, const EngineSettings& cut,
                 const BenchShape& s) {
  std::optional<Roofline> limits;
  const auto measure_limits = [&] {
    ShardPool pool(o.on_gpu() ? 1 : o.threads);
    limits = o.measured_roofline(backend, pool);
  };
  if (o.on_gpu()) measure_limits();  // first: the network may leave no memory for it
  BenchEngine bench(backend, config, cut, o.threads);
  for (int warmup = 0; warmup < 3; ++warmup) bench.step();
  const std::vector<double> times = call_times(o.seconds, 3, [&] { bench.step(); });
  const double step = median(times);
  // The backward pass costs twice the forward's products. Frozen layers have none.
  const double flops = (o.frozen ? 1 : 3) * 2 * double(model_cost(config).macs) * double(s.batch);
  const std::size_t standing = standing_bytes(backend, config, cut, bench.engine->parameters().lanes());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  Json document{{"shape", o.shape},
                {"device", device_words(backend)},
                {"precision", o.precision},
                {"placement", o.placement},
                {"drop_path", o.drop_path},
                {"forms", o.forms()},
                {"images_per_second", rounded(double(s.batch) / step, 1)},
                {"peak_mb", std::llround(double(usage.ru_maxrss) / 1024)},
                {"network_mb", rounded(double(bench.engine->arena_bytes() + standing) / (1 << 20), 1)},
                {"gflops", rounded(flops / step * 1e-9, 1)},
                {"threads", o.threads},
                {"steps", times.size()},
                {"batch", s.batch},
                {"depth", s.depth},
                {"step_ms", rounded(1e3 * step, 4)}};
  if (o.with_roofline && !limits) measure_limits();  // last: keeps the peak memory that of the network
  if (o.frozen) {
    const auto step_ms = [&](double images_per_second) {
      return rounded(1e3 * double(s.batch) / images_per_second, 4);
    };
    EngineSettings unfrozen = cut;
    unfrozen.freeze = {};
    document.update(Json{{"frozen", true},
                         {"inference_ms", step_ms(inference_speed(backend, o.threads, config, cut, o.seconds))},
                         {"whole_ms", step_ms(training_speed(backend, o.threads, config, unfrozen, o.seconds))},
                         {"on_features_ms", rounded(1e3 * step_on_features(bench, o.seconds), 4)}});
  }
  if (limits) {
    const double bytes = bytes_of_step(bench), products_ms = 1e3 * flops / limits->flops_per_second,
                 bytes_ms = 1e3 * bytes / limits->bytes_per_second;
    document.update(Json{{"roofline", roofline_json(*limits)},
                         {"bytes", bytes},
                         {"products_bound_ms", rounded(products_ms, 4)},
                         {"bytes_bound_ms", rounded(bytes_ms, 4)},
                         {"share", rounded(std::max(products_ms, bytes_ms) / (1e3 * step), 4)}});
  }
  return {std::move(document), o.threads};
}

/// Steps of networks that are trained together, with their uploads.
Measured measure_stack(const BenchOptions& o, const ModelConfig& config, const EngineSettings& cut) {
  const auto stack = make_cuda_stack(o.stack);
  std::vector<std::unique_ptr<BenchEngine>> networks;
  try {
    for (int i = 0; i < o.stack; ++i) {
      const ComputeDevice place(stack->backend(i), o.algorithms);
      networks.push_back(std::make_unique<BenchEngine>(place.backend(), config, cut, 1));
    }
    const auto step = [&] { stack->run([&](int i) { networks[static_cast<std::size_t>(i)]->step(); }); };
    for (int warmup = 0; warmup < 5; ++warmup) step();
    const std::vector<double> times = call_times(o.seconds, 3, step);
    return {{{"shape", o.shape},
             {"device", device_words(stack->backend(0))},
             {"precision", o.precision},
             {"placement", o.placement},
             {"stack", o.stack},
             {"images_per_second", rounded(double(o.stack) * double(cut.max_batch) / median(times), 1)},
             {"steps", times.size()},
             {"batch", cut.max_batch},
             {"step_ms", rounded(1e3 * median(times), 4)}},
            1};
  } catch (const DeviceMemoryError& error) {
    throw_stack_too_large(error, stack->backend(0), o.stack);
  }
}

}  // namespace

Measured bench_step(const BenchOptions& o) {
  if (o.stack > 1 && !o.on_gpu())
    throw InputError(concat("--stack ", o.stack, ": networks are trained together on a GPU; add --device cuda"));
  if (o.stack > 1 && o.frozen) throw InputError("--stack: does not measure --frozen; leave one of them out");
  std::optional<ComputeDevice> alone;
  if (o.stack == 1) alone.emplace(o.device, o.algorithms);
  BenchShape s = bench_shape(o.shape);
  if (o.batch > 0) s.batch = o.batch;
  if (o.depth > 0) s.depth = o.depth;
  const ModelConfig config = o.in_forms(bench_model(s, o.placement));
  if (const auto* swin = std::get_if<SwinConfig>(&config); swin && swin->depth() != s.depth)
    throw InputError(concat("--depth: ", s.swin, " has a depth per stage; leave --depth out"));
  EngineSettings cut = o.settings(s.batch);
  cut.images_per_shard = o.images_per_shard;
  if (o.frozen) cut.freeze = all_but_the_head(config);
  if (!alone) return measure_stack(o, config, cut);
  try {
    return measure(o, alone->backend(), config, cut, s);
  } catch (const DeviceMemoryError& error) {
    throw_step_too_large(error, alone->backend(), o.threads, config, cut, {"--batch", ""});
  }
}

Measured bench_profile(const BenchOptions& o) {
  const ComputeDevice computer(o.device, o.algorithms);
  const BenchShape& s = bench_shape(o.shape);
  const ModelConfig config = o.in_forms(bench_model(s, o.placement));
  std::optional<Roofline> limits;  // first, since its memory is freed
  if (o.wants_roofline()) {
    ShardPool pool(1);
    limits = o.measured_roofline(computer.backend(), pool);
  }
  const std::int64_t images = o.batch > 0 ? o.batch : s.batch;
  // One thread, so that times exclude waiting.
  BenchEngine bench(computer.backend(), config, o.settings(images), 1);
  for (int i = 0; i < 3; ++i) bench.step();
  const auto timed_steps = [&] { return call_times(o.seconds, 3, [&] { bench.step(); }); };
  const std::vector<double> as_trained = o.on_gpu() ? timed_steps() : std::vector<double>();
  bench.engine->set_profiling(true);
  const std::vector<double> step_times = timed_steps();
  const int steps = static_cast<int>(step_times.size());
  const double total =
      o.on_gpu() ? steps * median(as_trained) : std::accumulate(step_times.begin(), step_times.end(), 0.0);
  std::vector<OpTime> times = bench.engine->profile().times();
  std::sort(times.begin(), times.end(), [](const OpTime& a, const OpTime& b) { return a.seconds > b.seconds; });
  Json document{{"shape", o.shape},
                {"device", device_words(computer.backend())},
                {"precision", o.precision},
                {"placement", o.placement},
                {"batch", images},
                {"steps", steps},
                {"step_ms", rounded(1e3 * total / steps, 4)}};
  if (limits) document["roofline"] = roofline_json(*limits);
  Json& rows = document["operations"] = Json::array();
  double in_ops = 0, floor = 0, flops = 0, bytes = 0;
  for (const OpTime& t : times) {
    in_ops += t.seconds, flops += t.flops, bytes += t.bytes;
    Json row{{"operation", t.op},
             {"direction", t.backward ? "backward" : "forward"},
             {"calls", t.calls / steps},
             {"launches", t.launches / steps},
             {"ms", rounded(1e3 * t.seconds / steps, 5)},
             {"share_of_step", rounded(t.seconds / total, 4)},
             {"flops", t.flops / steps},
             {"bytes", t.bytes / steps}};
    if (limits) {
      const double least = limits->bound(t.flops, t.bytes);
      floor += least;
      row["bound_ms"] = rounded(1e3 * least / steps, 5);
      row["share"] = rounded(least / t.seconds, 4);
    }
    if (!o.on_gpu()) row.erase("launches");  // a kernel is a function
    rows.push_back(std::move(row));
  }
  const double ms = 1e3 / steps;
  // On a GPU the step is timed without the events that lengthen the operations.
  if (!o.on_gpu()) document["rest_ms"] = rounded(ms * (total - in_ops), 5);
  if (limits)
    for (const auto& [name, least] : {std::pair("bound", limits->bound(flops, bytes)), std::pair("floor", floor)})
      document.update(
          Json{{concat(name, "_ms"), rounded(ms * least, 4)}, {concat(name, "_share"), rounded(least / total, 4)}});
  Json text{{"step_ms", fmt::format("{:.4g}, all operations {:.4g}", ms * total, ms * in_ops)}};
  if (o.on_gpu()) {  // 80 columns have no room for both
    Json& narrow = text["operations"] = document["operations"];
    for (Json& row : narrow) row.erase("calls");
  }
  return {std::move(document), 1, std::move(text)};
}

}  // namespace normlab
