// Sums the gradients of lanes that lie in several ranks, in the order of core/lane_tree.h.
//
// A rank adds the lanes of each whole subtree that it owns. Each rank receives these sums for its own chunks, completes
// the tree, and is the only one to update the parameters and moments there.
#pragma once

#include <span>
#include <vector>

#include "core/ranks/ranks.h"
#include "core/shards.h"
#include "nn/model/parameters.h"
#include "nn/training/rank_shards.h"

namespace normlab {

class GradientShare {
 public:
  /// The flat buffer has `chunks` chunks of `chunk` values. `whole`: ranges of values, in order, that one rank updates
  /// alone. `lanes` of all ranks together. All ranks call it: see Device::exchange().
  GradientShare(Ranks& ranks, Backend& backend, ParameterSet& parameters, std::int64_t lanes, std::int64_t chunk,
                std::int64_t chunks, std::span<const Stretch> whole);

  /// The chunks whose gradients this rank sums, and the values that it updates.
  const Stretch& chunks() const { return chunks_[rank()]; }
  const Stretch& values() const { return values_[rank()]; }
  /// Writes the totals of chunks() and values() to lane 0, and the squares of all chunks, [chunks], in every rank.
  void sum(ShardPool& pool, double* squares);
  /// Gives every rank the whole total in lane 0.
  void gather_gradient();
  /// Gives every rank all of a tensor in the layout of the trained parameters, from the ranks that update it.
  void gather(const Tensor& flat) { gather(flat, values_); }
  /// Gives it to rank 0 alone.
  void gather_in_root(const Tensor& flat);
  /// values() of each rank.
  std::span<const Stretch> all_values() const { return values_; }
  /// What moves the parameters' memory between the ranks.
  Exchange& exchange() { return exchange_; }
  Ranks& ranks() { return ranks_; }

 private:
  struct Node {  // the sum of a whole subtree of lanes
    int rank;
    std::int64_t first, count;  // lanes
  };
  struct Merge {  // node `to` += node `from`
    std::int64_t to, from;
  };
  std::size_t rank() const { return static_cast<std::size_t>(ranks_.rank()); }
  void add_nodes(int rank, const Stretch& own, std::int64_t first, std::int64_t count);
  std::int64_t add_merges(std::int64_t first, std::int64_t count);
  /// What this rank received of a node: values first to first + count of its chunks.
  Tensor received(std::int64_t node, std::int64_t first, std::int64_t count) const {
    return received_.slice(node, 1).reshape({received_.shape()[1]}).slice(first, count);
  }
  void gather(const Tensor& flat, const std::vector<Stretch>& ranges);

  Ranks& ranks_;
  Backend& backend_;
  Exchange& exchange_;
  ParameterSet& parameters_;
  const std::int64_t chunk_;
  std::vector<Stretch> chunks_, summed_, values_;  // by rank; summed_: the values of its chunks
  std::int64_t first_lane_ = 0;                    // of this rank
  std::vector<Node> nodes_;                        // in the order of the lanes
  std::vector<Merge> merges_;
  std::int64_t own_ = 0;  // values of this rank's chunks
  Tensor received_;       // [nodes, own_ or 1]
  Tensor unused_;         // f64 [chunks], squares of sums that are not complete
};

}  // namespace normlab
