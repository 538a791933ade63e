#include "experiments/lab/data/sample_order.h"

#include <algorithm>

#include "core/error.h"
#include "core/random.h"

namespace normlab {
namespace {

std::vector<std::int64_t> through_buffer(const std::vector<std::int64_t>& from, std::int64_t buffer, std::uint64_t seed,
                                         std::uint64_t epoch) {
  const StreamKey key = stream_key(seed, "order", "buffer");
  const auto n = static_cast<std::int64_t>(from.size());
  std::int64_t next = std::min(buffer, n);
  std::vector<std::int64_t> held(from.begin(), from.begin() + next), out;
  out.reserve(from.size());
  for (std::int64_t i = 0; i < n; ++i) {
    const auto words = draw(key, static_cast<std::uint64_t>(i), epoch);
    const std::size_t at = below(words[0], static_cast<std::uint32_t>(held.size()));
    out.push_back(held[at]);
    if (next < n) {
      held[at] = from[static_cast<std::size_t>(next++)];
    } else {
      held[at] = held.back();
      held.pop_back();
    }
  }
  return out;
}

}  // namespace

std::vector<std::int64_t> sample_order(const DatasetConfig& config, const ImageSet& set, std::uint64_t seed,
                                       std::int64_t epoch) {
  const auto step = static_cast<std::uint64_t>(epoch);
  const StreamKey key = stream_key(seed, "order", "train");
  if (config.order == SampleOrder::shuffled) return permutation(key, set.size(), step);
  if (set.shards.empty()) throw InputError("dataset.order is \"shards\", but these images are not stored in shards");
  std::vector<std::int64_t> sequence;
  sequence.reserve(static_cast<std::size_t>(set.size()));
  for (const std::int64_t shard : permutation(key, static_cast<std::int64_t>(set.shards.size()), step)) {
    const std::vector<std::int64_t>& images = set.shards[static_cast<std::size_t>(shard)];
    sequence.insert(sequence.end(), images.begin(), images.end());
  }
  return through_buffer(sequence, config.shuffle_buffer, seed, step);
}

}  // namespace normlab
