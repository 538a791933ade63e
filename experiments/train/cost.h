// What a trial will cost, from its settings alone: no data is read and nothing is measured.
#pragma once

#include <optional>

#include "experiments/descriptor/known_images.h"
#include "experiments/train/batches.h"
#include "nn/shard_plan.h"

namespace normlab {

struct TrialCost {
  ModelCost model;
  ShardPlan shards;
  std::optional<std::int64_t> train_images;  // of the slice
  std::optional<StepCount> steps;            // nullopt: unknown until the data is there
  double images = 0, evaluated = 0;          // trained on; seen by all evaluations
  /// Products alone: 6 macs an image trained on (backward costs twice the forward), 2 an image evaluated.
  double training_flops = 0, evaluation_flops = 0;
  /// Bytes, estimated: weights, gradients, moments and averages; what a shard keeps for its backward, one for a thread
  /// (all shards of a batch where batch norm makes them meet); the batch itself.
  double state_bytes = 0, shard_bytes = 0, batch_bytes = 0;
  double bytes(int threads) const {
    return state_bytes + batch_bytes + shard_bytes * double(shards.lockstep ? shards.shards : threads);
  }
  /// On disk, estimated: a checkpoint, and its weights and averages alone.
  double checkpoint_bytes = 0, weights_bytes = 0;
  /// While a trial runs: a checkpoint is written before the former one goes.
  double disk_running() const { return 2 * checkpoint_bytes; }
  /// Once its result is there.
  double disk_kept(KeepCheckpoint keep) const {
    return keep == KeepCheckpoint::last ? checkpoint_bytes : keep == KeepCheckpoint::weights ? weights_bytes : 0.0;
  }
};
TrialCost trial_cost(const TrialConfig& config, const SliceSizes& sizes);
/// The same where only the data set's name says how many images it has.
TrialCost trial_cost(const TrialConfig& config);

/// Multiply-adds a second, twice counted, that one core does in whole steps of networks of some size: `normlab bench
/// step`, docs/results.md.
double default_gflops(Precision precision);

}  // namespace normlab
