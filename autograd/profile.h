// Where the time of a step goes, by operation: a tape that has a profile adds to it. For measurements only.
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
  double flops = 0;  // of the products in it; element-wise arithmetic is not counted
  double bytes = 0;  // each operand and result once
};

class Profile {
 public:
  /// The clock starts: what runs until the next done() belongs to that operation.
  void start() { mark_ = Clock::now(); }
  /// `op` has run. Backward counts twice the forward's products, attention's two and a half times (it makes the weights
  /// again).
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
