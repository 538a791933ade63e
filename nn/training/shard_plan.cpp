#include "nn/training/shard_plan.h"

#include <algorithm>
#include <bit>

#include "core/dtype.h"
#include "core/lane_tree.h"

namespace normlab {
namespace {

// Bytes of activations that one layer of a shard may use. A constant rather than the machine's cache size, because the
// cut affects sums. Twice the usual second-level cache, so that more images share the cost of fetching a weight. More
// in bf16, where products take half the time, but adding weight gradients to a lane in float does not.
constexpr std::int64_t kCacheBytes = std::int64_t{2} << 20, kCacheBytesBf16 = std::int64_t{3} << 20;
// Shards are few, so their number is a multiple of this, which a multiple of threads finishes together.
constexpr std::int64_t kShardMultiple = 16, kShardMultipleBf16 = 4;
// Lanes limit how many threads, or processes, a step can use, and each may take the memory of a gradient. Their number is
// halved if all together would exceed these bytes. Twice as many lanes cost a small network 4% of a step.
constexpr std::int64_t kMostLaneBytes = std::int64_t{1} << 30;

}  // namespace

bool shards_meet(const ModelConfig& config) { return uses_batch_norm(config) || has_text(config); }

ShardPlan plan_shards(const ModelConfig& c, std::int64_t batch, std::int64_t parameters, std::int64_t bytes_per_value) {
  const std::int64_t widest = widest_layer(c) * bytes_per_value;
  const bool narrow = bytes_per_value == std::int64_t(size_of(DType::bf16));
  const std::int64_t fitting = std::max<std::int64_t>(1, (narrow ? kCacheBytesBf16 : kCacheBytes) / widest);
  ShardPlan plan;
  plan.shards = std::max<std::int64_t>(1, (batch + fitting - 1) / fitting);
  const std::int64_t multiple = narrow ? kShardMultipleBf16 : kShardMultiple;
  plan.shards = (plan.shards + multiple - 1) / multiple * multiple;
  plan.shards = std::min(batch, plan.shards);
  plan.images = (batch + plan.shards - 1) / plan.shards;
  plan.shards = (batch + plan.images - 1) / plan.images;
  plan.lanes = std::min(plan.shards, kMostLanes * 4 * parameters <= kMostLaneBytes ? kMostLanes : kMostLanes / 2);
  plan.lockstep = shards_meet(c) && plan.shards > 1;
  return plan;
}

std::int64_t gradient_buffers(const ShardPlan& part, std::int64_t accumulate, int threads) {
  // An early addition passes over two gradients. With one shard to a lane, in bf16, this took 3% of a step.
  const bool pays = 4 * part.shards >= 7 * part.lanes;
  if (!pays || accumulate > 1 || part.lockstep || part.lanes % threads != 0) return part.lanes;
  // The running lanes, and finished left siblings on the way to them.
  return std::min<std::int64_t>(part.lanes, std::max(2, threads) + std::bit_width(std::uint64_t(part.lanes - 1)) - 1);
}

std::int64_t BatchCut::part_images(std::int64_t step_images) const {
  if (accumulate <= 1) return step_images;
  return std::min(step_images, std::max<std::int64_t>(1, max_batch / accumulate));
}

ShardPlan BatchCut::training(std::int64_t images) const {
  ShardPlan plan;
  if (device_shards > 0) {
    plan.images = std::max<std::int64_t>(1, (images + device_shards - 1) / device_shards);
    plan.shards = plan.lanes = std::max<std::int64_t>(1, (images + plan.images - 1) / plan.images);
  } else {
    plan = plan_shards(config, images, parameters, bytes_per_value);
    if (images_per_shard > 0) {
      plan.images = std::min(images, images_per_shard);
      plan.shards = (images + plan.images - 1) / plan.images;
      plan.lanes = std::min(plan.lanes, plan.shards);
      plan.lockstep = shards_meet(config) && plan.shards > 1;
    }
  }
  const std::int64_t largest = part_images(max_batch);
  if (images != largest) plan.lanes = std::min(plan.lanes, training(largest).lanes);
  return plan;
}

ShardPlan BatchCut::evaluation(std::int64_t images) const {
  ShardPlan plan = training(images);
  plan.lanes = std::min<std::int64_t>(plan.shards, kMostLanes);
  plan.lockstep = false;
  return plan;
}

}  // namespace normlab
