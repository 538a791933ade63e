// An exponential moving average of the weights, evaluated beside them (timm's ModelEmaV2, as DeiT trains with it).
#pragma once

#include "core/shards.h"
#include "core/step_state.h"
#include "nn/parameters.h"
#include "nn/train_settings.h"

namespace normlab {

class WeightAverage {
 public:
  /// Takes memory for a second set of values and buffers, all zero. `parameters` must outlive it.
  WeightAverage(Backend& backend, ParameterSet& parameters, const AverageSettings& settings);

  /// Begins with the values that the network has.
  void start();
  /// After an update, of which `done` are done: where that is a multiple of every_steps, average = decay average + (1 -
  /// decay) value, for the running statistics of batch norms as well. Nothing where the update was skipped. `state` is
  /// in the backend's memory.
  void step(ShardPool& pool, std::int64_t done, const StepState* state);

  /// In the layout of the parameters' flat_values() and flat_buffers().
  const Tensor& values() const { return values_; }
  const Tensor& buffers() const { return buffers_; }

  /// As long as it lives the network computes with the average. Not while a step runs, and no step meanwhile.
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
