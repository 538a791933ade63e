// Time of a step by operation, collected by tapes that have a profile. For measurements only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "core/watch.h"

namespace normlab {

struct OpTime {
  std::string op;
  bool backward = false;
  std::int64_t calls = 0, launches = 0;
  double seconds = 0;
  double flops = 0;  // of the products; elementwise arithmetic is not counted
  double bytes = 0;  // each operand and result counted once
};

class Profile {
 public:
  /// `watch` is that of the device whose operations are timed; without one there are only sums of others.
  explicit Profile(std::unique_ptr<Watch> watch = nullptr) : watch_(std::move(watch)) {}
  /// The time until the next done() belongs to that operation.
  void start() { mark(kNoOperation); }
  /// `op` has run. A backward pass counts twice the forward pass's products, or 2.5 times for attention, which
  /// recomputes the weights.
  void done(const char* op, bool backward, const Tensor* inputs, int count, const Tensor& output);

  /// Without seconds and launches of operations after the last settle().
  const std::vector<OpTime>& times() const { return times_; }
  /// Waits for the operations and adds their seconds and launches.
  void settle();
  void clear();
  /// Adds the times of another tape, and settles them.
  void add(Profile& other);

 private:
  static constexpr std::size_t kNoOperation = ~std::size_t{0};
  /// The place in times_.
  std::size_t entry(const std::string& op, bool backward);
  void mark(std::size_t owner);
  std::unique_ptr<Watch> watch_;
  std::vector<std::size_t> owners_;  // of the laps that end at its marks
  std::vector<OpTime> times_;
};

}  // namespace normlab
