// The estimated cost of a trial, from its settings alone, without reading data or measuring.
#pragma once

#include <optional>

#include "experiments/lab/descriptor/slice.h"
#include "experiments/lab/train/batches.h"
#include "nn/training/shard_plan.h"

namespace normlab {

struct TrialCost {
  ModelCost model;
  ShardPlan shards;
  std::optional<std::int64_t> train_images;  // of the slice
  std::optional<StepCount> steps;            // nullopt: unknown until the data are loaded
  double images = 0, evaluated = 0;          // images trained on; images, or windows of them, in all evaluations
  /// Matrix products only: 6 flops per multiply-add of a training image (the backward pass costs twice the forward
  /// pass), 2 per multiply-add of an evaluated image.
  double training_flops = 0, evaluation_flops = 0;
  /// If features are stored, each image passes through the network once, and only the head is trained.
  FeaturePlan features;
  std::int64_t head_macs = 0;  // of the head or the text tower, per image
  /// Estimated bytes: weight_bytes for weights, moments and averages; gradient_bytes for a gradient buffer; shard_bytes
  /// for what a shard keeps for its backward pass, once per thread (once per shard of a batch if batch norm needs them
  /// all); batch_bytes for the batch.
  double weight_bytes = 0, gradient_bytes = 0, shard_bytes = 0, batch_bytes = 0;
  std::int64_t accumulate = 1;
  double state_bytes(int threads) const {
    return weight_bytes + gradient_bytes * double(gradient_buffers(shards, accumulate, threads));
  }
  double bytes(int threads) const {
    return state_bytes(threads) + batch_bytes + (features.once() ? features.bytes : 0) +
           shard_bytes * double(shards.lockstep ? shards.shards : threads);
  }
  /// Estimated bytes on disk: a checkpoint, and only its weights and averages.
  double checkpoint_bytes = 0, weights_bytes = 0;
  /// While the trial runs: a new checkpoint is written before the former one is deleted.
  double disk_running() const { return 2 * checkpoint_bytes; }
  /// Once the trial has a result.
  double disk_kept(KeepCheckpoint keep) const {
    return keep == KeepCheckpoint::last ? checkpoint_bytes : keep == KeepCheckpoint::weights ? weights_bytes : 0.0;
  }
};
TrialCost trial_cost(const TrialConfig& config, const SliceSizes& sizes);
/// The same if only the data set's name tells the number of images.
TrialCost trial_cost(const TrialConfig& config);

/// Default GFLOP/s of one core in whole training steps (a multiply-add counts as two). `normlab bench step` measures
/// it; see docs/performance.md.
double default_gflops(Precision precision);

}  // namespace normlab
