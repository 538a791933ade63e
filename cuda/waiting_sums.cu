#include "cuda/waiting_sums.h"

#include <span>

#include "cuda/column_sums.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// Some sums, and the first block of each and behind the last.
struct Started {
  static constexpr int kMost = 64;
  WaitingSum sums[kMost];
  std::int32_t first[kMost + 1];
};

/// This block's sum; the block counts from the sum's first on.
__device__ const WaitingSum& sum_of_block(const Started& all, int count, std::int64_t& block) {
  int i = 0;
  while (i + 1 < count && all.first[i + 1] <= static_cast<std::int32_t>(blockIdx.x)) ++i;
  block = blockIdx.x - all.first[i];
  return all.sums[i];
}
__device__ void write(const WaitingSum& sum, std::int64_t at, double value) {
  if (sum.wide)
    static_cast<double*>(sum.to)[at] = value;
  else
    static_cast<float*>(sum.to)[at] = float(value);
}

/// A block has a tile of columns, as in finish_chunks().
__global__ void __launch_bounds__(kColumnThreads) finish_waiting(const __grid_constant__ Started all, int count) {
  std::int64_t tile;
  const WaitingSum& sum = sum_of_block(all, count, tile);
  const std::int64_t c = tile * kWarp + threadIdx.x % kWarp;
  const double total = sum_of_chunks(sum.chunks, sum.cols, sum.partial + c, c < sum.cols);
  if (threadIdx.x >= kWarp || c >= sum.cols) return;
  if (sum.group > 1)
    sum.sums[c] = total;
  else
    write(sum, c, total);
}
/// A block has a group of columns, as in add_columns().
__global__ void __launch_bounds__(kColumnThreads) add_waiting(const __grid_constant__ Started all, int count) {
  std::int64_t group;
  const WaitingSum& sum = sum_of_block(all, count, group);
  const double* const sums = sum.sums + group * sum.group;
  const double total = block_sum_of<double>(sum.group, [&](std::int64_t i) { return sums[i]; });
  if (threadIdx.x == 0) write(sum, group, total);
}

}  // namespace

double* WaitingSums::room(std::int64_t count) {
  constexpr std::int64_t kAlignment = 32;  // of values
  count = ceil_div(count, kAlignment) * kAlignment;
  if (used_ + count > size_) {
    start();
    used_ = 0;
    if (count > size_) grow(count);
  }
  double* const room = partial_ + used_;
  used_ += count;
  total_ += count;
  return room;
}

void WaitingSums::wait(const WaitingSum& sum) {
  if (count_ == kMost) start();
  sums_[count_++] = sum;
}

void WaitingSums::start() {
  const auto run = [&](auto* kernel, bool grouped) {
    Started all;
    int count = 0;
    std::int64_t blocks = 0;
    for (const WaitingSum& sum : std::span(sums_, static_cast<std::size_t>(count_)))
      if (!grouped || sum.group > 1) {
        all.sums[count] = sum;
        all.first[count++] = static_cast<std::int32_t>(blocks);
        blocks += grouped ? sum.cols / sum.group : ceil_div(sum.cols, kWarp);
      }
    launch("sums of gradients", kernel, {blocks, kColumnThreads}, stream_, all, count);
  };
  run(finish_waiting, false);
  run(add_waiting, true);
  count_ = 0;
}

void WaitingSums::finish() {
  constexpr std::int64_t kMostMemory = std::int64_t{16} << 20;  // 128 MB
  start();
  const std::int64_t wanted = total_ < kMostMemory ? total_ : kMostMemory;
  if (wanted > size_) grow(wanted);
  used_ = total_ = 0;
}

void WaitingSums::grow(std::int64_t size) {
  partial_ = memory_.get<double>(size);
  size_ = size;
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
