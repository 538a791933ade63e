// Where the gradients of a step's lanes lie. Each lane may have a buffer of its own. If few threads run lane after lane,
// there are fewer buffers: when one is needed, two finished sums that are siblings in core/lane_tree.h are added. The
// tree fixes the order of every sum, so the number of buffers changes no bit.
#pragma once

#include <array>
#include <condition_variable>
#include <mutex>
#include <span>
#include <vector>

#include "core/lane_tree.h"
#include "nn/model/parameters.h"

namespace normlab {

class LaneSums {
 public:
  /// Of `lanes` lanes, for which `parameters` has a buffer each, or as many as gradient_buffers() says.
  LaneSums(Backend& backend, ParameterSet& parameters, std::int64_t lanes);
  /// Whether there are fewer buffers than lanes. Then lanes begin in their order (ShardPool::run(), by_lane).
  bool few() const { return parameters_.lanes() < lanes_; }

  /// Call begin_step() before the shards of a step run and end_step() after them.
  void begin_step();
  void end_step();

  /// A shard's use of its lane. The first shard of a lane may wait for a buffer until other lanes end.
  class Use {
   public:
    Use(LaneSums& sums, std::int64_t lane, bool first, bool last);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    std::int64_t buffer() const { return sums_.few() ? sums_.buffers_[static_cast<std::size_t>(lane_)] : lane_; }

   private:
    LaneSums& sums_;
    const std::int64_t lane_;
    const bool last_;
  };

  /// With few buffers, after a step: what is still to be added, by number of buffer. Buffer 0 then has the total.
  std::span<const LaneMerge> merges() const { return merges_; }

 private:
  void begin(std::int64_t lane);
  void end(std::int64_t lane);
  /// Adds two sums, if there are siblings; the lock is held before and after.
  bool merge(std::unique_lock<std::mutex>& lock);

  Backend& backend_;
  ParameterSet& parameters_;
  const std::int64_t lanes_;
  std::mutex mutex_;
  std::condition_variable change_;
  std::int64_t next_ = 0;                           // the lane that gets the next free buffer
  std::array<std::int64_t, kMostLanes> buffers_{};  // by lane
  // By buffer:
  std::vector<LaneNode> sums_;  // finished
  std::vector<bool> used_;
  std::vector<LaneMerge> merges_;
};

}  // namespace normlab
