#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "experiments/lab/base/terminal.h"
#include "experiments/lab/bench/shapes.h"
#include "experiments/lab/cli/bench.h"

namespace normlab {
namespace {

struct BenchProfile : BenchOptions {
  std::int64_t batch = 0;  // 0: the shape's
  BenchProfile() { shape = "tiny"; }

  int operator()() const {
    if (on_gpu()) setenv("NORMLAB_CUDA_SYNC", "1", 1);  // waits for each kernel; otherwise only launches are timed
    const ComputeDevice computer(device);
    const BenchShape& s = bench_shape(shape);
    const ModelConfig config = in_forms(bench_model(s, placement));
    std::optional<Roofline> limits;  // first, since its memory is freed
    if (wants_roofline()) {
      ShardPool pool(1);
      limits = measured_roofline(computer.backend(), pool);
    }
    const std::int64_t images = batch > 0 ? batch : s.batch;
    BenchEngine bench(computer.backend(), config, settings(images), 1);  // one thread, so that times exclude waiting
    for (int i = 0; i < 3; ++i) bench.step();
    bench.engine->set_profiling(true);
    const LoadMeter meter;
    const std::vector<double> step_times = call_times(seconds, 3, [&] { bench.step(); });
    const int steps = static_cast<int>(step_times.size());
    const double total = std::accumulate(step_times.begin(), step_times.end(), 0.0);
    std::vector<OpTime> times = bench.engine->profile().times();
    std::sort(times.begin(), times.end(), [](const OpTime& a, const OpTime& b) { return a.seconds > b.seconds; });
    const std::string conditions =
        on_gpu() ? device_words(computer.backend()) + ", waiting for each kernel" : "one thread";
    double in_ops = 0;
    for (const OpTime& t : times) in_ops += t.seconds;
    const double rest = total - in_ops;
    if (json()) {
      Json document{{"shape", shape},
                    {"device", device_words(computer.backend())},
                    {"precision", precision},
                    {"placement", placement},
                    {"batch", images},
                    {"steps", steps},
                    {"step_ms", rounded(1e3 * total / steps, 4)}};
      if (limits) document["roofline"] = roofline_json(*limits);
      Json rows = Json::array();
      for (const OpTime& t : times) {
        Json row{{"operation", t.op},
                 {"direction", t.backward ? "backward" : "forward"},
                 {"calls", t.calls / steps},
                 {"ms", rounded(1e3 * t.seconds / steps, 5)},
                 {"share_of_step", rounded(t.seconds / total, 4)},
                 {"flops", t.flops / steps},
                 {"bytes", t.bytes / steps}};
        if (limits) {
          row["bound_ms"] = rounded(1e3 * limits->bound(t.flops, t.bytes) / steps, 5);
          row["share"] = rounded(limits->bound(t.flops, t.bytes) / t.seconds, 4);
        }
        rows.push_back(std::move(row));
      }
      document["operations"] = std::move(rows);
      document["rest_ms"] = rounded(1e3 * rest / steps, 5);
      return end(std::move(document), meter, 1);
    }
    print_text("{} {} {}, {}\n{} steps of {} images, {:.3f} ms each\n", shape, precision, placement, conditions, steps,
               images, 1e3 * total / steps);
    if (limits)
      print_text("{}\nbound: time of the products or of the bytes, whichever is longer\n", roofline_words(*limits));
    print_text("{:<23}{:<9}{:>6}{:>9}{:>8}{:>8}{:>8}{:>9}\n", "operation", "", "calls", "ms", "share", "GFLOP/s",
               "GB/s", limits ? "of bound" : "");
    double bound = 0;
    for (const OpTime& t : times) {
      const double least = limits ? limits->bound(t.flops, t.bytes) : 0;
      bound += least;
      print_text("{:<23}{:<9}{:>6}{:>9.3f}{:>7.1f}%{:>8}{:>8.1f}{:>9}\n", t.op.substr(0, 22),
                 t.backward ? "backward" : "forward", t.calls / steps, 1e3 * t.seconds / steps, 100 * t.seconds / total,
                 t.flops > 0 ? fmt::format("{:.0f}", t.flops / t.seconds * 1e-9) : "", t.bytes / t.seconds * 1e-9,
                 limits ? fmt::format("{:.0f}%", 100 * least / t.seconds) : "");
    }
    if (limits)
      print_text("{:<38}{:>9.3f}{:>7.1f}%{:>25}\n", "all operations", 1e3 * in_ops / steps, 100 * in_ops / total,
                 fmt::format("{:.0f}%", 100 * bound / in_ops));
    print_text("{:<38}{:>9.3f}{:>7.1f}%\n", "lanes, clipping, update and the rest", 1e3 * rest / steps,
               100 * rest / total);
    return end({}, meter, 1);
  }
};

}  // namespace

void add_bench_profile(Command& bench) {
  auto [command, profile] = bench.add_command<BenchProfile>(
      "profile", "show how the time of a step divides among its operations, on one thread");
  profile.add_network(command);
  profile.add_forms(command);
  add_device(command, profile.device);
  command.add_option("--batch", profile.batch, "images per step (default: the shape's)").range(1, 1 << 20);
  profile.add_roofline(command);
  profile.add_seconds(command);
  profile.add_format(command);
  command.footer("GB/s counts each operand and result once.");
  command.examples({"normlab bench profile --shape micro --placement prepost_prepost",
                    "normlab bench profile --shape small --precision bf16 --roofline"});
}

}  // namespace normlab
