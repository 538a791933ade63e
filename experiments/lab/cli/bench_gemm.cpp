// A network's matrix products. On the CPU: at shard sizes, by OpenBLAS and normlab's kernels. On a GPU:
// for a whole batch.

#include <fmt/core.h>

#include <functional>

#include "core/cpu/bf16_products.h"
#include "core/cpu/blas.h"
#include "core/cpu/product.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/bench/op_timing.h"
#include "experiments/lab/bench/shapes.h"
#include "experiments/lab/cli/bench.h"

namespace normlab {
namespace {

/// C [m, n] with inner dimension k, `count` times per shard.
struct Kind {
  std::string name;
  std::int64_t m, n, k;
  bool transpose_a, transpose_b, add;
  std::int64_t count;
  double flops() const { return 2.0 * double(m) * double(n) * double(k) * double(count); }
};

std::vector<Kind> kinds_of(const ViTConfig& c, std::int64_t images) {
  std::vector<Kind> kinds;
  for (const LinearLayer& l : linear_layers(c, images)) {
    const auto& [rows, in, out] = l.dims;
    kinds.push_back({l.name + " forward", rows, out, in, false, true, false, l.count});
    if (l.has_dx) kinds.push_back({l.name + " dx", rows, in, out, false, false, false, l.count});
    kinds.push_back({l.name + " dw", out, in, rows, true, false, true, l.count});
  }
  const std::int64_t head = c.embed_dim / c.num_heads, n = c.tokens();
  const std::int64_t heads = images * c.num_heads * c.depth;
  kinds.push_back({"scores, and again, and dy v^T", n, n, head, false, true, false, 3 * heads});
  kinds.push_back({"weights times v, dq", n, head, n, false, false, false, 2 * heads});
  kinds.push_back({"dk, dv", n, head, n, true, false, false, 2 * heads});
  return kinds;
}

struct BenchGemm : BenchOptions {
  std::int64_t batch = 0;  // 0: the shape's
  BenchGemm() {
    shape = "tiny";
    seconds = 0.1;
  }

  /// FLOP/s per thread (median) while all threads run the same product.
  template <class T = float, class F>
  double rate(ShardPool& pool, const Kind& kind, F&& multiply) const {
    std::vector<double> rates(static_cast<std::size_t>(threads));
    pool.for_blocks(threads, [&](std::int64_t thread) {
      const auto values = [](std::int64_t n) { return std::vector<T>(static_cast<std::size_t>(n), T(0.5f)); };
      const std::vector<T> a = values(kind.m * kind.k), b = values(kind.k * kind.n);
      std::vector<float> c(static_cast<std::size_t>(kind.m * kind.n), 0.5f);  // large enough for float or bf16 results
      multiply(a.data(), b.data(), c.data());
      const double time = median(call_times(seconds, 5, [&] { multiply(a.data(), b.data(), c.data()); }));
      rates[static_cast<std::size_t>(thread)] = 2.0 * double(kind.m) * double(kind.n) * double(kind.k) / time;
    });
    return median(std::move(rates));
  }

  int operator()() const {
    BenchShape s = bench_shape(shape);
    if (!s.swin.empty())
      throw InputError("--shape swin_t: bench gemm measures the products of a ViT only; choose another shape");
    if (batch > 0) s.batch = batch;
    const ViTConfig config = std::get<ViTConfig>(bench_model(s, "pre_pre"));
    if (on_gpu()) return whole_batch(config, s.batch);
    if (precision == "bf16") return by_onednn(config, s.batch);
    if (precision != "fp32")
      throw InputError("--precision " + precision + ": on the CPU bench gemm measures products in fp32 and bf16 only");
    return both_kernels(config, s.batch);
  }

 private:
  int whole_batch(const ViTConfig& config, std::int64_t images) const {
    const ComputeDevice computer(device);
    Backend& backend = with_products(computer.backend());
    ShardPool pool(1);
    const LoadMeter meter;
    const Roofline roofline = measured_roofline(computer.backend(), pool);
    if (!json())
      print_text(
          "{}\n{}: {} images, {}; {}\nms: all calls of a step; bound: time of the products or of the bytes, whichever "
          "is longer\n\n{:<20}{:>8}{:>6}{:>6}{:>4}{:>9}{:>9}{:>9}{:>8}\n",
          device_words(backend), shape, images, precision, roofline_words(roofline), "product", "rows", "in", "out",
          "x", "ms", "GFLOP/s", "bound", "share");
    double flops = 0, time = 0, bound = 0;
    Json rows = Json::array();
    for (const LinearLayer& layer : linear_layers(config, images)) {
      for (const OpTiming& t : time_linear(backend, pool, layer, dtype(), seconds)) {
        const double count = double(layer.count), ms = 1e3 * count * t.seconds,
                     least = 1e3 * count * roofline.bound(t.cost.flops, t.cost.bytes);
        flops += count * t.cost.flops, time += ms, bound += least;
        const LinearDims d = layer.dims;
        if (json())
          rows.push_back({{"product", t.name},
                          {"rows", d.rows},
                          {"in", d.in},
                          {"out", d.out},
                          {"calls", layer.count},
                          {"ms", rounded(ms, 5)},
                          {"gflops", rounded(count * t.cost.flops / ms * 1e-6, 1)},
                          {"bytes", count * t.cost.bytes},
                          {"bound_ms", rounded(least, 5)},
                          {"share", rounded(least / ms, 4)}});
        else
          print_text("{:<20}{:>8}{:>6}{:>6}{:>4}{:>9.4f}{:>9.0f}{:>9.4f}{:>7.0f}%\n", t.name, d.rows, d.in, d.out,
                     layer.count, ms, count * t.cost.flops / ms * 1e-6, least, 100 * least / ms);
        std::fflush(stdout);
      }
    }
    if (!json())
      print_text("{:<44}{:>9.4f}{:>9.0f}{:>9.4f}{:>7.0f}%\n", "all", time, flops / time * 1e-6, bound,
                 100 * bound / time);
    return end({{"shape", shape},
                {"device", device_words(backend)},
                {"precision", precision},
                {"batch", images},
                {"roofline", roofline_json(roofline)},
                {"ms", rounded(time, 5)},
                {"gflops", rounded(flops / time * 1e-6, 1)},
                {"bound_ms", rounded(bound, 5)},
                {"share", rounded(bound / time, 4)},
                {"products", std::move(rows)}},
               meter, 1);
  }

  /// FLOP/s on one thread.
  struct Kernel {
    std::string name, key;
    std::function<double(ShardPool&, const Kind&)> rate;
  };

  int by_onednn(const ViTConfig& config, std::int64_t images) const {
    with_products(cpu_backend());
    const Kernel onednn{"oneDNN", "onednn", [this](ShardPool& pool, const Kind& kind) {
                          const Bf16Product product{
                              .m = kind.m,
                              .n = kind.n,
                              .k = kind.k,
                              .transpose_a = kind.transpose_a,
                              .transpose_b = kind.transpose_b,
                              .to = kind.add ? DType::f32 : DType::bf16,  // weight gradients accumulate in float
                              .add = kind.add};
                          return rate<bf16>(pool, kind, [&](const bf16* a, const bf16* b, float* c) {
                            bf16_product(Bf16Products::native, product, a, b, nullptr, c);
                          });
                        }};
    return on_cpu(config, images, sizeof(bf16), "oneDNN " + onednn_info(), {onednn}, [](const Kind&) { return 0; });
  }

  int both_kernels(const ViTConfig& config, std::int64_t images) const {
    const Kernel blas{"OpenBLAS", "openblas", [this](ShardPool& pool, const Kind& kind) {
                        return rate(pool, kind, [&](const float* a, const float* b, float* c) {
                          gemm(kind.transpose_a, kind.transpose_b, kind.m, kind.n, kind.k, 1.0f, a,
                               kind.transpose_a ? kind.m : kind.k, b, kind.transpose_b ? kind.k : kind.n,
                               kind.add ? 1.0f : 0.0f, c, kind.n);
                        });
                      }};
    const Kernel ours{"ours", "ours", [this](ShardPool& pool, const Kind& kind) {
                        return rate(pool, kind, [&](const float* a, const float* b, float* c) {
                          cpu::own_kernels(product_of(kind, a, b, c), [](auto, auto, auto, auto) {});
                        });
                      }};
    return on_cpu(
        config, images, sizeof(float), concat("OpenBLAS ", blas_info().core), {blas, ours},
        [](const Kind& kind) { return cpu::own_product(product_of(kind, nullptr, nullptr, nullptr)) ? 1 : 0; });
  }

  static cpu::Product<float> product_of(const Kind& kind, const float* a, const float* b, float* c) {
    return {kind.m,
            kind.n,
            kind.k,
            kind.transpose_a ? cpu::transposed(a, kind.m) : cpu::plain(a, kind.k),
            kind.transpose_b ? cpu::transposed(b, kind.k) : cpu::plain(b, kind.n),
            c,
            kind.n,
            kind.add};
  }

  /// The limit is the rate of all threads with the first kernel; `used` picks the kernel that a step uses.
  int on_cpu(const ViTConfig& config, std::int64_t images, std::size_t value_bytes, const std::string& library,
             const std::vector<Kernel>& kernels, const std::function<int(const Kind&)>& used) const {
    const ShardPlan plan = plan_shards(config, images, model_cost(config).parameters, value_bytes);
    const bool choice = kernels.size() > 1;
    ShardPool pool(threads);
    std::string head = fmt::format("{:<31}{:>6}{:>6}{:>6}{:>8}", "product", "m", "n", "k", "share");
    for (const Kernel& kernel : kernels) head += fmt::format("{:>9}", kernel.name);
    if (!json())
      print_text("{}: shards of {} images; {}; GFLOP/s per thread, {} threads busy\n{}{}\n", shape, plan.images,
                 library, threads, head, choice ? "     used" : "");
    const LoadMeter meter;
    const std::vector<Kind> kinds = kinds_of(config, plan.images);
    double flops = 0, used_time = 0;
    std::vector<double> times(kernels.size());
    for (const Kind& kind : kinds) flops += kind.flops();
    Json rows = Json::array();
    for (const Kind& kind : kinds) {
      Json row{{"product", kind.name},
               {"m", kind.m},
               {"n", kind.n},
               {"k", kind.k},
               {"share", rounded(kind.flops() / flops, 4)}};
      std::string line =
          fmt::format("{:<31}{:>6}{:>6}{:>6}{:>7.1f}%", kind.name, kind.m, kind.n, kind.k, 100 * kind.flops() / flops);
      const auto taken = static_cast<std::size_t>(used(kind));
      for (std::size_t i = 0; i < kernels.size(); ++i) {
        const double flops_a_second = kernels[i].rate(pool, kind), time = kind.flops() / flops_a_second;
        times[i] += time;
        if (i == taken) used_time += time;
        row[kernels[i].key] = rounded(flops_a_second * 1e-9, 1);
        line += fmt::format("{:>9.0f}", flops_a_second * 1e-9);
      }
      if (choice) row["used"] = kernels[taken].key, line += fmt::format("{:>9}", kernels[taken].name);
      if (json())
        rows.push_back(std::move(row));
      else
        print_text("{}\n", line);
    }
    const auto weighted = [&](double time) { return flops / time * 1e-9; };
    const double limit = double(threads) * weighted(times[0]) * 1e9 / (flops / double(plan.images));
    Json record{{"shape", shape},
                {"threads", threads},
                {"precision", precision},
                {"images_a_shard", plan.images},
                {"limit_images_per_second", rounded(limit, 1)},
                {"products", std::move(rows)}};
    std::string words;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      record[kernels[i].key + "_gflops"] = rounded(weighted(times[i]), 1);
      words += fmt::format("{}{} {:.0f}", i > 0 ? ", " : "", kernels[i].name, weighted(times[i]));
    }
    if (choice) {
      record["used_gflops"] = rounded(weighted(used_time), 1);
      words += fmt::format(", the ones used {:.0f}", weighted(used_time));
    }
    if (!json())
      print_text("per thread, weighted by FLOP: {} GFLOP/s\n{} at {}'s rate, with no other work: {:.1f} images/s\n",
                 words, threads_words(threads), kernels[0].name, limit);
    return end(std::move(record), meter, threads);
  }
};

}  // namespace

void add_bench_gemm(Command& bench) {
  auto [command, gemm] = bench.add_command<BenchGemm>(
      "gemm",
      "measure a network's matrix products: by OpenBLAS and normlab's own kernels, in bf16 by oneDNN, or on a GPU");
  gemm.add_shape(command);
  gemm.add_precision(command);
  command.add_option("--batch", gemm.batch, "images per step (default: the shape's)").range(1, 1 << 20);
  gemm.add_threads(command);
  gemm.add_seconds(command, "seconds to measure each product");
  gemm.add_format(command);
  add_device(command, gemm.device);
  command.footer(
      "The CPU is measured at the sizes of the network's shards, a GPU at those of a whole batch and compared with its "
      "limit.");
  command.examples({"normlab bench gemm --shape micro --threads 1",
                    "normlab bench gemm --shape s16 --precision bf16 --device cuda"});
}

}  // namespace normlab
