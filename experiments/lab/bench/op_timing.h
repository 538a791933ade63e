// Times single operations at a network's sizes.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/kernels.h"
#include "experiments/lab/bench/measure.h"
#include "experiments/lab/bench/op_cases.h"
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

/// Times the rows of network_ops(), split over the threads of `pool` by images unless the device takes whole batches.
/// The costs are those of Profile.
class OpTimer {
 public:
  OpTimer(Backend& backend, ShardPool& pool, const OpSizes& sizes, DType dtype);
  ~OpTimer();
  /// The forward and the backward pass of a row, in turns, since a machine's speed changes from second to second.
  /// The backward pass is the difference to both; 0 seconds if the machine was too busy to tell them apart.
  std::array<OpTiming, 2> measure(std::size_t number, double seconds);

 private:
  class Share;
  Backend& backend_;
  ShardPool& pool_;
  std::vector<std::unique_ptr<Share>> shares_;
};

}  // namespace normlab
