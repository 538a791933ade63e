// The update over the flat parameter buffer: lanes summed, norm taken, clipped and applied block by block, in an order
// that does not depend on the number of threads.
#pragma once

#include <span>

#include "core/backend.h"
#include "core/shards.h"
#include "nn/parameters.h"

namespace normlab {

enum class OptimizerName : std::uint8_t { adamw, sgd, big_vision_adam, momentum_hp, lamb, lion };

/// torch: gradients times min(1, limit / (norm + 1e-6)). optax: times limit / norm where norm >= limit.
enum class ClipForm : std::uint8_t { torch, optax };

struct OptimizerSettings {
  OptimizerName name = OptimizerName::adamw;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0.05;
  bool decay_matrices_only = true;
  bool bf16_moment = false;  // big_vision_adam and momentum_hp: their first moment
  MomentProduct moment_product = MomentProduct::wide;
  ClipForm clip_form = ClipForm::torch;
};

/// What an optimiser keeps for each parameter value, in bytes, beside values of type `parameters`.
std::int64_t moment_bytes(const OptimizerSettings& settings, DType parameters = DType::f32);

class Optimizer {
 public:
  /// Takes moment buffers beside `parameters`, all zero. `factors`: one a parameter, or none where all are 1.
  Optimizer(Backend& backend, ParameterSet& parameters, const OptimizerSettings& settings,
            std::span<const UpdateFactors> factors = {});

  /// Sums the lanes, writes grad_norm, clip_factor and nonfinite into `state`, and updates the parameters with
  /// state.lr, for Big Vision's optimisers also state.schedule; clips to state.clip_norm by the settings' form. A norm
  /// that is not finite leaves the parameters and moments as they were. Lane 0 then holds the gradient, not clipped.
  void step(ShardPool& pool, StepState& state);

  /// Flat moments by name for checkpoints: "m" and, for adamw, big_vision_adam and lamb, "v".
  struct Moment {
    const char* name;
    Tensor flat;
  };
  const std::vector<Moment>& moments() const { return moments_; }
  /// LAMB's ratios of the last step, one a parameter: |p| / |r| where it decays and neither is zero, otherwise 1.
  std::span<const double> trust_ratios() const { return ratios_; }

 private:
  /// Some elements of one block that have everything in common: their factors, for LAMB also their parameter.
  struct Piece {
    std::int64_t first, count;
    UpdateFactors factors;
    std::size_t parameter;
  };
  bool per_parameter() const { return settings_.name == OptimizerName::lamb; }
  void cut_into_pieces(std::span<const UpdateFactors> factors);
  std::span<const Piece> pieces_of(std::int64_t block) const;
  void update(const Piece& piece, const StepState& state);
  void update_lamb(ShardPool& pool, const StepState& state);

  Backend& backend_;
  ParameterSet& parameters_;
  OptimizerSettings settings_;
  std::vector<Moment> moments_;
  std::vector<std::uint8_t> decay_;   // 1 a value that decays
  std::vector<Piece> pieces_;         // block by block
  std::vector<std::size_t> begins_;   // of each block's pieces, and the end
  std::vector<LambSquares> squares_;  // of each piece
  std::vector<double> ratios_;
  std::vector<std::uint8_t> decaying_;  // 1 a parameter that decays
};

}  // namespace normlab
