// The time of single operations of a network at its own sizes, on any device.
#pragma once

#include <string>
#include <vector>

#include "core/kernels.h"
#include "experiments/cli/bench_measure.h"
#include "nn/vit_config.h"

namespace normlab {

struct OpCost {
  double flops, bytes;  // of all calls at once; each operand and result once
};
struct OpTiming {
  std::string name;
  OpCost cost;
  double seconds;
};

/// A dense layer of a network: y [rows, out] = x [rows, in] w^T + b, so often in a step.
struct LinearLayer {
  std::string name;
  LinearDims dims;
  std::int64_t count;
  bool has_dx;  // false where the input is the image
};
/// Those of a ViT for that many images.
std::vector<LinearLayer> linear_layers(const ViTConfig& config, std::int64_t images);

/// Forward, the gradient of x, and those of w and b together: one call of each, whole. `backend` has the products of
/// `dtype`; bf16 weights, and biases where the device rounds them, are the copies that a step reads.
std::vector<OpTiming> time_linear(Backend& backend, ShardPool& pool, const LinearLayer& layer, DType dtype,
                                  double seconds);

/// Attention forward and backward, cut over the threads of `pool` by images where the device does not take a batch
/// whole. q, k and v lie side by side, as a network has them. The backward pass counts two and a half times the
/// forward's products: it makes the weights again. Only batch, tokens, heads and head_dim of `dims` are read.
std::vector<OpTiming> time_attention(Backend& backend, ShardPool& pool, AttentionDims dims, DType dtype,
                                     double seconds);

}  // namespace normlab
