// What a device does to the flat parameter buffer after the backward pass: sum the lanes' gradients, clip, update. The
// types are in core/update_settings.h, so that a new optimiser recompiles no other kernel.
#pragma once

#include <cstdint>

#include "core/step_state.h"
#include "core/tensor.h"

namespace normlab {

enum class ClipForm : std::uint8_t;
struct LambSettings;
struct LambSquares;
struct MuonBatch;
struct MuonSettings;
struct ParameterUpdate;
struct UpdateRule;

/// The updates that every device implements, as declarations. All work on a chunk of the flat buffer, as slices in
/// Param<T>. While state->nonfinite is set, parameters, moments and averages stay unchanged.
#define NORMLAB_UPDATES(UPDATE)                                                                                        \
  /* Sums lanes [L, n], L <= kMostLanes, into lane 0 by the tree of core/lane_tree.h; *square gets the total's       \
     sum of squares. */ \
  UPDATE(sum_lanes(std::int64_t lanes, std::int64_t lane_stride, Tensor lane0, double* square))                        \
  /* From the sum over chunks, in order: sets grad_norm, nonfinite and, from clip_norm, clip_factor of *state. */      \
  UPDATE(clip(ClipForm, std::int64_t chunks, const double* squares, StepState* state))                                 \
  /* One step of the optimiser in `rule` (core/update_rules.h). */                                                     \
  UPDATE(update(const UpdateRule& rule, const ParameterUpdate&))                                                       \
  /* LAMB's passes before its update, for parameters that either all decay or all do not. The first updates m and */   \
  /* v and returns the sums of squares of a piece. The second computes a tensor's |p| / |r| from its pieces, 1 if */   \
  /* either is zero. */                                                                                                \
  UPDATE(lamb_moments(const LambSettings&, const ParameterUpdate&, LambSquares* squares))                              \
  UPDATE(lamb_ratio(std::int64_t pieces, const LambSquares* squares, double* trust_ratio))                             \
  /* One step of Muon for the matrices of a batch, with the flat buffers and without their factors. */                 \
  UPDATE(muon(const MuonSettings&, const MuonBatch&, const ParameterUpdate& all))                                      \
  /* to = decay to + (1 - decay) x. */                                                                                 \
  UPDATE(average(double decay, const StepState* state, Tensor x, Tensor to))                                           \
  /* to (bf16 [n]) = p rounded: a chunk's copy that the next step's products read. */                                  \
  UPDATE(round_to_bf16(Tensor p, Tensor to))

class Updates {
 public:
  virtual ~Updates() = default;
#define NORMLAB_PURE(...) virtual void __VA_ARGS__ = 0;
  NORMLAB_UPDATES(NORMLAB_PURE)
#undef NORMLAB_PURE
};

}  // namespace normlab
