// The products of a network at the sizes its shards have, by OpenBLAS and by our kernels: what a step could reach.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "core/cpu/blas.h"
#include "core/cpu/product.h"
#include "experiments/cli/bench.h"
#include "experiments/cli/bench_shapes.h"

namespace normlab {
namespace {

/// One kind of product in a step: C [m, n] of depth k, `count` times a shard.
struct Kind {
  std::string name;
  std::int64_t m, n, k;
  bool transpose_a, transpose_b, add;
  std::int64_t count;
  double flops() const { return 2.0 * double(m) * double(n) * double(k) * double(count); }
};

std::vector<Kind> kinds_of(const ViTConfig& c, std::int64_t images) {
  std::vector<Kind> kinds;
  const auto linear = [&](const char* name, std::int64_t rows, std::int64_t in, std::int64_t out, std::int64_t count,
                          bool has_dx = true) {
    kinds.push_back({fmt::format("{} forward", name), rows, out, in, false, true, false, count});
    if (has_dx) kinds.push_back({fmt::format("{} dx", name), rows, in, out, false, false, false, count});
    kinds.push_back({fmt::format("{} dw", name), out, in, rows, true, false, true, count});
  };
  const std::int64_t rows = images * c.tokens(), d = c.embed_dim, head = d / c.num_heads, n = c.tokens();
  linear("patch_embed", images * c.patches(), c.patch_pixels(), d, 1, false);
  linear("attn.qkv", rows, d, 3 * d, c.depth);
  linear("attn.proj", rows, d, d, c.depth);
  linear("mlp.fc1", rows, d, c.mlp_dim, c.depth);
  linear("mlp.fc2", rows, c.mlp_dim, d, c.depth);
  linear("head", images, d, c.num_classes, 1);
  const std::int64_t heads = images * c.num_heads * c.depth;
  kinds.push_back({"scores, and again, and dy v^T", n, n, head, false, true, false, 3 * heads});
  kinds.push_back({"weights times v, dq", n, head, n, false, false, false, 2 * heads});
  kinds.push_back({"dk, dv", n, head, n, true, false, false, 2 * heads});
  return kinds;
}

struct BenchGemm : BenchOptions {
  BenchGemm() {
    shape = "tiny";
    seconds = 0.1;
  }

  /// FLOP/s of one thread while all are busy with the same: the median over the threads.
  template <class F>
  double rate(ShardPool& pool, const Kind& kind, F&& multiply) const {
    using Clock = std::chrono::steady_clock;
    std::vector<double> rates(static_cast<std::size_t>(threads));
    pool.for_blocks(threads, [&](std::int64_t thread) {
      const auto values = [](std::int64_t n) { return std::vector<float>(static_cast<std::size_t>(n), 0.5f); };
      const std::vector<float> a = values(kind.m * kind.k), b = values(kind.k * kind.n);
      std::vector<float> c = values(kind.m * kind.n);
      multiply(a.data(), b.data(), c.data());
      std::vector<double> times;
      double total = 0;
      while (total < seconds || times.size() < 5) {
        const Clock::time_point begin = Clock::now();
        multiply(a.data(), b.data(), c.data());
        times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
        total += times.back();
      }
      std::nth_element(times.begin(), times.begin() + std::ptrdiff_t(times.size() / 2), times.end());
      rates[static_cast<std::size_t>(thread)] =
          2.0 * double(kind.m) * double(kind.n) * double(kind.k) / times[times.size() / 2];
    });
    std::sort(rates.begin(), rates.end());
    return rates[rates.size() / 2];
  }

  int operator()() const {
    const BenchShape& s = bench_shape(shape);
    if (!s.swin.empty()) throw InputError("--shape swin_t: bench gemm knows the products of a ViT only");
    const ViTConfig config = std::get<ViTConfig>(bench_model(s, "pre_pre"));
    const ShardPlan plan = plan_shards(config, s.batch, model_cost(config).parameters, sizeof(float));
    ShardPool pool(threads);
    if (!json())
      fmt::print(
          "{}: shards of {} images; OpenBLAS {}; GFLOP/s a thread, {} threads busy\n{:<31}{:>6}{:>6}{:>6}{:>8}"
          "{:>10}{:>7}{:>6}\n",
          shape, plan.images, blas_info().core, threads, "product", "m", "n", "k", "share", "OpenBLAS", "ours", "used");
    const LoadMeter meter;
    const std::vector<Kind> kinds = kinds_of(config, plan.images);
    double flops = 0, blas_time = 0, own_time = 0, used_time = 0;
    for (const Kind& kind : kinds) flops += kind.flops();
    std::string rows;
    for (const Kind& kind : kinds) {
      const std::int64_t lda = kind.transpose_a ? kind.m : kind.k, ldb = kind.transpose_b ? kind.k : kind.n;
      cpu::Product<float> p{kind.m, kind.n, kind.k, {}, {}, nullptr, kind.n, kind.add};
      p.a = kind.transpose_a ? cpu::transposed<float>(nullptr, lda) : cpu::plain<float>(nullptr, lda);
      p.b = kind.transpose_b ? cpu::transposed<float>(nullptr, ldb) : cpu::plain<float>(nullptr, ldb);
      const double blas = rate(pool, kind, [&](const float* a, const float* b, float* c) {
        gemm(kind.transpose_a, kind.transpose_b, kind.m, kind.n, kind.k, 1.0f, a, lda, b, ldb, kind.add ? 1.0f : 0.0f,
             c, kind.n);
      });
      const double own = rate(pool, kind, [&](const float* a, const float* b, float* c) {
        cpu::Product<float> mine = p;
        mine.a.data = a, mine.b.data = b, mine.c = c;
        cpu::own_kernels(mine, [](auto, auto, auto, auto) {});
      });
      const bool use_own = cpu::own_product(p);
      blas_time += kind.flops() / blas;
      own_time += kind.flops() / own;
      used_time += kind.flops() / (use_own ? own : blas);
      if (json())
        rows += fmt::format(
            "{}{{\"product\": \"{}\", \"m\": {}, \"n\": {}, \"k\": {}, \"share\": {:.4f}, "
            "\"openblas\": {:.1f}, \"ours\": {:.1f}, \"used\": \"{}\"}}",
            rows.empty() ? "" : ", ", kind.name, kind.m, kind.n, kind.k, kind.flops() / flops, blas * 1e-9, own * 1e-9,
            use_own ? "ours" : "openblas");
      else
        fmt::print("{:<31}{:>6}{:>6}{:>6}{:>7.1f}%{:>10.0f}{:>7.0f}{:>6}\n", kind.name, kind.m, kind.n, kind.k,
                   100 * kind.flops() / flops, blas * 1e-9, own * 1e-9, use_own ? "ours" : "blas");
    }
    const double per_image = flops / double(plan.images);
    const auto weighted = [&](double time) { return flops / time; };
    const double limit = double(threads) * weighted(blas_time) / per_image;
    if (json())
      fmt::print(
          "{{\"shape\": \"{}\", \"threads\": {}, \"images_a_shard\": {}, \"openblas_gflops\": {:.1f}, "
          "\"ours_gflops\": {:.1f}, \"used_gflops\": {:.1f}, \"limit_images_per_second\": {:.1f}, {}, "
          "\"products\": [{}]}}\n",
          shape, threads, plan.images, weighted(blas_time) * 1e-9, weighted(own_time) * 1e-9,
          weighted(used_time) * 1e-9, limit, load_json(meter, threads), rows);
    else
      fmt::print(
          "weighted by FLOP, a thread: OpenBLAS {:.0f}, ours {:.0f}, the faster by rule {:.0f} GFLOP/s\n"
          "{} threads at OpenBLAS's rate and nothing else to do: {:.1f} images/s\n",
          weighted(blas_time) * 1e-9, weighted(own_time) * 1e-9, weighted(used_time) * 1e-9, threads, limit);
    if (!json()) warn_of_load(meter, threads);
    return 0;
  }
};

}  // namespace

void add_bench_gemm(CLI::App& bench, Action& action) {
  auto gemm = std::make_shared<BenchGemm>();
  CLI::App& command = *bench.add_subcommand(
      "gemm", "the products of a network at the sizes of its shards, by OpenBLAS and by our kernels");
  gemm->add_shape(command);
  gemm->add_threads(command);
  gemm->add_seconds(command, "for each product");
  gemm->add_format(command);
  add_cpu_device(command, "bench gemm compares the CPU's own products with OpenBLAS's; on a GPU all are cuBLAS's");
  command.callback([gemm, &action] { action = [gemm] { return (*gemm)(); }; });
}

}  // namespace normlab
