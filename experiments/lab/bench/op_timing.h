// Times single operations and norms.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/kernels.h"
#include "experiments/lab/bench/measure.h"
#include "experiments/lab/bench/op_cases.h"
#include "nn/model/norm_formula.h"
#include "nn/model/placement.h"
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

/// Both passes of the rows of network_ops() with these names, split over the threads of `pool` by images unless the device
/// takes whole batches. The passes are timed in turns, since a machine's speed changes from second to second. The backward
/// pass is the difference to both; 0 seconds if the machine was too busy to tell them apart. The costs are those of
/// Profile.
std::vector<std::array<OpTiming, 2>> time_ops(Backend& backend, ShardPool& pool, const OpSizes& sizes, DType dtype,
                                              const std::vector<std::string>& names, double seconds);

/// The input as batch norm sees it; `name` is the text given.
struct NormShape {
  std::string name;
  std::int64_t images, rows_per_image, cols;
  std::int64_t size() const { return images * rows_per_image * cols; }
};

/// "128x56x56x96": images first, channels last. With two axes, the first is split into images of 65, 64 or 1 tokens:
/// the first of these that divides it. InputError for anything else.
NormShape parse_norm_shape(const std::string& text);

struct NormTime {
  std::string norm;                        // its kind, or its formula
  double rate;                             // bytes per second
  double train, train_bound, train_ratio;  // milliseconds
  double eval, eval_bound, eval_ratio;
};

/// Alternates streams, training and evaluation, since the memory's rate changes from second to second. The ratios are
/// medians over rounds.
NormTime time_norm(Backend& backend, ShardPool& pool, const Streams& streams, const NormShape& shape, DType dtype,
                   const NormSpec& spec, double seconds);

}  // namespace normlab
