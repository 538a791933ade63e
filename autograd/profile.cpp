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

std::size_t Profile::entry(const std::string& op, bool backward) {
  std::size_t i = 0;
  while (i < times_.size() && (times_[i].backward != backward || times_[i].op != op)) ++i;
  if (i == times_.size()) times_.push_back({op, backward});
  return i;
}

void Profile::mark(std::size_t owner) {
  watch_->mark();
  owners_.push_back(owner);
}

void Profile::settle() {
  if (!watch_) return;
  const std::vector<Watch::Lap> laps = watch_->take();
  for (std::size_t i = 0; i < laps.size(); ++i) {
    if (owners_[i] == kNoOperation) continue;
    times_[owners_[i]].seconds += laps[i].seconds;
    times_[owners_[i]].launches += laps[i].launches;
  }
  owners_.clear();
}

void Profile::clear() {
  settle();
  times_.clear();
}

void Profile::done(const char* op, bool backward, const Tensor* inputs, int count, const Tensor& output) {
  const std::size_t place = entry(op, backward);
  mark(place);
  OpTime& t = times_[place];
  ++t.calls;
  const double products = std::string_view(op).ends_with("attention") ? 2.5 : 2.0;
  t.flops += forward_flops(op, inputs, output) * (backward ? products : 1.0);
  t.bytes += double(output.bytes());
  for (int i = 0; i < count; ++i) t.bytes += inputs[i] ? double(inputs[i].bytes()) * (backward ? 2 : 1) : 0.0;
}

void Profile::add(Profile& other) {
  other.settle();
  for (const OpTime& t : other.times_) {
    OpTime& mine = times_[entry(t.op, t.backward)];
    mine.calls += t.calls;
    mine.launches += t.launches;
    mine.seconds += t.seconds;
    mine.flops += t.flops;
    mine.bytes += t.bytes;
  }
}

}  // namespace normlab
