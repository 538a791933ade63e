// The update over the flat parameter buffer: lanes summed, norm taken, clipped and applied block by block, in an order
// that does not depend on the number of threads.
#pragma once

#include "core/backend.h"
#include "core/shards.h"
#include "nn/parameters.h"

namespace normlab {

enum class OptimizerKind : std::uint8_t { adamw, sgd };

struct OptimizerSettings {
  OptimizerKind kind = OptimizerKind::adamw;
  AdamWSettings adamw{0.9, 0.999, 1e-8, 0.05};
  SgdSettings sgd{0.9, 0.0, false};
  bool decay_matrices_only = true;
};

class Optimizer {
 public:
  /// Takes moment buffers beside `parameters`, all zero.
  Optimizer(Backend& backend, ParameterSet& parameters, const OptimizerSettings& settings);

  /// Sums the lanes, writes grad_norm, clip_factor and nonfinite into `state`, and updates the parameters with
  /// state.lr. Clipping is PyTorch's: min(1, clip_norm / (norm + 1e-6)). A norm that is not finite leaves the
  /// parameters and moments as they were. All gradients are zero afterwards.
  void step(ShardPool& pool, StepState& state);

  /// Flat moments by name for checkpoints: "m" and, for AdamW, "v".
  struct Moment {
    const char* name;
    Tensor flat;
  };
  const std::vector<Moment>& moments() const { return moments_; }

 private:
  Backend& backend_;
  ParameterSet& parameters_;
  OptimizerSettings settings_;
  std::vector<Moment> moments_;
  std::vector<std::uint8_t> decay_;
};

enum class ScheduleKind : std::uint8_t { constant, linear, cosine };

/// The rate of 0-based `step` out of `total`: linear warm-up over the first `warmup` steps, lr (step + 1) / (warmup +
/// 1) (so that no step is lost at rate zero), then constant, or down to `final_lr` along a line or half a cosine, which
/// it would reach at step `total`.
double learning_rate(ScheduleKind kind, double lr, double final_lr, std::int64_t step, std::int64_t total,
                     std::int64_t warmup);

}  // namespace normlab
