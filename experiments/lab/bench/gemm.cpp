// A network's matrix products. On the CPU: at shard sizes, by OpenBLAS and normlab's kernels. On a GPU:
// for a whole batch.

#include <fmt/core.h>

#include "core/backend.h"
#include "core/cpu/bf16_products.h"
#include "core/cpu/blas.h"
#include "core/cpu/onednn.h"
#include "core/cpu/product.h"
#include "core/error.h"
#include "experiments/lab/bench/cases.h"
#include "experiments/lab/bench/op_timing.h"
#include "experiments/lab/bench/shapes.h"

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

Measured whole_batch(const BenchOptions& o, const ViTConfig& config, std::int64_t images) {
  const ComputeDevice computer(o.device);
  Backend& backend = o.with_products(computer.backend());
  ShardPool pool(1);
  const Roofline roofline = o.measured_roofline(computer.backend(), pool);
  double flops = 0, time = 0, bound = 0;
  Json rows = Json::array();
  for (const LinearLayer& layer : linear_layers(config, images)) {
    for (const OpTiming& t : time_linear(backend, pool, layer, o.dtype(), o.seconds)) {
      const double count = double(layer.count), ms = 1e3 * count * t.seconds,
                   least = 1e3 * count * roofline.bound(t.cost.flops, t.cost.bytes);
      flops += count * t.cost.flops, time += ms, bound += least;
      rows.push_back({{"product", t.name},
                      {"rows", layer.dims.rows},
                      {"in", layer.dims.in},
                      {"out", layer.dims.out},
                      {"calls", layer.count},
                      {"ms", rounded(ms, 5)},
                      {"gflops", rounded(count * t.cost.flops / ms * 1e-6, 1)},
                      {"bytes", count * t.cost.bytes},
                      {"bound_ms", rounded(least, 5)},
                      {"share", rounded(least / ms, 4)}});
    }
  }
  return {{{"shape", o.shape},
           {"device", device_words(backend)},
           {"precision", o.precision},
           {"batch", images},
           {"roofline", roofline_json(roofline)},
           {"ms", rounded(time, 5)},
           {"gflops", rounded(flops / time * 1e-6, 1)},
           {"bound_ms", rounded(bound, 5)},
           {"share", rounded(bound / time, 4)},
           {"products", std::move(rows)}},
          1};
}

/// FLOP/s per thread (median) while all threads run the same product.
template <class T, class F>
double rate(const BenchOptions& o, ShardPool& pool, const Kind& kind, F&& multiply) {
  std::vector<double> rates(static_cast<std::size_t>(o.threads));
  pool.for_blocks(o.threads, [&](std::int64_t thread) {
    const auto values = [](std::int64_t n) { return std::vector<T>(static_cast<std::size_t>(n), T(0.5f)); };
    const std::vector<T> a = values(kind.m * kind.k), b = values(kind.k * kind.n);
    std::vector<float> c(static_cast<std::size_t>(kind.m * kind.n), 0.5f);  // large enough for float or bf16 results
    const double time = median(call_times(o.seconds, 5, [&] { multiply(a.data(), b.data(), c.data()); }));
    rates[static_cast<std::size_t>(thread)] = 2.0 * double(kind.m) * double(kind.n) * double(kind.k) / time;
  });
  return median(std::move(rates));
}

cpu::Product<float> product_of(const Kind& kind, const float* a, const float* b, float* c) {
  return {kind.m,
          kind.n,
          kind.k,
          kind.transpose_a ? cpu::transposed(a, kind.m) : cpu::plain(a, kind.k),
          kind.transpose_b ? cpu::transposed(b, kind.k) : cpu::plain(b, kind.n),
          c,
          kind.n,
          kind.add};
}

/// The same in fp32 by "openblas", "onednn" or "ours".
double rate_of(const BenchOptions& o, std::string_view kernel, ShardPool& pool, const Kind& kind) {
  const std::int64_t a_row = kind.transpose_a ? kind.m : kind.k, b_row = kind.transpose_b ? kind.k : kind.n;
  const float plus = kind.add ? 1.0f : 0.0f;
  return rate<float>(o, pool, kind, [&](const float* a, const float* b, float* c) {
    if (kernel == "openblas")
      return gemm(kind.transpose_a, kind.transpose_b, kind.m, kind.n, kind.k, 1.0f, a, a_row, b, b_row, plus, c,
                  kind.n);
    if (kernel == "ours") return cpu::own_kernels(product_of(kind, a, b, c), [](auto, auto, auto, auto) {});
    if (onednn().omp_set_num_threads) onednn().omp_set_num_threads(1);
    require(onednn().sgemm(kind.transpose_a ? 'T' : 'N', kind.transpose_b ? 'T' : 'N', kind.m, kind.n, kind.k, 1.0f, a,
                           a_row, b, b_row, plus, c, kind.n),
            "a product failed");
  });
}
/// The same in bf16, by oneDNN.
double bf16_rate(const BenchOptions& o, ShardPool& pool, const Kind& kind) {
  const Bf16Product product{.m = kind.m,
                            .n = kind.n,
                            .k = kind.k,
                            .transpose_a = kind.transpose_a,
                            .transpose_b = kind.transpose_b,
                            .to = kind.add ? DType::f32 : DType::bf16,  // weight gradients add in float
                            .add = kind.add};
  return rate<bf16>(o, pool, kind, [&](const bf16* a, const bf16* b, float* c) {
    bf16_product(Bf16Products::native, product, a, b, nullptr, c);
  });
}

/// In a step, fp32 products take the first or the last of three kernels. The limit is the rate of all threads with the
/// first.
Measured of_shards(const BenchOptions& o, const ViTConfig& config, std::int64_t images) {
  const bool choice = o.precision == "fp32";
  if (!choice) o.with_products(cpu_backend());
  const std::vector<std::string> kernels =
      choice ? std::vector<std::string>{"openblas", "onednn", "ours"} : std::vector<std::string>{"onednn"};
  const ShardPlan plan = plan_shards(config, images, model_cost(config).parameters, size_of(o.dtype()));
  ShardPool pool(o.threads);
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
    const std::size_t used = choice && cpu::own_product(product_of(kind, nullptr, nullptr, nullptr)) ? 2 : 0;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const double flops_a_second = choice ? rate_of(o, kernels[i], pool, kind) : bf16_rate(o, pool, kind),
                   time = kind.flops() / flops_a_second;
      times[i] += time;
      if (i == used) used_time += time;
      row[kernels[i]] = rounded(flops_a_second * 1e-9, 1);
    }
    if (choice) row["used"] = kernels[used];
    rows.push_back(std::move(row));
  }
  const double limit = double(o.threads) * double(plan.images) / times[0];
  Json document{{"shape", o.shape},
                {"threads", o.threads},
                {"precision", o.precision},
                {"images_a_shard", plan.images},
                {"limit_images_per_second", rounded(limit, 1)},
                {"products", std::move(rows)}};
  for (std::size_t i = 0; i < kernels.size(); ++i)
    document[kernels[i] + "_gflops"] = rounded(flops / times[i] * 1e-9, 1);
  if (choice) document["used_gflops"] = rounded(flops / used_time * 1e-9, 1);
  return {std::move(document),
          o.threads,
          {{"library",
            fmt::format("{}oneDNN {}", choice ? fmt::format("OpenBLAS {}, ", blas_info().core) : "", onednn_info())}}};
}

}  // namespace

std::vector<LinearLayer> linear_layers(const ViTConfig& c, std::int64_t images) {
  const std::int64_t rows = images * c.tokens(), d = c.embed_dim;
  return {{"patch_embed", {images * c.patches(), c.patch_pixels(), d}, 1, false},
          {"attn.qkv", {rows, d, 3 * d}, c.depth, true},
          {"attn.proj", {rows, d, d}, c.depth, true},
          {"mlp.fc1", {rows, d, c.mlp_dim}, c.depth, true},
          {"mlp.fc2", {rows, c.mlp_dim, d}, c.depth, true},
          {"head", {images, d, c.num_classes}, 1, true}};
}

std::vector<OpTiming> time_linear(Backend& backend, ShardPool& pool, const LinearLayer& layer, DType dtype,
                                  double seconds) {
  const LinearDims d = layer.dims;
  Arena memory(backend.memory());
  const auto made = [&](const Shape& shape, DType type, std::uint32_t seed) {
    return noise(backend, memory, shape, type, 1.0f, seed);
  };
  const Tensor x = made({d.rows, d.in}, dtype, 1), w = made({d.out, d.in}, dtype, 2),
               b = made({d.out}, backend.rounds_bias() ? dtype : DType::f32, 3), dy = made({d.rows, d.out}, dtype, 4),
               y = made({d.rows, d.out}, dtype, 5), dx = made({d.rows, d.in}, dtype, 6),
               dw = made({d.out, d.in}, DType::f32, 7), db = made({d.out}, DType::f32, 8);
  backend.prepare_linear(d, dtype, true);
  const double flops = 2 * double(d.rows) * double(d.in) * double(d.out);
  const auto bytes = [](std::initializer_list<Tensor> tensors) {
    double sum = 0;
    for (const Tensor& t : tensors) sum += double(t.bytes());
    return sum;
  };
  std::vector<OpTiming> result;
  const auto add = [&](const char* part, double moved, const std::function<void(Collective&)>& body) {
    const Timed timed(backend, pool, 1, false, body);
    result.push_back({fmt::format("{} {}", layer.name, part), {flops, moved}, timed.seconds(seconds)});
  };
  add("forward", bytes({x, w, b, y}), [&](Collective&) { backend.linear(d, x, w, b, {}, y); });
  if (layer.has_dx) add("dx", bytes({dy, w, dx}), [&](Collective&) { backend.linear_backward(d, {dy, x, w, {dx}}); });
  add("dw", bytes({dy, x, dw, db}), [&](Collective&) { backend.linear_backward(d, {dy, x, w, {}, {dw}, {db}}); });
  return result;
}

Measured bench_gemm(const BenchOptions& o) {
  if (!o.tune.empty()) return tuned_products(o);
  if (o.experiment) throw InputError("bench gemm: a descriptor's products are measured with --tune FILE only");
  BenchShape s = bench_shape(o.shape);
  if (!s.swin.empty())
    throw InputError("--shape swin_t: bench gemm measures the products of a ViT only; choose another shape");
  if (o.batch > 0) s.batch = o.batch;
  const ViTConfig config = std::get<ViTConfig>(bench_model(s, "pre_pre"));
  if (o.on_gpu()) return whole_batch(o, config, s.batch);
  if (o.precision != "bf16" && o.precision != "fp32")
    throw InputError("--precision " + o.precision + ": on the CPU bench gemm measures products in fp32 and bf16 only");
  return of_shards(o, config, s.batch);
}

}  // namespace normlab
