#include "experiments/lab/bench/op_timing.h"

#include "core/backend.h"

#include <fmt/core.h>

#include <algorithm>

#include "autograd/profile.h"

namespace normlab {

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

/// Some of the images, with the table, inputs and tape of one thread.
class OpTimer::Share {
 public:
  Share(Backend& backend, DType dtype, const OpSizes& sizes)
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
    Profile profile;
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

OpTimer::OpTimer(Backend& backend, ShardPool& pool, const OpSizes& sizes, DType dtype)
    : backend_(backend), pool_(pool) {
  const std::int64_t cuts = backend.whole_batch() ? 1 : std::min<std::int64_t>(pool.threads(), sizes.images);
  for (std::int64_t i = 0; i < cuts; ++i) {
    OpSizes some = sizes;
    some.images = sizes.images * (i + 1) / cuts - sizes.images * i / cuts;
    shares_.push_back(std::make_unique<Share>(backend, dtype, some));
  }
}
OpTimer::~OpTimer() = default;

std::array<OpTiming, 2> OpTimer::measure(std::size_t number, double seconds) {
  std::array<OpTiming, 2> result{};
  for (const auto& share : shares_) {
    share->take(number);
    share->add_costs(result);
  }
  const auto timed = [&](bool backward) {
    return Timed(backend_, pool_, std::int64_t(shares_.size()), false,
                 [this, backward](Collective& c) { shares_[static_cast<std::size_t>(c.rank())]->run(backward); });
  };
  const Timed forward = timed(false), both = timed(true);
  std::vector<double> forwards, backwards;
  for (const BenchClock::time_point begin = BenchClock::now();
       forwards.size() < 3 || seconds_since(begin) < 2 * seconds;) {
    forwards.push_back(forward.round());
    backwards.push_back(both.round() - forwards.back());
  }
  result[0].seconds = median(std::move(forwards));
  result[1].seconds = std::max(median(std::move(backwards)), 0.0);
  return result;
}

}  // namespace normlab
