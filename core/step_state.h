// What changes from step to step. It lives in backend memory and kernels take a pointer to it, so that the launches of
// a step never change.
#pragma once

#include <cstdint>

namespace normlab {

struct StepState {
  std::int64_t step = 0;  // optimisation steps done before this one
  std::int64_t epoch = 0;
  double progress = 1;            // updates made / updates planned; formulas read it
  double lr = 0.0;                // of this step
  double schedule = 1.0;          // lr / peak lr: Big Vision's optimisers multiply the decay by it
  double bias_correction1 = 1.0;  // 1 - beta1^t and 1 - beta2^t of Adam, t = step + 1
  double bias_correction2 = 1.0;
  double clip_norm = 0.0;      // 0: no clipping
  double grad_norm = 0.0;      // written by the optimiser before it updates, like the two below
  double clip_factor = 1.0;    // multiplies the gradients
  std::int32_t nonfinite = 0;  // if set, the update is skipped and the weights stay unchanged
};

}  // namespace normlab
