// Where the time of an optimisation step goes, by operation.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "experiments/cli/bench.h"
#include "experiments/cli/bench_shapes.h"

namespace normlab {
namespace {

struct BenchProfile : BenchOptions {
  BenchProfile() { shape = "tiny"; }

  int operator()() const {
    if (on_gpu()) setenv("NORMLAB_CUDA_SYNC", "1", 1);  // each kernel is waited for, or the times are of its start
    const ComputeDevice computer(device);
    const BenchShape& s = bench_shape(shape);
    const ModelConfig config = bench_model(s, placement);
    BenchEngine bench(computer.backend(), config, settings(s.batch), 1);  // one thread: times are not those of waiting
    for (int i = 0; i < 3; ++i) bench.step();
    bench.engine->set_profiling(true);
    using Clock = std::chrono::steady_clock;
    int steps = 0;
    double total = 0;
    const LoadMeter meter;
    for (; total < seconds || steps < 3; ++steps) {
      const Clock::time_point begin = Clock::now();
      bench.step();
      total += std::chrono::duration<double>(Clock::now() - begin).count();
    }
    std::vector<OpTime> times = bench.engine->profile().times();
    std::sort(times.begin(), times.end(), [](const OpTime& a, const OpTime& b) { return a.seconds > b.seconds; });
    fmt::print("{} {} {}, {}, {} steps of {} images, {:.1f} ms each\n", shape, precision, placement,
               on_gpu() ? device_words(computer.backend()) + ", each kernel waited for" : "one thread", steps, s.batch,
               1e3 * total / steps);
    fmt::print("{:<24}{:<9}{:>7}{:>9}{:>8}{:>10}{:>8}\n", "operation", "", "calls", "ms", "share", "GFLOP/s", "GB/s");
    double in_ops = 0;
    for (const OpTime& t : times) {
      in_ops += t.seconds;
      fmt::print("{:<24}{:<9}{:>7}{:>9.2f}{:>7.1f}%{:>10}{:>8.1f}\n", t.op, t.backward ? "backward" : "forward",
                 t.calls / steps, 1e3 * t.seconds / steps, 100 * t.seconds / total,
                 t.flops > 0 ? fmt::format("{:.0f}", t.flops / t.seconds * 1e-9) : "", t.bytes / t.seconds * 1e-9);
    }
    fmt::print("{:<40}{:>9.2f}{:>7.1f}%\n", "lanes, clipping, update and the rest", 1e3 * (total - in_ops) / steps,
               100 * (total - in_ops) / total);
    warn_of_load(meter, 1);
    return 0;
  }
};

}  // namespace

void add_bench_profile(CLI::App& bench, Action& action) {
  auto profile = std::make_shared<BenchProfile>();
  CLI::App& command = *bench.add_subcommand(
      "profile", "where the time of a step goes by operation, on one thread (GB/s: each operand and result once)");
  profile->add_network(command);
  add_device(command, profile->device);
  profile->add_seconds(command);
  command.callback([profile, &action] { action = [profile] { return (*profile)(); }; });
}

}  // namespace normlab
