// An exponential moving average of the weights, evaluated beside them (timm's ModelEmaV2, as used by DeiT).
#pragma once

#include <vector>

#include "core/shards.h"
#include "core/step_state.h"
#include "nn/model/parameters.h"
#include "nn/training/train_settings.h"

namespace normlab {

/// A running statistic that training moves: after n updates it is decay^n initial + what the batches gave.
struct RunningStatistic {
  int buffer;  // its number
  double decay, initial;
  std::int64_t updates;  // in a step
};

class WeightAverage {
 public:
  /// Allocates a second set of values and buffers, all zero. `parameters` must outlive it. `running`: statistics that
  /// start at values which no batch gave, and not at those of a trained network.
  WeightAverage(Backend& backend, ParameterSet& parameters, const AverageSettings& settings,
                std::vector<RunningStatistic> running = {});

  /// Starts from the network's current values.
  void start();
  /// The running statistics are those of a trained network.
  void start_from_statistics() { running_.clear(); }
  /// Call after an update; `done` counts updates so far. If it is a multiple of every_steps,
  /// average = decay average + (1 - decay) value, also for running statistics of batch norms. Those enter without the
  /// share of their initial value, (x - decay^n initial) / (1 - kept^n) as Adam's moments, and their average begins with
  /// the first of these: the statistics of the initial network, as it begins with the initial weights. Does nothing
  /// after a skipped update. `state` is in the backend's memory.
  void step(ShardPool& pool, std::int64_t done, const StepState* state);

  /// In the layout of the parameters' flat_values() and flat_buffers().
  const Tensor& values() const { return values_; }
  const Tensor& buffers() const { return buffers_; }

  /// While it lives the network computes with the average. Not during a step, and no step may run meanwhile.
  class InUse {
   public:
    explicit InUse(WeightAverage& average) : average_(average) { exchange(); }
    ~InUse() { exchange(); }
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;

   private:
    void exchange() { average_.parameters_.exchange(average_.values_, average_.buffers_); }
    WeightAverage& average_;
  };

 private:
  Backend& backend_;
  ParameterSet& parameters_;
  /// The network's running statistics after `done` updates, without their initial values.
  Tensor statistics(std::int64_t done);

  AverageSettings settings_;
  std::vector<RunningStatistic> running_;
  Tensor values_, buffers_, unbiased_;
};

}  // namespace normlab
