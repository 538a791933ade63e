// The second stage of sums over rows, for gradients that may wait: one launch then computes those of many operations,
// each of which would take longer to start than to run.
#pragma once

#include <cstdint>

#include "cuda/memory.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// A sum over the chunks in `partial` [chunks, cols], for each column or, if group > 1, for groups of columns.
struct WaitingSum {
  const double* partial;
  void* to;      // [cols / group] of float, or of double if `wide`
  double* sums;  // [cols], if group > 1
  std::int32_t chunks, cols, group;
  bool wide;
};

class WaitingSums {
 public:
  explicit WaitingSums(const Stream& stream) : stream_(stream), memory_("sums of gradients", stream) {}

  /// Room for `count` partial sums, in use until the sums are finished. May finish earlier ones.
  double* room(std::int64_t count);
  void wait(const WaitingSum&);
  /// Starts the second stage of all sums that wait. Afterwards there is room for as many as there were.
  void finish();
  void forget() { count_ = 0; }

 private:
  static constexpr int kMost = 64;
  void start();
  void grow(std::int64_t size);

  const Stream& stream_;
  Buffer memory_;
  double* partial_ = nullptr;
  std::int64_t size_ = 0, used_ = 0, total_ = 0;  // of partial sums; total_ since finish()
  int count_ = 0;
  WaitingSum sums_[kMost];
};

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
