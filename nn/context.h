// What a layer needs besides its input: where the values of its parameters are, and the circumstances of this step.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "autograd/ops.h"
#include "core/step_state.h"
#include "nn/parameters.h"

namespace normlab {

struct Context {
  Tape& tape;
  const ParameterSet& parameters;
  std::int64_t lane = -1;  // gradients are added into this lane; -1: no gradients
  bool training = false;   // dropout, drop-path, batch statistics
  BatchSlice slice{};      // of what goes through the network at a time, which shares batch statistics
  const StepState* state = nullptr;
  std::uint64_t drop_seed = 0;
  /// Where what goes through at a time is one part of a step's batch (gradient accumulation): the image that the part
  /// begins with, and how many images all parts have; 0 where there is one part.
  std::int64_t part_begin = 0, step_images = 0;
  /// Inside a branch that leaves out the images which drop-path drops: u8, of all of this shard's images, and `slice`
  /// counts those kept. Empty: all go through.
  Tensor kept{};
  /// For the memory alone: drop-path keeps all images, and treats them as if it did not.
  bool rehearses = false;
  /// All shards are alive at once: values that a pass over memory makes again are not kept for the backward pass.
  bool spare_memory = false;
  /// Masks given by name instead of drawn (u8, this shard's images), as fixtures have them.
  const std::map<std::string, Tensor>* masks = nullptr;
  /// Sees named intermediate values: "stem", "blocks.0.attn", "blocks.0.mlp", "pre_logits".
  std::function<void(const std::string&, const Var&)> observe = nullptr;
  /// Sees the end of each residual branch under the name of its sum: what is added, before drop-path.
  std::function<void(const std::string&, const Var&)> observe_branch = nullptr;

  Var parameter(int number) const { return parameter(number, parameters.read(number)); }
  /// The same for the weight of a product, which may be rounded to bf16; its gradient is not.
  Var weight(int number) const { return parameter(number, parameters.weight(number)); }
  /// And for its bias, which some devices round too.
  Var bias(int number) const;
  /// Weights, and biases, that were declared stacked, as one.
  Var stacked_weight(std::span<const int> numbers) const {
    return stacked(numbers, parameters.stacked_weight(numbers));
  }
  Var stacked_bias(std::span<const int> numbers) const;
  /// Says that the forward pass uses `x` no more.
  void done_with(const Var& x) const {
    if (spare_memory) tape.forget(x);
  }
  /// Shows `x` to the observer, and gives it back.
  Var show(const std::string& name, const Var& x) const {
    if (observe) observe(name, x);
    return x;
  }
  /// Dropout named `site`; the identity in evaluation and at rate 0.
  Var dropout(const Var& x, double rate, const std::string& site) const;
  /// Shows what `branch()` gives to observe_branch, where there is one. What it computes leaves no gradient.
  template <class Branch>
  void show_branch(const std::string& name, Branch&& branch) const {
    if (!observe_branch) return;
    const Tape::Unrecorded values_alone(tape);
    observe_branch(name, branch());
  }
  /// Whether anything is dropped at that rate.
  bool drops(double rate) const { return training && rate > 0.0; }
  /// The mask for `site` and this step, empty where nothing is dropped.
  Tensor mask(const Shape& shape, double rate, const std::string& site) const;

 private:
  /// The part of a given mask that belongs to the kept images.
  Tensor of_kept(const Tensor& mask, const Shape& shape) const;
  Var parameter(int number, Tensor value) const {
    if (lane < 0) return tape.parameter(value, Tensor());
    return tape.parameter(value, parameters.gradient(lane, number), parameters.written(lane, number, 1));
  }
  Var stacked(std::span<const int> numbers, Tensor value) const {
    if (lane < 0) return tape.parameter(value, Tensor());
    return tape.parameter(value, parameters.stacked_gradient(lane, numbers),
                          parameters.written(lane, numbers.front(), static_cast<int>(numbers.size())));
  }
};

}  // namespace normlab
