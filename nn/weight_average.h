// An exponential moving average of the weights, evaluated beside them (timm's ModelEmaV2, as used by DeiT).
#pragma once

#include "core/shards.h"
#include "core/step_state.h"
#include "nn/parameters.h"
#include "nn/train_settings.h"

namespace normlab {

class WeightAverage {
 public:
  /// Allocates a second set of values and buffers, all zero. `parameters` must outlive it.
  WeightAverage(Backend& backend, ParameterSet& parameters, const AverageSettings& settings);

  /// Starts from the network's current values.
  void start();
  /// Call after an update; `done` counts updates so far. If it is a multiple of every_steps,
  /// average = decay average + (1 - decay) value, also for running statistics of batch norms. Does nothing after a
  /// skipped update. `state` is in the backend's memory.
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
  AverageSettings settings_;
  Tensor values_, buffers_;
};

}  // namespace normlab
