// Short forms: what a network leaves out because its result does not depend on it. Loss, gradients and logits are those
// of the full form up to rounding (tests/nn/model/short_forms_test.cpp). `short_forms` of a model switches them off.
//
//   form                gain
//   class token alone   DeiT-S at batch 8 trains 1.10 and 1.11 times as fast: four Zen 4 cores, 2026-11-23, two runs in
//                       turns of `normlab bench models --models deit_s --batch 8`, with and without --full-forms
//   dropped images      a step of tiny is 1.05 times as fast at rate 0.1 and 1.10 at 0.2, micro 1.03 and 1.12: two Zen 5
//                       cores, 2026-11-27, medians of five runs in turns of `normlab bench step --shape tiny
//                       --drop-path 0.1`, with and without --full-forms
//   rehearsal           no time: it takes the most memory that the form above can need before the first step, so that
//                       no later step allocates
#include <algorithm>

#include "autograd/image_runs.h"
#include "core/backend.h"
#include "nn/model/branches.h"

namespace normlab {

// The class token alone: where nothing after the last block reads the other tokens, it computes query, projection and
// MLP for the first token only, and keys and values for all.

bool reads_class_token_alone(const ViTConfig& c) {
  return c.short_forms && c.task != Task::segment && c.pool == Pool::token && !c.distill_token && !c.dropout.any() &&
         !c.placement.has_two_streams() && c.attention_dropout == 0 && norms_see_one_token(c.placement);
}

Var continuing(const Var& x, Tokens tokens) {
  if (tokens == Tokens::all) return x;
  return reshape(select_tokens(x, 0, 1), {x.shape()[0], 1, x.shape()[2]});
}

Var AttentionBranch::first_heads(const Var& h, const Shard& shard) const {
  // The class token does not turn.
  const Var q = scale_(query_.of_heads(qkv_(0, 1, continuing(h, Tokens::first), shard), heads_, shard), shard);
  if (key_.is_identity() && value_.is_identity() && exclusive_.is_identity()) {
    const Var kv = rotary_(qkv_(1, 2, h, shard), 1, shard);
    shard.tape.at(residual_.name().c_str());
    return token_attention(q, kv, heads_);
  }
  const Var k = rotary_(key_.of_heads(qkv_(1, 1, h, shard), heads_, shard), 1, shard);
  const Var v = value_.of_heads(qkv_(2, 1, h, shard), heads_, shard);
  shard.tape.at(residual_.name().c_str());
  return exclusive_(token_attention(q, k, v, heads_), continuing(v, Tokens::first), shard);
}

Var Block::first_token(const Var& x, const Shard& shard) const {
  if (shard.step.without_layer == place.layer) return continuing(x, Tokens::first);
  Step quiet = shard.step;
  if (quiet.observers) {  // they see all tokens, which are computed beside
    const Tape::Unrecorded values_alone(shard.tape);
    (*this)(x, shard);
    quiet.observers = nullptr;
  }
  const Shard unseen{.step = quiet, .tape = shard.tape, .lane = shard.lane, .slice = shard.slice};
  return unseen.in_part(place, x, [&](const Shard& here) { return mlp(attention(x, here, Tokens::first), here); });
}

// Dropped images: drop-path decides in each step which images a branch computes. They are gathered before it, and
// what it makes of them is added to their shortcuts. Tensors of some images have room for all, so that the blocks of
// the arena repeat. A device with its own memory does not tell the host which images are dropped.

bool Residual::skips_dropped(Backend& backend) const {
  return short_forms_ && drop_path_ > 0 && backend.memory().on_host();
}

Var Residual::sum_of_passing(const Var& x, const Shard& shard, Tokens tokens, Inner inner, const Tensor& mask) const {
  if (shard.step.rehearses) std::fill_n(mask.data<std::uint8_t>(), mask.size(), std::uint8_t{1});
  const std::int64_t passing = kept_images(mask);
  if (passing == mask.size() && !shard.step.rehearses) return sum(x, shard, tokens, inner, mask);
  Step quiet = shard.step;
  if (quiet.observers) {  // they see the branches of all images
    const Tape::Unrecorded values_alone(shard.tape);
    const Var branch = path(inner(x, shard), shard);
    shard.show(&Observers::branch, name_, [&] { return branch; });
    quiet.observers = nullptr;
  }
  if (passing == 0) return shortcut(x, shard, tokens);
  Shard some{.step = quiet, .tape = shard.tape, .lane = shard.lane, .slice = shard.slice, .image_mask = mask};
  some.slice.images = passing;
  Var branch;
  {
    const Tape::RoomForAll room(shard.tape, {passing, mask.size()});
    shard.tape.at(name_.c_str());
    branch = path(inner(gather_images(x, mask), some), some);
  }
  const Var residual = shortcut(x, shard, tokens);
  shard.tape.at(name_.c_str());
  return scatter_add_images(branch, mask, drop_path_, residual);
}

}  // namespace normlab
