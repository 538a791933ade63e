// How a batch is cut into parts and shards.
#pragma once

#include <cstdint>

#include "nn/model_config.h"

namespace normlab {

/// The shards of a part. A pure function of model and number of images: the same on every machine, for any number of
/// threads.
struct ShardPlan {
  std::int64_t images = 1;  // a shard, the last one may have fewer
  std::int64_t shards = 1;
  std::int64_t lanes = 1;
  bool lockstep = false;  // batch norm: shards meet within a step
};

/// Raised whenever the rule below, or anything else that changes the order of a sum, changes: results carry it.
inline constexpr int kArithmetic = 4;

/// Images a shard so that the widest pair of activations of one layer stays in the second-level cache, or not far
/// beyond it in bf16; `bytes_per_value` of an activation.
ShardPlan plan_shards(const ModelConfig& config, std::int64_t batch, std::int64_t parameters,
                      std::int64_t bytes_per_value);

/// How one network's batches are cut: a step's batch into parts, which go through the network one after the other, and
/// each part, or a batch for evaluation, into shards.
struct BatchCut {
  const ModelConfig& config;
  std::int64_t parameters, bytes_per_value;
  std::int64_t max_batch;         // images of a step
  std::int64_t accumulate;        // parts of such a step
  std::int64_t images_per_shard;  // 0: by plan_shards
  bool whole_batch;               // Backend::whole_batch(): a part is one shard

  /// Images of a part of a step; the last part may have fewer.
  std::int64_t part_images(std::int64_t step_images) const;
  /// Has at most the lanes of a step of max_batch images.
  ShardPlan training(std::int64_t images) const;
  /// The same cut. Nothing meets, and lanes bound how many shards run at a time.
  ShardPlan evaluation(std::int64_t images) const;
};

}  // namespace normlab
