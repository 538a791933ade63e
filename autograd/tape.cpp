#include "autograd/tape.h"

#include <algorithm>
#include <stdexcept>

#include "core/backend.h"
#include "core/nonfinite.h"

namespace normlab {

const Tensor& Var::value() const {
  if (!state_->value) throw std::logic_error("tape: a value is read after it was freed");
  return state_->value;
}
bool Var::needs_grad() const { return state_ && state_->needs_grad; }
Tensor Var::grad() const { return state_->grad; }

const Tensor& Saved::value() const {
  Var::State& state = *var_.state_;
  if (!state.value) var_.tape_->remake(state);
  return state.value;
}

bool Grads::same_gradient(const Var::State* a, const Var::State* b) {
  return a == b || (a && a->is_parameter && b->is_parameter && a->grad.raw() == b->grad.raw());
}

Gradient Grads::operator[](int input) {
  Var::State* state = inputs[static_cast<std::size_t>(input)];
  if (!state || !state->needs_grad) return {};
  for (int earlier = 0; earlier < input; ++earlier)
    if (same_gradient(inputs[static_cast<std::size_t>(earlier)], state)) {
      // The same variable twice in one operation: kernels may interleave their writes, so the second use gets its
      // own memory.
      Tensor& t = second[static_cast<std::size_t>(input)];
      t = tape->empty_beside(*state);
      return {t, Write::assign};
    }
  return gradient_of(*state);
}

Gradient Grads::gradient_of(Var::State& state) {
  ++state.contributions;
  if (state.is_parameter && !state.written.empty() && state.written.front() != kWritten) {
    std::fill(state.written.begin(), state.written.end(), kWritten);
    return {state.grad, Write::assign, tape->sums_wait()};
  }
  if (state.is_parameter) tape->backend().finish_sums();  // an earlier contribution may be waiting
  if (state.grad) return {state.grad, Write::add};
  state.grad = tape->empty_beside(state);
  return {state.grad, Write::assign};
}

Gradient Grads::sums(int input) {
  Var::State* const state = inputs[static_cast<std::size_t>(input)];
  if (!state || !state->sums_to || !state->sums_to->needs_grad || state->contributions != state->uses) return {};
  if (tape->guarded_ || !tape->backend().sums_gradients()) return {};
  state->summed = true;
  return gradient_of(*state->sums_to);
}

bool Grads::take(int input) {
  Var::State* state = inputs[static_cast<std::size_t>(input)];
  if (!state || !state->needs_grad) return true;  // nothing to copy
  if (keeps_dy || state->is_parameter || state->grad) return false;
  state->grad = output->grad.reshape(state->value.shape());
  output->grad = Tensor();
  ++state->contributions;
  return true;
}

Var Tape::input(Tensor value, bool needs_grad) {
  auto* state = new (arena_.allocate_host(sizeof(Var::State))) Var::State;
  state->value = value;
  state->needs_grad = needs_grad && recording_;
  return Var(this, state);
}

Var Tape::parameter(Tensor value, Tensor grad, std::span<std::uint8_t> written) {
  Var var = input(value, bool(grad));
  var.state_->written = written;
  var.state_->grad = grad;
  var.state_->is_parameter = true;
  return var;
}

Tape::Node* Tape::add_node(const char* op, std::initializer_list<Var> inputs, Tensor value) {
  if (inputs.size() > kMaxInputs) throw InputError(concat(op, ": has more than ", kMaxInputs, " inputs"));
  auto* node = new (arena_.allocate_host(sizeof(Node))) Node{};
  node->op = op;
  node->site = site_;
  node->output = new (arena_.allocate_host(sizeof(Var::State))) Var::State;
  node->output->value = value;
  node->output->room = room_;
  for (const Var& var : inputs) {
    node->inputs[static_cast<std::size_t>(node->count++)] = var.state_;
    if (var) ++var.state_->uses;
    node->output->needs_grad |= recording_ && var.needs_grad();
  }
  node->number = ++nodes_;
  node->previous = last_;
  last_ = node;
  if (node->output->needs_grad) node->call = [](void*, Backend&, const Tensor&, Grads&) {};
  if (profile_) time(*node, false);
  check(value, *node, false);
  called_ = nullptr;
  return node;
}

Saved Tape::save(const Var& x) {
  ++x.state_->patient_uses;
  return Saved(x);
}

void Tape::forget(const Var& x) {
  Var::State& state = *x.state_;
  if (!state.remake || !state.value || state.patient_uses != state.uses) return;
  release(state.value, state.room);
  state.value = Tensor(nullptr, state.value.shape(), state.value.dtype());
}

void Tape::copy(const Var& from, const Tensor& to) { backend_.copy_gradient(from.value(), {to, Write::assign}); }

void Tape::remake(Var::State& state) {
  const Tensor value = empty_beside(state);
  state.remake(state.remake_closure, backend_, value);
  state.value = value;
  state.remade = true;
}

void Tape::backward(const Var& output, Tensor seed) {
  require_shape("backward", "seed", seed.shape(), output.shape());
  if (!output.needs_grad()) throw InputError("backward: the output depends on no value that needs a gradient");
  output.state_->grad = seed;
  backend_.finish_sums();  // of a backward pass that threw
  if (profile_) profile_->start();
  for (Node* node = last_; node; node = node->previous) {
    if (!node->call || !node->output->grad) continue;  // no later operation used it
    Grads grads;
    grads.tape = this;
    grads.output = node->output;
    grads.inputs = node->inputs;
    grads.keeps_dy = node->output == output.state_;  // the seed belongs to the caller
    const Tensor dy = node->output->grad;
    // All readers of the value are done, since an operation with a recomputable output does not read it.
    if (node->output->remade) release(node->output->value, node->output->room);
    node->call(node->closure, backend_, dy, grads);
    for (int i = 0; i < node->count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (grads.second[at]) {
        backend_.finish_sums();
        backend_.copy_gradient(grads.second[at], {node->inputs[at]->grad, Write::add});
        release(grads.second[at], node->inputs[at]->room);
      }
      const Var::State* input = node->inputs[at];
      if (!guarded_ || !input || !input->grad) continue;
      // The memory of a parameter's gradient is uninitialised before its first contribution.
      if (input->written.empty() || input->written.front() == kWritten) check(input->grad, *node, true);
    }
    called_ = nullptr;
    if (profile_) time(*node, true);
    if (grads.keeps_dy) continue;
    if (node->output->grad) release(dy, node->output->room);  // unless taken by an input
    node->output->grad = Tensor();
  }
  backend_.finish_sums();
}

void Tape::check(const Tensor& value, Node& node, bool in_backward) {
  if (!guarded_) return;
  if (flag_value_ != 0) return;  // the first is known
  backend_.check_finite(value, in_backward ? -node.number : node.number, flag_);
  backend_.synchronize();
  flag_value_ = *flag_.data<std::int32_t>();
  if (flag_value_ == 0) return;
  if (const auto found = first_nonfinite(value)) nonfinite_value_ = found->value;
  if (called_) node.op = called_;
}

void Tape::call(std::string_view op) {
  auto* text = static_cast<char*>(arena_.allocate_host(op.size() + 1));
  *std::copy(op.begin(), op.end(), text) = '\0';
  called_ = text;
}

void Tape::time(const Node& node, bool backward) {
  std::array<Tensor, kMaxInputs> inputs;
  for (int i = 0; i < node.count; ++i)
    if (const Var::State* state = node.inputs[static_cast<std::size_t>(i)])
      inputs[static_cast<std::size_t>(i)] = state->value;
  profile_->done(node.op, backward, inputs.data(), node.count, node.output->value);
}

void Tape::guard() {
  guarded_ = true;
  flag_value_ = 0;
  flag_ = empty({1}, DType::i32);
  backend_.fill(flag_, 0);
}

NonFinite Tape::nonfinite() const {
  const std::int32_t number = flag_value_ < 0 ? -flag_value_ : flag_value_;
  for (const Node* node = last_; node && number; node = node->previous)
    if (node->number == number) return {node->op, node->site, flag_value_ < 0, nonfinite_value_};
  return {};
}

std::string NonFinite::words() const {
  return concat(in_backward ? "the gradient" : "the value", " of ", op, " at ", site);
}

void Tape::reset() {
  last_ = nullptr;
  nodes_ = 0;
  guarded_ = false;
  flag_value_ = 0;
  site_ = "";
  arena_.reset();
  if (!profile_) return;
  profile_->settle();
  profile_->start();
}

}  // namespace normlab
