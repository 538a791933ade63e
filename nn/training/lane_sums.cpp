#include "nn/training/lane_sums.h"

#include <algorithm>

#include "core/backend.h"

namespace normlab {

LaneSums::LaneSums(Backend& backend, ParameterSet& parameters, std::int64_t lanes)
    : backend_(backend),
      parameters_(parameters),
      lanes_(lanes),
      sums_(static_cast<std::size_t>(parameters.lanes())),
      used_(sums_.size()) {
  merges_.reserve(sums_.size());
}

void LaneSums::begin_step() {
  next_ = 0;
  std::ranges::fill(sums_, LaneNode());
  used_.assign(used_.size(), false);
  if (!few())
    for (std::int64_t lane = 0; lane < lanes_; ++lane) parameters_.begin_lane(lane);
}

void LaneSums::end_step() {
  if (!few()) {
    for (std::int64_t lane = 0; lane < lanes_; ++lane) parameters_.end_lane(lane);
    return;
  }
  while (next_ < lanes_) {  // lanes that a small batch leaves without a shard
    begin(next_);
    end(next_ - 1);
  }
  merges_.clear();
  for_merges(sums_, lanes_, [&](const LaneMerge& m) { merges_.push_back(m); });
}

LaneSums::Use::Use(LaneSums& sums, std::int64_t lane, bool first, bool last) : sums_(sums), lane_(lane), last_(last) {
  if (first && sums_.few()) sums_.begin(lane_);
}

LaneSums::Use::~Use() {
  if (last_ && sums_.few()) sums_.end(lane_);
}

/// Buffers go to lanes in their order. So if no lane before this one is running, all their sums fit beside it.
void LaneSums::begin(std::int64_t lane) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto free = std::find(used_.begin(), used_.end(), false);
    if (free != used_.end() && next_ == lane) {
      *free = true;
      buffers_[static_cast<std::size_t>(lane)] = free - used_.begin();
      break;
    }
    if (free != used_.end() || !merge(lock)) change_.wait(lock);
  }
  ++next_;
  change_.notify_all();
  lock.unlock();
  parameters_.begin_lane(buffers_[static_cast<std::size_t>(lane)]);
}

void LaneSums::end(std::int64_t lane) {
  const std::int64_t buffer = buffers_[static_cast<std::size_t>(lane)];
  parameters_.end_lane(buffer);
  const std::lock_guard lock(mutex_);
  sums_[static_cast<std::size_t>(buffer)] = {lane, 1};
  change_.notify_all();
}

bool LaneSums::merge(std::unique_lock<std::mutex>& lock) {
  const std::optional<LaneMerge> siblings = sibling_nodes(sums_, lanes_);
  if (!siblings) return false;
  LaneNode &to = sums_[static_cast<std::size_t>(siblings->to)], &from = sums_[static_cast<std::size_t>(siblings->from)];
  const LaneNode both{to.first, to.count + from.count};
  to = from = {};
  lock.unlock();
  backend_.copy_gradient(parameters_.flat_lane(siblings->from), {parameters_.flat_lane(siblings->to), Write::add});
  lock.lock();
  to = both;
  used_[static_cast<std::size_t>(siblings->from)] = false;
  change_.notify_all();
  return true;
}

}  // namespace normlab
