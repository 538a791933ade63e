#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "experiments/lab/base/terminal.h"
#include "experiments/lab/bench/shapes.h"
#include "experiments/lab/cli/bench.h"
#include "experiments/lab/train/stored_features.h"
#include "nn/model/model.h"
#include "nn/training/fitting_batch.h"

namespace normlab {
namespace {

struct BenchStep : BenchOptions {
  std::int64_t batch = 0, depth = 0, images_per_shard = 0;  // 0: the shape's, and the default rule for shards
  bool frozen = false;                                      // all but the head

  int operator()() const {
    const ComputeDevice computer(device);
    BenchShape s = bench_shape(shape);
    if (batch > 0) s.batch = batch;
    if (depth > 0) s.depth = depth;
    const ModelConfig config = in_forms(bench_model(s, placement));
    if (const auto* swin = std::get_if<SwinConfig>(&config); swin && swin->depth() != s.depth)
      throw InputError(concat("--depth: ", s.swin, " has a depth per stage; leave --depth out"));
    EngineSettings cut = settings(s.batch);
    cut.images_per_shard = images_per_shard;
    if (frozen) cut.freeze = all_but_the_head(config);
    try {
      return measure(computer.backend(), config, cut, s);
    } catch (const DeviceMemoryError& error) {
      throw_step_too_large(error, computer.backend(), threads, config, cut, {"--batch", ""});
    }
  }

 private:
  static std::vector<std::string> all_but_the_head(const ModelConfig& config) {
    ParameterSet set;
    make_model(set, config);
    std::vector<std::string> names;
    for (const ParameterInfo& p : set.parameters())
      if (p.role != Role::head && p.role != Role::head_dist) names.push_back(p.name);
    return names;
  }

  int measure(Backend& backend, const ModelConfig& config, const EngineSettings& cut, const BenchShape& s) const {
    std::optional<Roofline> limits;
    const auto measure_limits = [&] {
      ShardPool pool(on_gpu() ? 1 : threads);
      limits = measured_roofline(backend, pool);
    };
    if (on_gpu()) measure_limits();  // first: the network may leave no memory for it
    BenchEngine bench(backend, config, cut, threads);

    constexpr int kWarmup = 3;
    for (int step = 0; step < kWarmup; ++step) bench.step();
    const LoadMeter meter;
    const std::vector<double> times = call_times(seconds, 3, [&] { bench.step(); });
    const double step = median(times), rate = double(s.batch) / step;
    // The backward pass costs twice the forward's products. Frozen layers have none.
    const double flops = (frozen ? 1 : 3) * 2 * double(model_cost(config).macs) * double(s.batch);
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const double peak_mb = double(usage.ru_maxrss) / 1024;
    const double device_mb = double(bench.engine->arena_bytes() + standing_bytes(config, cut)) / (1 << 20);
    if (with_roofline && !limits) measure_limits();  // last: keeps the peak memory that of the network
    const double inference = frozen ? double(s.batch) / inference_speed(backend, threads, config, cut, seconds) : 0;
    EngineSettings unfrozen = cut;
    unfrozen.freeze = {};
    const double whole = frozen ? double(s.batch) / training_speed(backend, threads, config, unfrozen, seconds) : 0,
                 on_features = frozen ? step_on_features(bench) : 0;
    const double bytes = limits ? bytes_of_step(bench) : 0;
    const double products_ms = limits ? 1e3 * flops / limits->flops_per_second : 0,
                 bytes_ms = limits ? 1e3 * bytes / limits->bytes_per_second : 0,
                 share = std::max(products_ms, bytes_ms) / (1e3 * step);
    if (json()) {
      Json document{{"shape", shape},
                    {"device", device_words(backend)},
                    {"precision", precision},
                    {"placement", placement},
                    {"drop_path", drop_path},
                    {"forms", forms()},
                    {"images_per_second", rounded(rate, 1)},
                    {"peak_mb", std::llround(peak_mb)},
                    {"network_mb", rounded(device_mb, 1)},
                    {"gflops", rounded(flops / step * 1e-9, 1)},
                    {"threads", threads},
                    {"steps", times.size()},
                    {"batch", s.batch},
                    {"depth", s.depth},
                    {"step_ms", rounded(1e3 * step, 4)}};
      if (frozen)
        document.update(Json{{"frozen", true},
                             {"inference_ms", rounded(1e3 * inference, 4)},
                             {"whole_ms", rounded(1e3 * whole, 4)},
                             {"on_features_ms", rounded(1e3 * on_features, 4)}});
      if (limits)
        document.update(Json{{"roofline", roofline_json(*limits)},
                             {"bytes", bytes},
                             {"products_bound_ms", rounded(products_ms, 4)},
                             {"bytes_bound_ms", rounded(bytes_ms, 4)},
                             {"share", rounded(share, 4)}});
      return end(std::move(document), meter, threads, true);
    }
    print_text("{}{} {} {}: images_per_second {:.1f}  step_ms {:.3f}\n", on_gpu() ? device_words(backend) + "\n" : "",
               shape, precision, placement, rate, 1e3 * step);
    print_text("  gflops {:.1f}  peak_mb {:.0f}  threads {}  batch {}  depth {}  (median of {})\n", flops / step * 1e-9,
               peak_mb, threads, s.batch, s.depth, times.size());
    if (frozen)
      print_text("  all but the head frozen: {:.2f} times inference, which takes {:.3f} ms\n", step / inference,
                 1e3 * inference);
    if (frozen)
      print_text(
          "  on features computed once: {:.4f} ms, {:.0f} times as fast as training the whole network, {:.3f} ms\n",
          1e3 * on_features, whole / on_features, 1e3 * whole);
    if (limits)
      print_text(
          "  network_mb {:.0f}; {}\n  bounds: products {:.3f} ms, {}B {:.3f} ms; the longer is {:.0f}% of the step\n",
          device_mb, roofline_words(*limits), products_ms, scaled(bytes), bytes_ms, 100 * share);
    return end({}, meter, threads);
  }

  double step_on_features(BenchEngine& bench) const {
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
  static double bytes_of_step(BenchEngine& bench) {
    bench.engine->set_profiling(true);
    bench.step();
    double bytes = 0;
    const Profile profile = bench.engine->profile();
    for (const OpTime& op : profile.times()) bytes += op.bytes;
    return bytes;
  }
};

}  // namespace

void add_bench_step(Command& bench) {
  auto [command, step] =
      bench.add_command<BenchStep>("step", "measure optimisation steps: forward, backward, clipping, AdamW");
  step.add_network(command);
  step.add_forms(command);
  step.add_threads(command);
  add_device(command, step.device);
  command.add_option("--batch", step.batch, "images per step (default: the shape's)").range(1, 1 << 20);
  command.add_option("--depth", step.depth, "number of blocks (default: the shape's)").range(1, 1 << 10);
  command.add_number("--images-per-shard", step.images_per_shard,
                     "images per shard, the part of a batch that one thread computes; 0: chosen automatically", 0,
                     1 << 20);
  command.add_flag(
      "--frozen", step.frozen,
      "freeze all but the head; also measure inference, training on stored features, and the whole network");
  step.add_roofline(command);
  step.add_seconds(command);
  step.add_format(command);
  command.examples({"normlab bench step --shape tiny --threads 1", "normlab bench step --placement dpn --roofline"});
}

}  // namespace normlab
