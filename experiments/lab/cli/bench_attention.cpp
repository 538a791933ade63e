#include <fmt/core.h>

#include "experiments/lab/base/terminal.h"
#include "experiments/lab/bench/op_timing.h"
#include "experiments/lab/bench/shapes.h"
#include "experiments/lab/cli/bench.h"

namespace normlab {
namespace {

struct BenchAttention : BenchOptions {
  std::int64_t batch = 0, tokens = 0, heads = 0, head_dim = 0;  // 0: the shape's
  BenchAttention() { seconds = 0.5; }

  int operator()() const {
    const BenchShape& s = bench_shape(shape);
    if (!s.swin.empty())
      throw InputError(
          "--shape swin_t: bench attention measures a ViT's attention, not that inside windows; choose another shape");
    const ViTConfig config = std::get<ViTConfig>(bench_model(s, "pre_pre"));
    const auto or_else = [](std::int64_t given, std::int64_t of_shape) { return given > 0 ? given : of_shape; };
    AttentionDims d{or_else(batch, s.batch), or_else(tokens, config.tokens()), or_else(heads, s.heads),
                    or_else(head_dim, s.embed_dim / s.heads), 0};
    const double values = double(d.batch) * double(d.tokens) * double(d.width());
    constexpr double kMost = 1 << 30;
    if (values > kMost)
      throw InputError(
          fmt::format("--batch {} --tokens {} --heads {} --head-dim {}: more than 2^30 values; choose smaller numbers",
                      d.batch, d.tokens, d.heads, d.head_dim));
    const ComputeDevice computer(device);
    Backend& backend = with_products(computer.backend());
    ShardPool pool(on_gpu() ? 1 : threads);
    const LoadMeter meter;
    const Roofline roofline = measured_roofline(computer.backend(), pool);
    const std::vector<OpTiming> timings = time_attention(backend, pool, d, dtype(), seconds);
    if (!json()) {
      print_text("{}\n{} images, {} tokens, {} heads of {}, {}\n{}\n\n{:<20}{:>10}{:>11}{:>9}{:>9}{:>11}{:>8}\n",
                 on_gpu() ? device_words(backend) : threads_words(pool.threads()), d.batch, d.tokens, d.heads,
                 d.head_dim, precision, roofline_words(roofline), "", "ms", "GFLOP/s", "MB", "GB/s", "bound ms",
                 "share");
      for (const OpTiming& t : timings)
        print_text("{:<20}{:>10.4f}{:>11.0f}{:>9.1f}{:>9.1f}{:>11.4f}{:>7.0f}%\n", t.name, 1e3 * t.seconds,
                   t.cost.flops / t.seconds * 1e-9, t.cost.bytes * 1e-6, t.cost.bytes / t.seconds * 1e-9,
                   1e3 * bound(roofline, t), 100 * bound(roofline, t) / t.seconds);
    }
    Json document{{"shape", shape},
                  {"device", device_words(backend)},
                  {"precision", precision},
                  {"batch", d.batch},
                  {"tokens", d.tokens},
                  {"heads", d.heads},
                  {"head_dim", d.head_dim},
                  {"threads", pool.threads()},
                  {"roofline", roofline_json(roofline)}};
    for (const OpTiming& t : timings)
      document[t.name.substr(t.name.find(' ') + 1)] = {{"ms", rounded(1e3 * t.seconds, 5)},
                                                       {"gflops", rounded(t.cost.flops / t.seconds * 1e-9, 1)},
                                                       {"gb_per_second", rounded(t.cost.bytes / t.seconds * 1e-9, 2)},
                                                       {"flops", t.cost.flops},
                                                       {"bytes", t.cost.bytes},
                                                       {"bound_ms", rounded(1e3 * bound(roofline, t), 5)},
                                                       {"share", rounded(bound(roofline, t) / t.seconds, 4)}};
    return end(std::move(document), meter, pool.threads());
  }

 private:
  static double bound(const Roofline& roofline, const OpTiming& t) {
    return roofline.bound(t.cost.flops, t.cost.bytes);
  }
};

}  // namespace

void add_bench_attention(Command& bench) {
  auto [command, attention] = bench.add_command<BenchAttention>(
      "attention",
      "measure attention alone, forward and backward, and compare it with the limit that products and memory set");
  attention.add_shape(command);
  attention.add_precision(command);
  command.add_option("--batch", attention.batch, "number of images (default: the shape's)").range(1, 1 << 20);
  command.add_option("--tokens", attention.tokens, "tokens per image (default: the shape's)").range(1, 1 << 16);
  command.add_option("--heads", attention.heads, "attention heads (default: the shape's)").range(1, 1 << 10);
  command.add_option("--head-dim", attention.head_dim, "width of a head (default: the shape's)").range(1, 1 << 10);
  attention.add_threads(command);
  add_device(command, attention.device);
  attention.add_seconds(command, "seconds to measure each direction");
  attention.add_format(command);
  command.footer(
      "The backward pass counts 2.5 times the products of the forward pass. The bytes are those of q, k, v, y and "
      "their gradients, each once.");
  command.examples(
      {"normlab bench attention --shape tiny --threads 1", "normlab bench attention --tokens 1024 --precision bf16"});
}

}  // namespace normlab
