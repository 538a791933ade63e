// How a batch is cut into parts and shards.
#pragma once

#include <cstdint>

#include "nn/model/model_config.h"

namespace normlab {

/// The shards of a part. A pure function of model and number of images: the same on every machine and for any number
/// of threads.
struct ShardPlan {
  std::int64_t images = 1;  // per shard; the last one may have fewer
  std::int64_t shards = 1;
  std::int64_t lanes = 1;
  bool lockstep = false;  // batch norm: shards meet within a step
};

/// Increased whenever the rule below, or anything else that changes the bits of a training, such as the order of a sum,
/// changes. Results carry it.
inline constexpr int kArithmetic = 9;

/// Whether the shards of a step meet: for the statistics of batch norms, or to contrast all pairs of a batch.
bool shards_meet(const ModelConfig& config);

/// Images per shard such that the widest pair of activations of one layer fits the second-level cache, or slightly more
/// in bf16. `bytes_per_value` is an activation's.
ShardPlan plan_shards(const ModelConfig& config, std::int64_t batch, std::int64_t parameters,
                      std::int64_t bytes_per_value);

/// Gradient buffers that one process with so many threads needs for the lanes of a part of a step. Where threads divide
/// the lanes, each can run lane after lane, and only the open sums of core/lane_tree.h need memory. Not where a lane
/// waits for the next part of its step, or in a meeting, nor if lanes have too few shards to pay for adding them early.
std::int64_t gradient_buffers(const ShardPlan& part, std::int64_t accumulate, int threads);

/// How a network's batches are cut: a step's batch into parts, which run one after another, and each part or evaluation
/// batch into shards.
struct BatchCut {
  const ModelConfig& config;
  std::int64_t parameters, bytes_per_value;
  std::int64_t max_batch;         // images of a step
  std::int64_t accumulate;        // parts of such a step
  std::int64_t images_per_shard;  // 0: by plan_shards
  std::int64_t device_shards;     // of a part, on a device that wants few (Backend::whole_batch()); 0: on others

  /// Images of a part of a step; the last part may have fewer.
  std::int64_t part_images(std::int64_t step_images) const;
  /// Has at most the lanes of a step of max_batch images.
  ShardPlan training(std::int64_t images) const;
  /// The same cut, but shards do not meet, and lanes only limit how many run at a time.
  ShardPlan evaluation(std::int64_t images) const;
};

}  // namespace normlab
