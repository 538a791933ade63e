#include <fmt/core.h>

#include <algorithm>
#include <deque>

#include "autograd/profile.h"
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

/// Some of the images, with the table, inputs and tape of one thread.
class ImageShare {
 public:
  ImageShare(Backend& backend, DType dtype, const OpSizes& sizes)
      : backend_(backend), dtype_(dtype), masks_(backend.memory()), cases_(network_ops(masks_, sizes)) {}

  void take(std::size_t number) {
    now_ = &cases_[number];
    inputs_.clear();
    memory_.reset();
    for (const OpInput& in : now_->activations) add(in, dtype_);
    for (const OpInput& in : now_->parameters) add(in, acc_of(dtype_));
    tape_.reset();
    const Var y = output();
    dy_ = noise(backend_, memory_, y.shape(), y.value().dtype(), 1.0f, 99);
  }
  void run(bool backward) {
    tape_.reset();
    const Var y = output();
    if (backward) tape_.backward(y, dy_);
  }
  void add_costs(std::array<OpTiming, 2>& to) {
    Profile profile(backend_.watch());
    tape_.set_profile(&profile);
    run(true);
    tape_.set_profile(nullptr);
    for (const OpTime& t : profile.times()) to[t.backward].cost.flops += t.flops, to[t.backward].cost.bytes += t.bytes;
  }

 private:
  void add(const OpInput& in, DType dtype) {
    inputs_.push_back(noise(backend_, memory_, in.shape, dtype, 1.0f, static_cast<std::uint32_t>(1 + inputs_.size())));
  }
  Var output() {
    std::vector<Var> vars;
    for (const Tensor& t : inputs_) vars.push_back(tape_.input(t, true));
    return now_->build(vars);
  }

  Backend& backend_;
  DType dtype_;
  Arena masks_, memory_{backend_.memory()}, tape_memory_{backend_.memory()};
  std::vector<OpCase> cases_;
  const OpCase* now_ = nullptr;
  std::vector<Tensor> inputs_;
  Tensor dy_;
  Tape tape_{backend_, tape_memory_};
};

}  // namespace

std::vector<std::string> bench_op_words() {
  Arena memory;
  std::vector<std::string> words;
  for (const OpCase& c : network_ops(memory, {})) words.push_back(c.name);
  return words;
}

std::vector<std::array<OpTiming, 2>> time_ops(Backend& backend, ShardPool& pool, const OpSizes& sizes, DType dtype,
                                              const std::vector<std::string>& names, double seconds) {
  const std::int64_t cuts = backend.whole_batch() ? 1 : std::min<std::int64_t>(pool.threads(), sizes.images);
  std::deque<ImageShare> shares;
  for (std::int64_t i = 0; i < cuts; ++i) {
    OpSizes some = sizes;
    some.images = sizes.images * (i + 1) / cuts - sizes.images * i / cuts;
    shares.emplace_back(backend, dtype, some);
  }
  const std::vector<std::string> known = bench_op_words();
  std::vector<std::array<OpTiming, 2>> all;
  for (std::size_t number = 0; number < known.size(); ++number) {
    if (std::find(names.begin(), names.end(), known[number]) == names.end()) continue;
    std::array<OpTiming, 2>& passes = all.emplace_back();
    for (OpTiming& pass : passes) pass = {known[number], {0, 0}, 0};
    for (ImageShare& share : shares) {
      share.take(number);
      share.add_costs(passes);
    }
    const auto timed = [&](bool backward) {
      return Timed(backend, pool, cuts, false,
                   [&shares, backward](Collective& c) { shares[static_cast<std::size_t>(c.rank())].run(backward); });
    };
    const Timed forward = timed(false), both = timed(true);
    std::vector<double> forwards, backwards;
    for (const BenchClock::time_point begin = BenchClock::now();
         forwards.size() < 3 || seconds_since(begin) < 2 * seconds;) {
      forwards.push_back(forward.round());
      backwards.push_back(both.round() - forwards.back());
    }
    passes[0].seconds = median(std::move(forwards));
    passes[1].seconds = std::max(median(std::move(backwards)), 0.0);
  }
  return all;
}

Measured bench_ops(const BenchOptions& o) {
  const std::vector<std::string> known = bench_op_words();
  for (const std::string& word : o.ops)
    if (std::find(known.begin(), known.end(), word) == known.end())
      throw InputError(fmt::format("--op {}: unknown operation; choose from {}", word, joined(known, ", ")));
  const OpSizes sizes = sizes_of(o);
  const ComputeDevice computer(o.device);
  Backend& backend = o.with_products(computer.backend());
  const std::vector<std::string>& chosen = o.ops.empty() ? known : o.ops;
  if (std::find_first_of(chosen.begin(), chosen.end(), kActivationOps.begin(), kActivationOps.end()) != chosen.end())
    backend.formula_compiler();  // before anything is measured
  ShardPool pool(o.on_gpu() ? 1 : o.threads);
  const Roofline roofline = o.measured_roofline(computer.backend(), pool);
  Json rows = Json::array();
  for (const auto& passes : time_ops(backend, pool, sizes, o.dtype(), chosen, o.seconds))
    for (const bool backward : {false, true}) {
      const auto& [name, cost, each] = passes[backward];
      const double least = roofline.bound(cost.flops, cost.bytes);
      const auto known_time = [each = each](double value, int digits) {
        return each > 0 ? Json(rounded(value, digits)) : Json();
      };
      rows.push_back({{"op", name},
                      {"direction", backward ? "backward" : "forward"},
                      {"ms", known_time(1e3 * each, 5)},
                      {"gflops", known_time(cost.flops / each * 1e-9, 1)},
                      {"gb_per_second", known_time(cost.bytes / each * 1e-9, 2)},
                      {"flops", cost.flops},
                      {"bytes", cost.bytes},
                      {"bound_ms", rounded(1e3 * least, 5)},
                      {"share", known_time(least / each, 4)}});
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
