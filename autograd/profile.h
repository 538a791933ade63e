// Time of a step by operation, collected by tapes that have a profile. For measurements only.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace normlab {

struct OpTime {
  std::string op;
  bool backward = false;
  std::int64_t calls = 0;
  double seconds = 0;
  double flops = 0;  // of the products; elementwise arithmetic is not counted
  double bytes = 0;  // each operand and result counted once
};

class Profile {
 public:
  /// Starts the clock: the time until the next done() belongs to that operation.
  void start() { mark_ = Clock::now(); }
  /// `op` has run. A backward pass counts twice the forward pass's products, or 2.5 times for attention, which
  /// recomputes the weights.
  void done(const char* op, bool backward, const Tensor* inputs, int count, const Tensor& output);

  const std::vector<OpTime>& times() const { return times_; }
  void clear() { times_.clear(); }
  /// Adds the times of another tape.
  void add(const Profile& other);

 private:
  using Clock = std::chrono::steady_clock;
  OpTime& entry(const std::string& op, bool backward);
  Clock::time_point mark_ = Clock::now();
  std::vector<OpTime> times_;
};

}  // namespace normlab
