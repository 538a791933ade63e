// The update of the flat parameter buffer: lanes are summed, the norm is taken, gradients are clipped and applied chunk
// by chunk, in an order independent of the number of threads.
#pragma once

#include <memory>
#include <span>

#include "core/shards.h"
#include "core/update_settings.h"
#include "nn/model/parameters.h"
#include "nn/training/shares.h"
#include "nn/training/train_settings.h"

namespace normlab {

/// Bytes that an optimiser keeps per parameter value, for values of type `parameters`.
std::int64_t moment_bytes(const OptimizerSettings& settings, DType parameters = DType::f32);

class Optimizer {
 public:
  /// Allocates zeroed moment buffers. `factors`: one per parameter, or empty if all are 1. `lanes`: of all processes of
  /// `group` together, of which `parameters` has those here; all of them make the same calls.
  Optimizer(Backend& backend, ParameterSet& parameters, const OptimizerSettings& settings,
            std::span<const UpdateFactors> factors = {}, ClipForm clip_form = ClipForm::torch,
            Group& group = group_of_one(), std::int64_t lanes = 0);

  /// Writes what follows from state.step alone, the bias corrections. Call it before the state goes to the device.
  void begin_step(StepState& state) const;
  /// Sums the lanes, writes grad_norm, clip_factor and nonfinite to `state`, which is in the backend's memory, and
  /// updates the parameters. Uses the state's lr and clip_norm and, for Big Vision's optimisers, its schedule. A
  /// non-finite norm leaves parameters and moments unchanged. Lane 0 then holds the unclipped gradient, of which a
  /// process has a part: see gather_gradient(). Does not wait for the device.
  void step(ShardPool& pool, StepState* state);

  /// Where shards add their gradients.
  LaneSums& lane_sums() { return share_.lane_sums(); }
  /// Only the sum: lane 0 then holds the gradient.
  void sum_gradients(ShardPool& pool);
  /// A process updates a part of the parameters, and keeps the moments of its part. These give all processes the whole
  /// gradient in lane 0, and process 0 all moments.
  void gather_gradient();
  void gather_moments();
  /// Whether this process uses a tensor of the state. It needs no memory for the moments of others.
  bool uses(const Tensor& tensor) const;
  /// The values whose moments are current here.
  const Stretch& updated_here() const { return share_.values(); }
  bool updates_all() const { return updated_here().size() == parameters_.trained_size(); }

  /// Flat moments by name for checkpoints: "m" and, for adamw, adam, big_vision_adam, lamb and muon, "v".
  struct Moment {
    const char* name;
    Tensor flat;
  };
  const std::vector<Moment>& moments() const { return moments_; }

 private:
  /// Elements of one chunk with the same factors, all of Muon's matrices or none, and, for LAMB, of one parameter.
  struct Piece {
    std::int64_t first, count;
    UpdateFactors factors;
    std::size_t parameter;
  };
  /// Calls f(piece) for the pieces that are updated here, chunk by chunk.
  template <class F>
  void for_pieces(ShardPool& pool, const F& f);
  std::vector<bool> find_matrices() const;
  /// The ranges of values that one process updates alone: Muon's matrices.
  std::vector<Stretch> whole_ranges() const;
  void make_batches(std::span<const UpdateFactors> factors);
  /// The number of chunks.
  std::int64_t cut_into_pieces(std::span<const UpdateFactors> factors);
  std::span<const Piece> pieces_of(std::int64_t chunk) const;
  Tensor chunk_of(const Tensor& flat, std::int64_t chunk) const;
  ParameterUpdate update_of(const Piece& piece, const StepState* state) const;
  LambSettings lamb(const Piece& piece) const;
  UpdateRule rule(const Piece& piece) const;
  void update_lamb(ShardPool& pool, const StepState* state);
  void update_muon(ShardPool& pool, const StepState* state);
  /// Sums over the pieces from `first` on.
  LambSquares* squares_of(std::size_t first) const;

  Backend& backend_;
  ParameterSet& parameters_;
  const OptimizerSettings settings_;
  const ClipForm clip_form_;
  std::vector<Moment> moments_;
  const std::int64_t chunk_;            // values
  std::vector<Piece> pieces_;           // chunk by chunk
  std::vector<std::size_t> begins_;     // first piece of each chunk, and the end
  std::vector<std::uint8_t> decaying_;  // per parameter: 1 if it decays
  std::vector<bool> by_muon_;           // per parameter: matrices of blocks
  std::vector<MuonBatch> batches_;      // with a matrix that is updated here
  // In the backend's memory:
  Tensor decay_;         // u8 per value: 1 if it decays
  Tensor squares_;       // f64 [chunks], of the gradient
  Tensor lamb_squares_;  // f64 [pieces, 2]
  Tensor ratios_;        // f64 [parameters]
  Tensor matrices_;      // those of the batches, as bytes
  GradientShare share_;
};

}  // namespace normlab
