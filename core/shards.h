// Runs the shards of a step on a few threads, in an order that fixes every sum.
//
// Shard i adds its gradients into lane i mod L, after shard i - L has. Threads take the next shard of any lane that is
// free. Where shards meet in a Collective, a waiting shard gives its run slot and its lane away; between two meetings
// the order within a lane holds again. Nothing here depends on the number of threads but the time it takes.
#pragma once

#include <semaphore.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/collective.h"

namespace normlab {

class ShardPool {
 public:
  /// `threads` >= 1: how many shards run at a time. Throws InputError below 1.
  explicit ShardPool(int threads);
  ~ShardPool();
  ShardPool(const ShardPool&) = delete;
  ShardPool& operator=(const ShardPool&) = delete;

  int threads() const { return slots_; }

  /// Calls `body` once for each shard. `lockstep`: shards meet in the Collective, so all are alive at once, each on a
  /// thread of its own of which `threads` run. Returns when all are done; throws the error of the lowest shard that
  /// failed.
  void run(int shards, int lanes, bool lockstep, FunctionRef<void(Collective&)> body);

  /// Calls `body` once on each thread that has ever run a shard here, or may in a run of up to threads() shards.
  void on_each_thread(FunctionRef<void()> body);

  /// Calls `body(block)` for each block in [0, blocks): independent work, in any order.
  void for_blocks(std::int64_t blocks, FunctionRef<void(std::int64_t)> body);

 private:
  class Member;  // a shard's view of the collective
  /// What a waiting shard is told, once for each wait. By a semaphore: who wakes needs no lock, which the waker may
  /// still hold.
  enum class Signal { granted, aborted };
  struct ShardRecord {
    ShardRecord() { sem_init(&wake, 0, 0); }
    ~ShardRecord() { sem_destroy(&wake); }
    ShardRecord(const ShardRecord&) = delete;
    ShardRecord& operator=(const ShardRecord&) = delete;
    sem_t wake;
    Signal signal = Signal::granted;  // written before the semaphore goes up, read after it went down
    int segments = 0;                 // meetings reached, and one more when it is done
    bool waiting_to_run = false, in_meeting = false;
    void* contribution = nullptr;
    std::exception_ptr error;
  };

  void thread_loop();
  void start_threads(int count);
  void take_shards();  // until none is left
  void run_shard(int shard);
  /// Waits for a slot; the lock is held before and not after.
  void acquire(std::unique_lock<std::mutex>& lock, int shard);
  static Signal wait(ShardRecord& record);
  static void wake(ShardRecord& record, Signal signal);
  void abort(int shard, std::exception_ptr error);
  bool lane_is_free(int shard) const;
  void grant();  // hands free slots to waiting shards, lowest first
  void meet(int shard, void* mine, FunctionRef<void(std::span<void* const>)> combine);

  const int slots_;
  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::vector<std::thread> threads_;
  std::vector<std::unique_ptr<ShardRecord>> records_;
  std::vector<void*> contributions_;

  const FunctionRef<void(Collective&)>* body_ = nullptr;
  int shards_ = 0, lanes_ = 1, next_ = 0, finished_ = 0, active_ = 0, free_slots_ = 0, arrived_ = 0;
  int helpers_wanted_ = 0;  // threads that are still to join the run
  std::atomic<bool> aborted_{false};
  bool lockstep_ = false, stop_ = false;
};

/// Sets this thread to flush denormals to zero; every worker does. No-op where the CPU has no such switch.
void flush_denormals();

}  // namespace normlab
