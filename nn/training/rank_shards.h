// Which shards of a part each rank runs. Ranks own neighbouring lanes, and with them their shards.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/ranks/ranks.h"
#include "core/shards.h"
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

/// Rank `rank`'s part of n things in order. Sizes differ by at most one; rank 0 has some if there are any.
Stretch share_of(std::int64_t n, int rank, int ranks);

/// One part's shards, for the rank that runs some of them.
class RankShards final : public SharedShards {
 public:
  /// `images` of the part. `lanes`: those that the ranks divide, at least plan.lanes. `all_run`: a rank without a lane
  /// runs shard 0 as well, so that it takes part in meetings and gets running statistics. Its gradients go nowhere: to
  /// a lane after those of the rank.
  RankShards(Ranks& ranks, const ShardPlan& plan, std::int64_t images, std::int64_t lanes, bool all_run);

  int all() const override { return static_cast<int>(plan_.shards); }
  int number(int own) const override;
  std::span<const Collective::Bytes> exchange(std::span<const Collective::Bytes> here) override;

  /// The shards and lanes of this rank, 0 if it has nothing to do.
  int count() const { return repeats_ ? 1 : static_cast<int>(count_of(ranks_.rank())); }
  int lanes() const { return repeats_ ? 1 : static_cast<int>(lanes_of(ranks_.rank()).size()); }
  /// Whether it has nothing to do but to meet the others.
  bool repeats() const { return repeats_; }
  /// The lane of a shard of this rank, among those of this rank.
  std::int64_t lane(int shard) const {
    const Stretch own = share_of(lanes_, ranks_.rank(), ranks_.size());
    return repeats_ ? own.size() : shard % plan_.lanes - own.begin;
  }

  /// Marks the images of this rank's shards.
  void mark_images(std::vector<bool>::iterator first_image) const;
  /// Copies rows of `bytes` each, one for every image, from the ranks that ran the images to all.
  /// The rows are in memory that `exchange` moves.
  void share_rows(void* rows, std::size_t bytes, Exchange& exchange) const;

 private:
  Stretch lanes_of(int rank) const { return overlap(share_of(lanes_, rank, ranks_.size()), {0, plan_.lanes}); }
  std::int64_t count_of(int rank) const;
  std::int64_t shard_of(int rank, std::int64_t own) const;
  std::int64_t first(std::int64_t shard) const { return std::min(images_, shard * plan_.images); }  // image
  std::int64_t images_of(std::int64_t shard) const { return first(shard + 1) - first(shard); }

  Ranks& ranks_;
  const ShardPlan plan_;
  const std::int64_t images_, lanes_;
  bool repeats_ = false;
  std::vector<std::byte> gathered_;
  std::vector<Collective::Bytes> parts_;
};

}  // namespace normlab
