// The tape: operations in execution order, each with a closure for its backward pass. There is one tape per shard.
// Everything on it, closures included, lives in the shard's arena, so a step allocates nothing.
#pragma once

#include <array>
#include <initializer_list>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "autograd/profile.h"
#include "core/arena.h"
#include "core/devices.h"
#include "core/gradient.h"

namespace normlab {

class Tape;

/// Memory reserved for a tensor of some of a shard's images: enough for all of them.
struct Room {
  std::int64_t images = 1, all = 1;
  std::size_t bytes_of(const Tensor& t) const { return bytes_for(t.shape(), t.dtype()); }
  std::size_t bytes_for(const Shape& shape, DType dtype) const {
    return std::size_t(shape.size()) * size_of(dtype) * std::size_t(all) / std::size_t(images);
  }
};

/// A tensor on a tape. Copies refer to the same variable. Valid until the tape is reset.
class Var {
 public:
  Var() = default;
  /// False for a default-constructed Var, which means an absent argument.
  explicit operator bool() const { return state_ != nullptr; }
  bool operator==(const Var& other) const { return state_ == other.state_; }
  const Tensor& value() const;
  const Shape& shape() const { return value().shape(); }
  Tape& tape() const { return *tape_; }
  bool needs_grad() const;
  /// After backward(): the gradient of a leaf, or an empty tensor if no gradient reached it.
  Tensor grad() const;

 private:
  friend class Tape;
  friend class Grads;
  friend class Saved;
  struct State {
    Tensor value;
    Tensor grad;
    Room room{};
    bool needs_grad = false;
    bool is_parameter = false;  // grad is a lane of the flat gradient buffer, shared by shards
    std::span<std::uint8_t> written{};
    // How to recompute the value, and who may still read it. It can be forgotten only if all readers hold it as Saved.
    void (*remake)(void* closure, Backend&, const Tensor& value) = nullptr;
    void* remake_closure = nullptr;
    int uses = 0, patient_uses = 0;
    int contributions = 0;     // to grad, so far
    State* sums_to = nullptr;  // a parameter whose gradient is the sums over rows of grad
    bool summed = false;       // and which has it
    bool remade = false;
  };
  Var(Tape* tape, State* state) : tape_(tape), state_(state) {}
  Tape* tape_ = nullptr;
  State* state_ = nullptr;
};

/// An input captured by a closure, whose value may be forgotten until the backward pass.
class Saved {
 public:
  /// Recomputes the value if it was forgotten.
  const Tensor& value() const;

 private:
  friend class Tape;
  explicit Saved(const Var& var) : var_(var) {}
  Var var_;
};

inline constexpr int kMaxInputs = 8;
inline constexpr std::uint8_t kWritten = 1;

/// The gradients that a closure fills, one per input in the order of record(). Inputs that need none have an
/// empty Gradient.
class Grads {
 public:
  Gradient operator[](int input);
  /// Makes dy itself the gradient of `input` and returns true if it is the first contribution; otherwise the caller
  /// copies. Saves the copy for a residual sum. Call it at most once per closure, as the last action.
  bool take(int input);
  /// After [input]: where the sums over rows of that gradient go, if this closure completes the gradient and shall
  /// compute them (Kernels::sums_gradients()).
  Gradient sums(int input);
  /// Whether another closure has computed the sums over rows of dy for what row_sums() named.
  bool summed() const { return output->summed; }
  Tape& of() const { return *tape; }

 private:
  friend class Tape;
  static bool same_gradient(const Var::State* a, const Var::State* b);
  Gradient gradient_of(Var::State& state);
  Tape* tape = nullptr;
  Var::State* output = nullptr;
  std::array<Var::State*, kMaxInputs> inputs{};
  std::array<Tensor, kMaxInputs> second{};  // of an input that occurs twice: added after the closure
  bool keeps_dy = false;
};

/// Where a value first became non-finite: the model's name for the place, and the operation.
struct NonFinite {
  std::string op{}, site{};
  bool in_backward = false;
  double value = std::numeric_limits<double>::quiet_NaN();  // the first non-finite value
  explicit operator bool() const { return !op.empty(); }
  /// "the gradient of linear at blocks.0.mlp.fc1"; not for a default-constructed object.
  std::string words() const;
};

class Tape {
 public:
  Tape(Backend& backend, Arena& arena) : backend_(backend), arena_(arena) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  Backend& backend() { return backend_; }

  /// A leaf. Its gradient, if wanted, is kept after backward().
  Var input(Tensor value, bool needs_grad = false);
  /// A leaf whose gradient is added to `grad`, which belongs to the caller. If `written` is given and its first flag is
  /// not kWritten, `grad` is uninitialised: the first contribution is assigned and sets all flags.
  Var parameter(Tensor value, Tensor grad, std::span<std::uint8_t> written = {});

  /// Uninitialised tensors that live until reset().
  Tensor empty(const Shape& shape, DType dtype) { return empty(shape, dtype, room_); }
  Tensor empty_like(const Tensor& t) { return empty(t.shape(), t.dtype()); }
  /// In the type of statistics for activations like `t`.
  Tensor empty_acc(const Tensor& t, const Shape& shape) { return empty(shape, acc_of(t.dtype())); }

  /// Records that `op` made `value` from `inputs`; backward(backend, dy, grads) propagates its gradient. Absent inputs
  /// may be passed as Var(). Nothing is kept if no input needs a gradient.
  template <class Backward>
  Var record(const char* op, std::initializer_list<Var> inputs, Tensor value, Backward backward) {
    static_assert(std::is_trivially_copyable_v<Backward> && std::is_trivially_destructible_v<Backward>,
                  "closures live in the arena: capture tensors and numbers by value");
    Node* node = add_node(op, inputs, value);
    if (node->call) {  // set by add_node() when a gradient is wanted
      node->closure = new (arena_.allocate_host(sizeof(Backward))) Backward(backward);
      node->call = [](void* closure, Backend& backend, const Tensor& dy, Grads& grads) {
        (*static_cast<Backward*>(closure))(backend, dy, grads);
      };
    }
    return Var(this, node->output);
  }

  /// For the closures of an operation that reads `x`: capture the result instead of x's value. An operation whose
  /// closures do not need x's value only has to call it.
  Saved save(const Var& x);
  /// remake(backend, y) writes the value of `output` into y again, bit for bit. The operation's own backward pass must
  /// not read that value.
  template <class Remake>
  void can_remake(const Var& output, Remake remake) {
    static_assert(std::is_trivially_copyable_v<Remake> && std::is_trivially_destructible_v<Remake>);
    Var::State& state = *output.state_;
    if (!state.needs_grad) return;
    state.remake_closure = new (arena_.allocate_host(sizeof(Remake))) Remake(remake);
    state.remake = [](void* closure, Backend& backend, const Tensor& value) {
      (*static_cast<Remake*>(closure))(backend, value);
    };
  }
  /// Releases the memory of a value until the backward pass needs it. No operation may use `x` afterwards. Does nothing
  /// if the value cannot be recomputed or a closure holds it.
  void forget(const Var& x);

  /// Tells that the sums over rows of `value`'s gradient are the gradient of `bias`, or of nothing if that is absent.
  void row_sums(const Var& value, const Var& bias) { value.state_->sums_to = bias.state_; }

  /// Runs the closures in reverse from `output`. `seed` is its gradient, in the shape and type of its value.
  void backward(const Var& output, Tensor seed);

  /// Forgets everything and resets the arena.
  void reset();

  /// While it lives, operations compute values only. An exception that leaves the scope ends it too.
  class Unrecorded {
   public:
    explicit Unrecorded(Tape& tape) : tape_(tape), before_(tape.recording_) { tape.recording_ = false; }
    ~Unrecorded() { tape_.recording_ = before_; }
    Unrecorded(const Unrecorded&) = delete;
    Unrecorded& operator=(const Unrecorded&) = delete;

   private:
    Tape& tape_;
    const bool before_;
  };
  bool recording() const { return recording_; }
  /// The value of body(), a Var of the shape and type of `like`, computed without recording. All other memory that it
  /// takes is released at once.
  template <class Body>
  Var value_alone(const Var& like, const Body& body) {
    const Tensor value = empty_like(like.value());
    Node* const last = last_;
    const Arena::Mark mark = arena_.mark();
    copy(body(), value);
    arena_.rewind(mark);
    last_ = last;
    return input(value);
  }
  /// While it lives, memory for some of the images, and later for the gradient, has room for all of them. A step then
  /// takes the same blocks whatever the number of images.
  class RoomForAll {
   public:
    RoomForAll(Tape& tape, Room room) : tape_(tape), before_(tape.room_) { tape.room_ = room; }
    ~RoomForAll() { tape_.room_ = before_; }
    RoomForAll(const RoomForAll&) = delete;
    RoomForAll& operator=(const RoomForAll&) = delete;

   private:
    Tape& tape_;
    const Room before_;
  };
  /// Names the place in the model to which the next operations belong. The text must outlive the step.
  void at(const char* site) { site_ = site; }
  /// Checks every output and gradient for NaN and infinity until reset(), including those of parameters. Slow: meant
  /// for repeating a step.
  void guard();
  /// Adds times to `profile` from now on; null stops. `profile` must outlive this use.
  void set_profile(Profile* profile) { profile_ = profile; }
  bool guarded() const { return guarded_; }
  /// What to call the operation that runs, if the guard finds something in it.
  void call(std::string_view op);
  /// What the guard found first, in execution order.
  NonFinite nonfinite() const;

 private:
  friend class Grads;
  friend class Saved;
  using Call = void (*)(void*, Backend&, const Tensor&, Grads&);
  struct Node {
    Node* previous;
    const char *op, *site;
    Call call;
    void* closure;
    Var::State* output;
    int count;
    std::array<Var::State*, kMaxInputs> inputs;
    std::int32_t number;
  };
  Tensor empty(const Shape& shape, DType dtype, Room room) {
    return arena_.empty(shape, dtype, room.bytes_for(shape, dtype));
  }
  /// Memory as it was taken for the value: for its gradient, or to compute it again.
  Tensor empty_beside(const Var::State& state) { return empty(state.value.shape(), state.value.dtype(), state.room); }
  void release(const Tensor& t, Room room) { arena_.release(t.raw(), room.bytes_of(t)); }
  Node* add_node(const char* op, std::initializer_list<Var> inputs, Tensor value);
  void remake(Var::State& state);
  void copy(const Var& from, const Tensor& to);
  void check(const Tensor& value, Node& node, bool in_backward);
  void time(const Node& node, bool backward);

  Backend& backend_;
  Arena& arena_;
  Node* last_ = nullptr;
  const char* site_ = "";
  std::int32_t nodes_ = 0;
  Tensor flag_;                   // of the guard, in the arena
  std::int32_t flag_value_ = 0;   // its last value seen by the host
  double nonfinite_value_ = 0.0;  // what raised the flag
  const char* called_ = nullptr;  // by call()
  Room room_{};
  /// Gradients of parameters may be computed at the end; a guard or a profile wants them after each operation.
  bool sums_wait() const { return !guarded_ && !profile_; }
  bool recording_ = true, guarded_ = false;
  Profile* profile_ = nullptr;
};

}  // namespace normlab
