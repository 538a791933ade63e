// Rotary positions: turns queries and keys by angles that follow from a patch's row and column.
#pragma once

#include <vector>

#include "nn/model/step.h"
#include "nn/model/vit_config.h"

namespace normlab {

/// The turns of one network, which all its blocks share; the identity without rotary positions. Half of a head's pairs
/// turn by the row of a patch, the others by its column. Class and distillation tokens do not turn, registers only with
/// a register_base.
class Rotary {
 public:
  Rotary() = default;
  Rotary(ParameterSet& parameters, const ViTConfig& config);
  /// x [B, N, n width] holds n tensors side by side, of which the first `count` turn.
  Var operator()(const Var& x, std::int64_t count, const Shard& shard) const;

 private:
  int table_ = -1;
  Rotation rotation_{};  // of one tensor
};

/// [tokens that turn, head width]: the cosines of a token's angles, then their sines. Registers, if they turn, come
/// before the patches.
std::vector<double> rotary_table(const ViTConfig& config);

/// Leaves out a reference grid that is the network's own.
void simplify_rotary(ViTConfig& config);

}  // namespace normlab
