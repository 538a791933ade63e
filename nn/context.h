// What a layer needs besides its input: where the values of its parameters are, and the circumstances of this step.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "autograd/ops.h"
#include "nn/parameters.h"

namespace normlab {

struct Context {
  Tape& tape;
  const ParameterSet& parameters;
  std::int64_t lane = -1;  // gradients are added into this lane; -1: no gradients
  bool training = false;   // dropout, drop-path, batch statistics
  BatchSlice slice{};
  const StepState* state = nullptr;
  std::uint64_t drop_seed = 0;
  /// Masks given by name instead of drawn (u8, this shard's images), as fixtures have them.
  const std::map<std::string, Tensor>* masks = nullptr;
  /// Sees named intermediate values: "stem", "blocks.0.attn", "blocks.0.mlp", "pre_logits".
  std::function<void(const std::string&, const Var&)> observe = nullptr;

  Var parameter(int number) const {
    return tape.parameter(parameters.read(number), lane >= 0 ? parameters.gradient(lane, number) : Tensor());
  }
  /// The same for the weight of a product, which may be rounded to bf16; its gradient is not.
  Var weight(int number) const {
    return tape.parameter(parameters.weight(number), lane >= 0 ? parameters.gradient(lane, number) : Tensor());
  }
  /// Dropout, or drop-path of whole images, named `site`; the identity in evaluation and at rate 0.
  Var dropout(const Var& x, double rate, const std::string& site) const;
  Var drop_path(const Var& x, double rate, const std::string& site) const;
  /// The mask for `site` and this step, empty where nothing is dropped.
  Tensor mask(const Shape& shape, double rate, const std::string& site) const;
};

}  // namespace normlab
