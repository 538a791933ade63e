#include <fmt/core.h>

#include <algorithm>

#include "core/backend.h"
#include "core/error.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/bench/cases.h"
#include "experiments/lab/bench/op_timing.h"
#include "experiments/lab/bench/shapes.h"

namespace normlab {
namespace {

OpSizes sizes_of(const BenchOptions& o) {
  const BenchShape& s = bench_shape(o.shape);
  if (!s.swin.empty())
    throw InputError("--shape swin_t: bench ops measures operations at a ViT's sizes; choose another shape");
  const ViTConfig config = std::get<ViTConfig>(bench_model(s, "pre_pre"));
  const auto or_else = [](std::int64_t given, std::int64_t of_shape) { return given > 0 ? given : of_shape; };
  const std::int64_t heads = or_else(o.heads, s.heads), width = heads * or_else(o.head_dim, s.embed_dim / s.heads);
  const OpSizes sizes{or_else(o.batch, s.batch),
                      or_else(o.tokens, config.tokens()),
                      width,
                      4 * width,
                      heads,
                      s.classes,
                      s.image / s.patch,
                      s.patch};
  constexpr double kMost = 1 << 30;
  if (double(sizes.images) * double(sizes.tokens) * double(width) > kMost)
    throw InputError(
        fmt::format("--batch {} --tokens {} --heads {} --head-dim {}: more than 2^30 values; choose smaller numbers",
                    sizes.images, sizes.tokens, heads, width / heads));
  return sizes;
}

}  // namespace

std::vector<std::string> bench_op_words() {
  Arena memory;
  std::vector<std::string> words;
  for (const OpCase& c : network_ops(memory, {})) words.push_back(c.name);
  return words;
}

Measured bench_ops(const BenchOptions& o) {
  const std::vector<std::string> known = bench_op_words();
  const auto names = [](const std::vector<std::string>& words, const std::string& name) {
    return std::find(words.begin(), words.end(), name) != words.end();
  };
  for (const std::string& word : o.ops)
    if (!names(known, word))
      throw InputError(fmt::format("--op {}: unknown operation; choose from {}", word, joined(known, ", ")));
  const OpSizes sizes = sizes_of(o);
  const ComputeDevice computer(o.device);
  Backend& backend = o.with_products(computer.backend());
  ShardPool pool(o.on_gpu() ? 1 : o.threads);
  const Roofline roofline = o.measured_roofline(computer.backend(), pool);
  OpTimer timer(backend, pool, sizes, o.dtype());
  Json rows = Json::array();
  for (std::size_t number = 0; number < known.size(); ++number) {
    if (!o.ops.empty() && !names(o.ops, known[number])) continue;
    const std::array<OpTiming, 2> passes = timer.measure(number, o.seconds);
    for (const bool backward : {false, true}) {
      const auto& [name, cost, each] = passes[backward];
      const double least = roofline.bound(cost.flops, cost.bytes);
      const auto known_time = [each = each](double value, int digits) {
        return each > 0 ? Json(rounded(value, digits)) : Json();
      };
      rows.push_back({{"op", known[number]},
                      {"direction", backward ? "backward" : "forward"},
                      {"ms", known_time(1e3 * each, 5)},
                      {"gflops", known_time(cost.flops / each * 1e-9, 1)},
                      {"gb_per_second", known_time(cost.bytes / each * 1e-9, 2)},
                      {"flops", cost.flops},
                      {"bytes", cost.bytes},
                      {"bound_ms", rounded(1e3 * least, 5)},
                      {"share", known_time(least / each, 4)}});
    }
  }
  return {{{"shape", o.shape},
           {"device", device_words(backend)},
           {"precision", o.precision},
           {"batch", sizes.images},
           {"tokens", sizes.tokens},
           {"heads", sizes.heads},
           {"head_dim", sizes.width / sizes.heads},
           {"threads", pool.threads()},
           {"roofline", roofline_json(roofline)},
           {"operations", std::move(rows)}},
          pool.threads()};
}

}  // namespace normlab
