// Runs the shards of a step on a few threads, in an order that fixes every sum.
//
// Shard i adds its gradients to lane i mod L, after shard i - L. Threads take the next shard of any free lane, or finish
// lanes in their order. Where shards meet in a Collective, a waiting shard gives up its thread and its lane; between two
// meetings the order within a lane holds again. The number of threads affects only the time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/collective.h"
#include "core/fiber.h"
#include "core/group.h"

namespace normlab {

/// The shards of a run that the processes of a group share. In a process's own numbering its shards are 0, 1, ...
class SharedShards {
 public:
  virtual ~SharedShards() = default;
  virtual int all() const = 0;
  virtual int number(int own) const = 0;
  /// What all shards contribute to a meeting, in their order, from what the shards here do. Valid until the next call.
  virtual std::span<const Collective::Bytes> exchange(std::span<const Collective::Bytes> here) = 0;
};

class ShardPool {
 public:
  /// `threads` >= 1: how many shards run at a time. Throws InputError below 1. `group`: the processes that share the work
  /// on a network; it must outlive the pool.
  explicit ShardPool(int threads, Group& group = group_of_one());
  ~ShardPool();
  ShardPool(const ShardPool&) = delete;
  ShardPool& operator=(const ShardPool&) = delete;

  int threads() const { return count_; }
  Group& group() const { return group_; }

  /// Calls `body` once for each shard. `lockstep`: shards may meet in the Collective, so each gets its own fiber.
  /// Returns when all are done; throws the error of the lowest-numbered shard that failed. `shared`: these are the
  /// shards of this process among those of its group. `by_lane`: threads prefer low lanes to low shards, so that lanes
  /// begin in their order, and no more are begun and unfinished than there are threads.
  void run(int shards, int lanes, bool lockstep, FunctionRef<void(Collective&)> body, SharedShards* shared = nullptr,
           bool by_lane = false);

  /// Calls `body` once on each thread.
  void on_each_thread(FunctionRef<void()> body);

  /// Calls `body(block)` for each block in [0, blocks): independent work, in any order.
  void for_blocks(std::int64_t blocks, FunctionRef<void(std::int64_t)> body);

 private:
  class Shard;  // one shard of a run with its view of the collective

  void start_threads();
  /// Runs shards that can run, in order, until `ended`; the lock is held before and after.
  template <class Ended>
  void work(std::unique_lock<std::mutex>& lock, const Ended& ended);
  Shard* next_runnable() const;
  void run_shard(std::unique_lock<std::mutex>& lock, Shard& shard);
  void arrive(std::unique_lock<std::mutex>& lock, Shard& shard);
  void combine(Collective::Combine combine);  // what the shards here, and those elsewhere, contribute
  void call_off();                            // ends all meetings; the lock is held
  void changed();                             // wakes waiting threads; the lock is held
  void wait_for_change(std::unique_lock<std::mutex>& lock);

  const int count_;
  Group& group_;
  std::mutex mutex_;
  std::condition_variable change_;
  std::vector<std::thread> threads_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<Collective::Bytes> contributions_;
  std::vector<void*> own_;  // objects of the shards that meet
  SharedShards* shared_ = nullptr;

  const FunctionRef<void(Collective&)>* body_ = nullptr;
  int total_ = 0, lanes_ = 1, finished_ = 0, arrived_ = 0, sleeping_ = 0;
  std::atomic<std::uint64_t> changes_{0};
  bool lockstep_ = false, by_lane_ = false, aborted_ = false, stop_ = false;
};

/// Makes this thread flush denormals to zero, as every worker does. No-op if the CPU cannot.
void flush_denormals();

}  // namespace normlab
