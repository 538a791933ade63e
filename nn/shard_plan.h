// How a batch is cut into shards.
#pragma once

#include <cstdint>

#include "nn/model_config.h"

namespace normlab {

/// How a batch is cut. A pure function of model and batch: the same on every machine, for any number of threads.
struct ShardPlan {
  std::int64_t images = 1;  // a shard, the last one may have fewer
  std::int64_t shards = 1;
  std::int64_t lanes = 1;
  bool lockstep = false;  // batch norm: shards meet within a step
};

/// Raised whenever the rule below, or anything else that changes the order of a sum, changes: results carry it.
inline constexpr int kArithmetic = 3;

/// Images a shard so that the widest pair of activations of one layer stays in the second-level cache, or not far
/// beyond it in bf16; `bytes_per_value` of an activation.
ShardPlan plan_shards(const ModelConfig& config, std::int64_t batch, std::int64_t parameters,
                      std::int64_t bytes_per_value);

}  // namespace normlab
