// Times single operations at a network's sizes.
#pragma once

#include <string>
#include <vector>

#include "core/kernels.h"
#include "experiments/lab/bench/measure.h"
#include "nn/model/vit_config.h"

namespace normlab {

struct OpCost {
  double flops, bytes;  // all calls together; each operand and result counts once
};
struct OpTiming {
  std::string name;
  OpCost cost;
  double seconds;
};

/// A dense layer y [rows, out] = x [rows, in] w^T + b, used `count` times per step.
struct LinearLayer {
  std::string name;
  LinearDims dims;
  std::int64_t count;
  bool has_dx;  // false if the input is the image
};
/// For that many images.
std::vector<LinearLayer> linear_layers(const ViTConfig& config, std::int64_t images);

/// One whole call each of the forward pass, the gradient of x, and the gradients of w and b together. `backend` must
/// support products of `dtype`. bf16 weights, and biases if the device rounds them, are the copies that a step reads.
std::vector<OpTiming> time_linear(Backend& backend, ShardPool& pool, const LinearLayer& layer, DType dtype,
                                  double seconds);

/// Forward and backward, split over the threads of `pool` by images unless the device takes whole batches. q, k and v
/// are adjacent, as in a network. The backward pass counts 2.5 times the forward's products, since it recomputes the
/// weights. Reads only batch, tokens, heads and head_dim of `dims`.
std::vector<OpTiming> time_attention(Backend& backend, ShardPool& pool, AttentionDims dims, DType dtype,
                                     double seconds);

}  // namespace normlab
