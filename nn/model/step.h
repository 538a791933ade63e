// What a layer needs besides its input: the step, and the shard that it computes.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "autograd/ops.h"
#include "core/step_state.h"
#include "nn/model/parameters.h"

namespace normlab {

struct Shard;

/// A norm as an observer sees it: its input x, and y = gamma * normed + beta, where gamma and beta may be absent.
struct NormSeen {
  const Var &x, &y, &gamma, &beta;
};

/// One layer's attention as an observer sees it: q and k [sequences, tokens, width], or both the same tensor [.., 3
/// width] of q, k and v. Sequences are images, or windows with their bias table.
struct AttentionSeen {
  const Var &q, &k;
  std::int64_t heads;
  const Windows* windows;
  Tensor table;
};

/// Functions that get a shard's values on their way through a network, by name. Threads call them concurrently.
struct Observers {
  template <class Seen>
  using See = std::function<void(const Shard&, const std::string&, const Seen&)>;
  /// Intermediate values: "stem", "blocks.0.attn", "blocks.0.mlp", "pre_logits"; from an engine also "outputs".
  See<Var> value;
  /// The output of each residual branch before drop-path, under the name of the sum it goes into.
  See<Var> branch;
  See<NormSeen> norm;            // "blocks.0.attn.pre"; not called for kind none
  See<AttentionSeen> attention;  // "blocks.0.attn"
  explicit operator bool() const { return value || branch || norm || attention; }
};

/// What is the same for all shards of a part of a step, or of an evaluation.
struct Step {
  const ParameterSet& parameters;
  bool training = false;  // turns on dropout, drop-path and batch statistics
  const StepState* state = nullptr;
  double progress = 1;  // of the training, see StepState
  std::uint64_t drop_seed = 0;
  /// With gradient accumulation: the first image of this part, and the number of images in all parts (0 if there is
  /// only one part).
  std::int64_t part_begin = 0, step_images = 0;
  /// Runs only to claim memory: drop-path keeps all images but takes the path that skips some.
  bool rehearses = false;
  /// All shards are alive at once, so values that one pass over memory can recompute are not kept for the
  /// backward pass.
  bool spare_memory = false;
  /// Masks given by name instead of drawn (u8, all images of the part), as in fixtures.
  const std::map<std::string, Tensor>* masks = nullptr;
  /// Branches get all images, also those that drop-path skips. Null: none.
  const Observers* observers = nullptr;
  /// The layer whose block passes its input on unchanged, counted from 1; 0: none.
  std::int64_t without_layer = 0;

  bool drops(double rate) const { return training && rate > 0.0; }
};

/// Some images of a step, which pass through the network on one tape.
struct Shard {
  const Step& step;
  Tape& tape;
  std::int64_t lane = -1;  // gradients are added to this lane; -1: no gradients
  BatchSlice slice{};      // this shard's images of the part, which shares batch statistics
  /// u8, one value per image of this shard: inside a branch that skips the images dropped by drop-path, marks those
  /// that are kept; `slice` then counts only these. Empty: all images pass through.
  Tensor image_mask{};

  /// The place of its first image in the step, and the images of the step.
  std::int64_t first_image() const { return step.part_begin + slice.first_image; }
  std::int64_t step_images() const { return step.step_images > 0 ? step.step_images : slice.batch; }

  /// `count` parameters that were declared stacked are one, joined along the first axis.
  Var parameter(int first, int count = 1) const { return leaf(first, count, step.parameters.read(first, count)); }
  /// The weight of a product, possibly rounded to bf16; its gradient is not rounded.
  Var weight(int first, int count = 1) const { return leaf(first, count, step.parameters.weight(first, count)); }
  /// The bias of a product, which some devices also round.
  Var bias(int first, int count = 1) const;
  /// Marks `x` as no longer used by the forward pass, unless it is `needed`.
  void done_with(const Var& x, const Var& needed) const {
    if (step.spare_memory && x != needed) tape.forget(x);
  }
  /// Passes the result of `seen()` to its observer, if any. The computation is not recorded for gradients.
  template <class Seen, class F>
  void show(Observers::See<Seen> Observers::*observer, const std::string& name, const F& seen) const {
    if (!step.observers || !(step.observers->*observer)) return;
    const Tape::Unrecorded values_alone(tape);
    (step.observers->*observer)(*this, name, seen());
  }
  /// Passes `x` to the observer of values and returns it.
  Var show(const std::string& name, const Var& x) const {
    show(&Observers::value, name, [&] { return x; });
    return x;
  }
  /// body(shard) for the stem or block at `place` and its input `x` (none: the images). A frozen one computes as in
  /// evaluation; if nothing before it is trained either, nothing is kept for a backward pass.
  template <class Body>
  Var in_part(const Place& place, const Var& x, const Body& body) const {
    if (!step.training || !step.parameters.is_frozen_part(place)) return body(*this);
    Step evaluation = step;
    evaluation.training = false;
    std::optional<Tape::Unrecorded> values_alone;
    if (!x || !x.needs_grad()) values_alone.emplace(tape);
    return body(Shard{.step = evaluation, .tape = tape, .slice = slice, .image_mask = image_mask});
  }
  /// Dropout at the site named `site`; the identity in evaluation and at rate 0.
  Var dropout(const Var& x, double rate, const std::string& site) const;
  /// The mask for `site` in this step; empty if nothing is dropped.
  Tensor mask(const Shape& shape, double rate, const std::string& site) const;

 private:
  /// The rows of a given mask that belong to the images that pass through.
  Tensor given_mask(const Tensor& mask, const Shape& shape) const;
  Var leaf(int first, int count, Tensor value) const {
    if (lane < 0 || step.parameters.is_frozen(first)) return tape.parameter(value, Tensor());
    return tape.parameter(value, step.parameters.gradient(lane, first, count),
                          step.parameters.written(lane, first, count));
  }
};

}  // namespace normlab
