#include "autograd/profile.h"

#include <string_view>

namespace normlab {
namespace {

/// Twice the multiply-adds of the products in one forward call.
double forward_flops(std::string_view op, const Tensor* inputs, const Tensor& output) {
  const auto size = [](const Tensor& t) { return double(t.size()); };
  if (op.starts_with("linear")) return 2 * size(output) * double(inputs[0].shape().back());
  if (op == "attention" || op == "window_attention")  // scores and weighted sum: B N N D each
    return 4 * size(output) * double(output.shape()[1]);
  return 0;
}

}  // namespace

OpTime& Profile::entry(const std::string& op, bool backward) {
  for (OpTime& t : times_)
    if (t.backward == backward && t.op == op) return t;
  times_.push_back({op, backward});
  return times_.back();
}

void Profile::done(const char* op, bool backward, const Tensor* inputs, int count, const Tensor& output) {
  OpTime& t = entry(op, backward);
  t.seconds += std::chrono::duration<double>(Clock::now() - mark_).count();
  mark_ = Clock::now();
  ++t.calls;
  const double products = std::string_view(op).ends_with("attention") ? 2.5 : 2.0;
  t.flops += forward_flops(op, inputs, output) * (backward ? products : 1.0);
  t.bytes += double(output.bytes());
  for (int i = 0; i < count; ++i) t.bytes += inputs[i] ? double(inputs[i].bytes()) * (backward ? 2 : 1) : 0.0;
}

void Profile::add(const Profile& other) {
  for (const OpTime& t : other.times_) {
    OpTime& mine = entry(t.op, t.backward);
    mine.calls += t.calls;
    mine.seconds += t.seconds;
    mine.flops += t.flops;
    mine.bytes += t.bytes;
  }
}

}  // namespace normlab
