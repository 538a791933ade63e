// Checks gradients against finite differences by random projection (after HIPS autograd's check): for random directions
// u and v, u^T J v must agree with the central difference of u^T f along v.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/tape.h"

namespace normlab {

struct GradCheckReport {
  double max_error = 0.0;  // largest |analytic - numeric| / (1 + |numeric|) over inputs and directions
  std::string worst;       // "input 1, direction 0: analytic 0.3, numeric 0.2"
};

/// `f` builds one output from leaves on the given tape. `inputs` are f64 tensors in the backend's memory. Each is
/// checked separately, in several directions and along up to `elements` single elements.
GradCheckReport grad_check(Backend& backend, const std::function<Var(Tape&, const std::vector<Var>&)>& f,
                           std::vector<Tensor> inputs, std::uint64_t seed, int directions = 3, int elements = 4);

/// Standard normal numbers in memory of `arena`, f64, f32 or bf16.
Tensor randn(Arena& arena, const Shape& shape, DType dtype, std::uint64_t seed, double std = 1.0, double mean = 0.0);

}  // namespace normlab
