// What each process of a group runs, sums and updates in a step. A process alone has all of it.
//
// Processes own neighbouring lanes, and with them their shards. A process adds the lanes of each whole subtree of
// core/lane_tree.h that it owns. Each receives these sums for its own chunks, completes the tree, and is the only one to
// update the parameters and moments there. So sums have the order that they have in one process.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/group.h"
#include "core/shards.h"
#include "nn/model/parameters.h"
#include "nn/training/lane_sums.h"
#include "nn/training/shard_plan.h"

namespace normlab {

/// Things begin to end - 1 of an ordered list.
struct Stretch {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool contains(std::int64_t i) const { return begin <= i && i < end; }
};
inline Stretch overlap(const Stretch& a, const Stretch& b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

/// The part of process `number` of `size` of n things in order. Sizes differ by at most one; number 0 has some if there
/// are any.
Stretch share_of(std::int64_t n, int number, int size);

/// One part's shards, of which this process runs some.
class ShardShare final : public SharedShards {
 public:
  /// `images` of the part. `lanes`: those that the group divides, at least plan.lanes. `all_run`: a process without a
  /// lane runs shard 0 as well, so that it takes part in meetings and gets running statistics. Its gradients go nowhere:
  /// to a lane after its own.
  ShardShare(Group& group, const ShardPlan& plan, std::int64_t images, std::int64_t lanes, bool all_run);
  /// The lanes that a process needs memory for.
  static std::int64_t lanes_here(const Group& group, std::int64_t lanes, bool all_run) {
    return std::max<std::int64_t>(1,
                                  share_of(lanes, group.number(), group.size()).size() + (all_run && !group.alone()));
  }

  int all() const override { return static_cast<int>(plan_.shards); }
  int number(int own) const override;
  std::span<const Collective::Bytes> exchange(std::span<const Collective::Bytes> here) override;

  /// The shards and lanes here, 0 if there is nothing to do.
  int count() const { return repeats_ ? 1 : static_cast<int>(count_of(group_.number())); }
  int lanes() const { return repeats_ ? 1 : static_cast<int>(lanes_of(group_.number()).size()); }
  /// Whether there is nothing to do here but to meet the others.
  bool repeats() const { return repeats_; }
  /// The lane of a shard that runs here, among the lanes here.
  std::int64_t lane(int shard) const {
    const Stretch own = share_of(lanes_, group_.number(), group_.size());
    return repeats_ ? own.size() : shard % plan_.lanes - own.begin;
  }

  /// Marks the images of the shards here.
  void mark_images(std::vector<bool>::iterator first_image) const;
  /// Copies rows of `bytes` each, one for every image, from the processes that ran the images to all.
  /// The rows are in memory that `exchange` moves.
  void share_rows(void* rows, std::size_t bytes, Exchange& exchange) const;

 private:
  Stretch lanes_of(int number) const { return overlap(share_of(lanes_, number, group_.size()), {0, plan_.lanes}); }
  std::int64_t count_of(int number) const;
  std::int64_t shard_of(int number, std::int64_t own) const;
  std::int64_t first(std::int64_t shard) const { return std::min(images_, shard * plan_.images); }  // image
  std::int64_t images_of(std::int64_t shard) const { return first(shard + 1) - first(shard); }

  Group& group_;
  const ShardPlan plan_;
  const std::int64_t images_, lanes_;
  bool repeats_ = false;
  std::vector<std::byte> gathered_;
  std::vector<Collective::Bytes> parts_;
};

/// Sums the gradients of the lanes of all processes.
class GradientShare {
 public:
  /// The flat buffer has `chunks` chunks of `chunk` values. `whole`: ranges of values, in order, that one process updates
  /// alone. `lanes` of all processes together. All call it: see Device::exchange().
  GradientShare(Group& group, Backend& backend, ParameterSet& parameters, std::int64_t lanes, std::int64_t chunk,
                std::int64_t chunks, std::span<const Stretch> whole);

  LaneSums& lane_sums() { return lane_sums_; }
  /// The values that this process updates.
  const Stretch& values() const { return values_[own_index()]; }
  /// Writes the totals of this process's chunks and of values() to lane 0, and the squares of all chunks, [chunks].
  void sum(ShardPool& pool, double* squares);
  /// Gives every process the whole total in lane 0.
  void gather_gradient() { gather(parameters_.flat_lane(0), summed_); }
  /// Gives every process all of a tensor in the layout of the trained parameters, from those that update it.
  void gather(const Tensor& flat) { gather(flat, values_); }
  /// The same for memory that has a part for the values of each process.
  void gather_parts(FunctionRef<Exchange::Received(const Stretch& values)> part_of) { gather(part_of, values_); }
  /// Gives a tensor of that layout to process 0 alone.
  void gather_in_root(const Tensor& flat);
  bool in_root() const { return group_.root(); }

 private:
  struct Node {  // the sum of a whole subtree of lanes
    int owner;
    LaneNode lanes;
  };
  std::size_t own_index() const { return static_cast<std::size_t>(group_.number()); }
  void add_nodes(int owner, const Stretch& own, std::int64_t first, std::int64_t count);
  /// What this process received of a node: values first to first + count of its chunks.
  Tensor received(std::int64_t node, std::int64_t first, std::int64_t count) const {
    return received_.slice(node, 1).reshape({received_.shape()[1]}).slice(first, count);
  }
  void gather(const Tensor& flat, const std::vector<Stretch>& ranges);
  void gather(FunctionRef<Exchange::Received(const Stretch&)> part_of, const std::vector<Stretch>& ranges);

  Group& group_;
  Backend& backend_;
  Exchange& exchange_;
  ParameterSet& parameters_;
  LaneSums lane_sums_;
  const std::int64_t chunk_;
  std::vector<Stretch> chunks_, summed_, values_;  // by process; summed_: the values of its chunks
  // Of a group of several:
  std::int64_t first_lane_ = 0;  // here
  std::vector<Node> nodes_;      // in the order of the lanes
  std::vector<LaneMerge> merges_;
  Tensor received_;  // [nodes, values of the chunks here, or 1]
  Tensor unused_;    // f64 [chunks], squares of sums that are not complete
};

}  // namespace normlab
