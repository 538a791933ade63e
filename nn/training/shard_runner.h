// Runs the shards of a batch on the threads of a pool.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "autograd/ops.h"
#include "core/shards.h"
#include "nn/training/shard_plan.h"
#include "nn/training/shares.h"

namespace normlab {

class ShardRunner {
 public:
  /// Both must outlive the runner.
  ShardRunner(Backend& backend, ShardPool& pool) : backend_(backend), pool_(pool) {}

  /// Tape and arena of one running shard. There are as many as shards run at a time, not one per lane, because recently
  /// used memory is in a cache. Shards in lockstep are alive together, so each has its own.
  struct Workspace {
    Arena arena;
    Tape tape;
    Profile profile;
    std::array<const void*, 4> addresses{};  // of tensors of the last shard, for last_addresses()
    explicit Workspace(Backend& backend);
  };
  /// Calls `body` for each shard of `images` images, with an empty tape. Afterwards every workspace and thread has as
  /// much memory as the largest, since it is chance which of them gets which shard next. `share`: those that run here.
  /// `by_lane`: see ShardPool::run().
  void run(const ShardPlan& plan, std::int64_t images, FunctionRef<void(Workspace&, const BatchSlice&)> body,
           ShardShare& share, bool by_lane = false);

  void set_profiling(bool on);
  bool profiling() const { return profiling_; }
  Profile profile() const;
  std::size_t arena_bytes() const;
  std::vector<const void*> last_addresses() const;

 private:
  /// A free workspace, returned at the end.
  struct Lease {
    ShardRunner& runner;
    Workspace* workspace;
    explicit Lease(ShardRunner& lender) : runner(lender) {
      const std::lock_guard lock(runner.free_mutex_);
      workspace = runner.free_.back();
      runner.free_.pop_back();
    }
    ~Lease() {
      const std::lock_guard lock(runner.free_mutex_);
      runner.free_.push_back(workspace);
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
  };
  Backend& backend_;
  ShardPool& pool_;
  std::vector<std::unique_ptr<Workspace>> workspaces_;
  std::mutex free_mutex_;
  std::vector<Workspace*> free_;     // last used at the end: its memory is still in a cache
  std::uint64_t thread_memory_ = 0;  // the backend's number when the threads' memory was last equalised
  bool profiling_ = false;
};

}  // namespace normlab
