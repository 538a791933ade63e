// What a layer needs besides its input: its parameters and the conditions of the current step.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "autograd/ops.h"
#include "core/step_state.h"
#include "nn/model/parameters.h"

namespace normlab {

/// A norm as an observer sees it: its input x, and y = gamma * normed + beta, where gamma and beta may be absent.
struct NormSeen {
  const Var &x, &y, &gamma, &beta;
};

/// One layer's attention as an observer sees it: q and k [sequences, tokens, width], or both the same tensor [.., 3
/// width] of q, k and v. Sequences are images, or windows with their bias table.
struct AttentionSeen {
  const Var &q, &k;
  std::int64_t images, heads;
  const Windows* windows;
  Tensor table;
};

/// Functions that get values on their way through a network, by name. Threads call them concurrently.
struct Observers {
  /// Intermediate values: "stem", "blocks.0.attn", "blocks.0.mlp", "pre_logits".
  std::function<void(const std::string&, const Var&)> value;
  /// The output of each residual branch before drop-path, under the name of the sum it goes into.
  std::function<void(const std::string&, const Var&)> branch;
  /// "blocks.0.attn.pre"; not called for kind none.
  std::function<void(const std::string&, const NormSeen&)> norm;
  std::function<void(const std::string&, const AttentionSeen&)> attention;  // "blocks.0.attn"
  explicit operator bool() const { return value || branch || norm || attention; }
};

struct Context {
  Tape& tape;
  const ParameterSet& parameters;
  std::int64_t lane = -1;  // gradients are added to this lane; -1: no gradients
  bool training = false;   // turns on dropout, drop-path and batch statistics
  BatchSlice slice{};      // this shard's images of the part, which shares batch statistics
  const StepState* state = nullptr;
  std::uint64_t drop_seed = 0;
  /// With gradient accumulation: the first image of this part, and the number of images in all parts (0 if there is
  /// only one part).
  std::int64_t part_begin = 0, step_images = 0;
  /// u8, one value per image of this shard: inside a branch that skips the images dropped by drop-path, marks those
  /// that are kept; `slice` then counts only these. Empty: all images pass through.
  Tensor kept{};
  /// Runs only to claim memory: drop-path keeps all images but takes the path that skips some.
  bool rehearses = false;
  /// All shards are alive at once, so values that one pass over memory can recompute are not kept for the
  /// backward pass.
  bool spare_memory = false;
  /// Masks given by name instead of drawn (u8, this shard's images), as in fixtures.
  const std::map<std::string, Tensor>* masks = nullptr;
  /// Branches get all images, also those that drop-path skips.
  Observers observers{};
  /// The layer whose block passes its input on unchanged, counted from 1; 0: none.
  std::int64_t without_layer = 0;

  Var parameter(int number) const { return parameter(number, parameters.read(number)); }
  /// The weight of a product, possibly rounded to bf16; its gradient is not rounded.
  Var weight(int number) const { return parameter(number, parameters.weight(number)); }
  /// The bias of a product, which some devices also round.
  Var bias(int number) const;
  /// Several weights or biases that were declared stacked, as one.
  Var stacked_weight(std::span<const int> numbers) const {
    return stacked(numbers, parameters.stacked_weight(numbers));
  }
  Var stacked_bias(std::span<const int> numbers) const;
  /// Marks `x` as no longer used by the forward pass.
  void done_with(const Var& x) const {
    if (spare_memory) tape.forget(x);
  }
  /// Passes `x` to the observer and returns it.
  Var show(const std::string& name, const Var& x) const {
    if (observers.value) observers.value(name, x);
    return x;
  }
  /// Dropout at the site named `site`; the identity in evaluation and at rate 0.
  Var dropout(const Var& x, double rate, const std::string& site) const;
  /// Passes the result of `branch()` to its observer, if any. The computation is not recorded for gradients.
  template <class Branch>
  void show_branch(const std::string& name, Branch&& branch) const {
    if (!observers.branch) return;
    const Tape::Unrecorded values_alone(tape);
    observers.branch(name, branch());
  }
  /// body(context) for the stem or block at `place` and its input `x` (none: the images). A frozen one computes as in
  /// evaluation; if nothing before it is trained either, nothing is kept for a backward pass.
  template <class Body>
  Var in_part(const Place& place, const Var& x, const Body& body) const {
    if (!training || !parameters.is_frozen_part(place)) return body(*this);
    Context frozen = *this;
    frozen.training = false;
    frozen.lane = -1;
    std::optional<Tape::Unrecorded> values_alone;
    if (!x || !x.needs_grad()) values_alone.emplace(tape);
    return body(frozen);
  }
  bool drops(double rate) const { return training && rate > 0.0; }
  /// The mask for `site` in this step; empty if nothing is dropped.
  Tensor mask(const Shape& shape, double rate, const std::string& site) const;

 private:
  /// The rows of a given mask that belong to the kept images.
  Tensor of_kept(const Tensor& mask, const Shape& shape) const;
  Var parameter(int number, Tensor value) const {
    if (lane < 0 || parameters.is_frozen(number)) return tape.parameter(value, Tensor());
    return tape.parameter(value, parameters.gradient(lane, number), parameters.written(lane, number, 1));
  }
  Var stacked(std::span<const int> numbers, Tensor value) const {
    if (lane < 0 || parameters.is_frozen(numbers.front())) return tape.parameter(value, Tensor());
    return tape.parameter(value, parameters.stacked_gradient(lane, numbers),
                          parameters.written(lane, numbers.front(), static_cast<int>(numbers.size())));
  }
};

}  // namespace normlab
