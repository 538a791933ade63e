#include "nn/training/rank_shards.h"

#include <cstring>

namespace normlab {

Stretch share_of(std::int64_t n, int rank, int ranks) {
  const auto at = [&](std::int64_t r) { return (r * n + ranks - 1) / ranks; };
  return {at(rank), at(rank + 1)};
}

RankShards::RankShards(Ranks& ranks, const ShardPlan& plan, std::int64_t images, std::int64_t lanes, bool all_run)
    : ranks_(ranks), plan_(plan), images_(images), lanes_(lanes), repeats_(all_run && count_of(ranks.rank()) == 0) {}

std::int64_t RankShards::count_of(int rank) const {
  const Stretch own = lanes_of(rank);
  const std::int64_t rest = std::clamp<std::int64_t>(plan_.shards % plan_.lanes - own.begin, 0, own.size());
  return plan_.shards / plan_.lanes * own.size() + rest;
}

std::int64_t RankShards::shard_of(int rank, std::int64_t own) const {
  const Stretch lanes = lanes_of(rank);
  return own / lanes.size() * plan_.lanes + lanes.begin + own % lanes.size();
}

int RankShards::number(int own) const { return repeats_ ? 0 : static_cast<int>(shard_of(ranks_.rank(), own)); }

/// The parts of a rank lie together, so that one call moves them.
std::span<const Collective::Bytes> RankShards::exchange(std::span<const Collective::Bytes> here) {
  const std::size_t bytes = here[0].size() / static_cast<std::size_t>(images_of(number(0)));
  gathered_.resize(static_cast<std::size_t>(images_) * bytes);
  parts_.resize(static_cast<std::size_t>(plan_.shards));
  std::vector<Ranks::Received> of_ranks;
  std::byte* at = gathered_.data();
  for (int r = 0; r < ranks_.size(); ++r) {
    std::byte* const begin = at;
    for (std::int64_t i = 0, n = count_of(r); i < n; ++i) {
      const std::int64_t shard = shard_of(r, i);
      const std::size_t size = static_cast<std::size_t>(images_of(shard)) * bytes;
      if (r == ranks_.rank()) std::memcpy(at, here[static_cast<std::size_t>(i)].data(), size);
      parts_[static_cast<std::size_t>(shard)] = Collective::Bytes(at, size);
      at += size;
    }
    of_ranks.emplace_back(begin, at);
  }
  ranks_.all_gather(of_ranks);
  return parts_;
}

void RankShards::mark_images(std::vector<bool>::iterator first_image) const {
  for (int own = 0; own < count(); ++own) {
    const std::int64_t shard = number(own);
    std::fill_n(first_image + shard * plan_.images, images_of(shard), true);
  }
}

void RankShards::share_rows(void* rows, std::size_t bytes, Exchange& exchange) const {
  for (std::int64_t turn = 0; turn < plan_.shards; turn += plan_.lanes) {  // in which a rank's shards are neighbours
    std::vector<Exchange::Received> parts;
    for (int r = 0; r < ranks_.size(); ++r) {
      const Stretch lanes = lanes_of(r);
      std::byte* const begin = static_cast<std::byte*>(rows);
      parts.emplace_back(begin + static_cast<std::size_t>(first(turn + lanes.begin)) * bytes,
                         begin + static_cast<std::size_t>(first(turn + lanes.end)) * bytes);
    }
    exchange.all_gather(parts);
  }
}

}  // namespace normlab
