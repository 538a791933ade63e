// The tape: operations in the order they ran, each with the closure that runs it backwards. One tape a shard;
// everything on it, closures included, lives in the shard's arena, so a step allocates nothing.
#pragma once

#include <array>
#include <initializer_list>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <type_traits>

#include "autograd/profile.h"
#include "core/arena.h"
#include "core/devices.h"
#include "core/gradient.h"

namespace normlab {

class Tape;

/// How much memory a tensor of some of a shard's images takes: that of all of them.
struct Room {
  std::int64_t images = 1, all = 1;
  std::size_t bytes_of(const Tensor& t) const { return bytes_for(t.shape(), t.dtype()); }
  std::size_t bytes_for(const Shape& shape, DType dtype) const {
    return std::size_t(shape.size()) * size_of(dtype) * std::size_t(all) / std::size_t(images);
  }
};

/// A tensor on a tape. A handle: copies mean the same variable. Valid until the tape is reset.
class Var {
 public:
  Var() = default;
  /// False for a default-constructed Var, which stands for an argument that is not there.
  explicit operator bool() const { return state_ != nullptr; }
  const Tensor& value() const;
  const Shape& shape() const { return value().shape(); }
  Tape& tape() const { return *tape_; }
  bool needs_grad() const;
  /// After backward(): the gradient of a leaf, or an empty tensor where nothing depended on it.
  Tensor grad() const;

 private:
  friend class Tape;
  friend class Grads;
  friend class Kept;
  struct State {
    Tensor value;
    Tensor grad;
    Room room{};
    bool needs_grad = false;
    bool is_parameter = false;  // grad is a lane of the flat gradient buffer, shared by shards
    std::span<std::uint8_t> written{};
    // How to make the value again, and who may still read it: all who do must be able to wait for that.
    void (*remake)(void* closure, Backend&, const Tensor& value) = nullptr;
    void* remake_closure = nullptr;
    int uses = 0, patient_uses = 0;
    bool remade = false;
  };
  Var(Tape* tape, State* state) : tape_(tape), state_(state) {}
  Tape* tape_ = nullptr;
  State* state_ = nullptr;
};

/// An input as a closure keeps it whose value may be forgotten until the backward pass.
class Kept {
 public:
  /// Makes the value again if it is forgotten.
  const Tensor& value() const;

 private:
  friend class Tape;
  explicit Kept(const Var& var) : var_(var) {}
  Var var_;
};

inline constexpr int kMaxInputs = 8;
inline constexpr std::uint8_t kWritten = 1;

/// The gradients that a closure fills, one an input in the order of record(). An input that needs none gives an empty
/// Gradient.
class Grads {
 public:
  Gradient operator[](int input);
  /// Hands dy itself over as the gradient of `input` where that is its first contribution, and says so; where it is
  /// not, the caller copies. Saves the copy that a residual sum would cost. At most once a closure, as its last act.
  bool take(int input);

 private:
  friend class Tape;
  static bool same_gradient(const Var::State* a, const Var::State* b);
  Tape* tape = nullptr;
  Var::State* output = nullptr;
  std::array<Var::State*, kMaxInputs> inputs{};
  std::array<Tensor, kMaxInputs> second{};  // of an input that stands twice: added once the closure is done
  bool keeps_dy = false;
};

/// Where a value first stopped being finite. `site` is the model's name for the place, `op` the operation.
struct NonFinite {
  const char* op = nullptr;
  const char* site = nullptr;
  bool in_backward = false;
  double value = std::numeric_limits<double>::quiet_NaN();  // the first of its values that is not finite
  explicit operator bool() const { return op != nullptr; }
  /// "the gradient of linear at blocks.0.mlp.fc1"; not of a default-constructed one.
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
  /// A leaf whose gradient is added into `grad`, which belongs to somebody else. Where `written` is given and its first
  /// flag is not kWritten, `grad` holds nothing yet: the first contribution is assigned, and sets all flags.
  Var parameter(Tensor value, Tensor grad, std::span<std::uint8_t> written = {});

  /// Undefined tensors that live until reset().
  Tensor empty(const Shape& shape, DType dtype) { return empty(shape, dtype, room_); }
  Tensor empty_like(const Tensor& t) { return empty(t.shape(), t.dtype()); }
  /// In the type of statistics beside activations like `t`.
  Tensor empty_acc(const Tensor& t, const Shape& shape) { return empty(shape, acc_of(t.dtype())); }

  /// Says that `op` has made `value` from `inputs`, and how its gradient goes back: backward(backend, dy, grads).
  /// Inputs that are not there may be passed as Var(). Without an input that needs a gradient nothing is kept.
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

  /// For the closures of one operation that reads `x`, to be captured in place of its value. Where an operation's
  /// closures need no value of x, calling it is enough.
  Kept keep(const Var& x);
  /// remake(backend, y) writes the value of `output` into y once more, bit for bit. The operation's own backward pass
  /// must not read that value.
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
  /// Gives the memory of a value back until the backward pass asks for it. No operation may use `x` after this. Does
  /// nothing where the value cannot be made again, or where a closure holds it.
  void forget(const Var& x);

  /// Runs the closures in reverse from `output`, whose gradient is `seed`, of the same shape and in the type of its
  /// value.
  void backward(const Var& output, Tensor seed);

  /// Forgets everything and takes the arena back.
  void reset();

  /// As long as it lives only values are wanted, also where the scope is left by an exception.
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
  /// body(), a Var of the shape and type of `like`, where only values are wanted: all other memory that it takes is
  /// given back at once.
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
  /// As long as it lives, what is taken for some images, and later for its gradient, has room for all of them. So a
  /// step takes the same blocks however many images there are.
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
  /// Name of the place in the model that the next operations belong to; the text must outlive the step.
  void at(const char* site) { site_ = site; }
  /// Until reset() every output and every gradient, those of parameters too, is searched for NaN and infinity. Slow:
  /// meant for running a step again.
  void guard();
  /// From now on times go there; null to stop. The profile outlives its use here.
  void set_profile(Profile* profile) { profile_ = profile; }
  /// What the guard found first, in the order of execution.
  NonFinite nonfinite() const;

 private:
  friend class Grads;
  friend class Kept;
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
  /// For a gradient of it.
  Tensor empty_beside(const Var::State& state) { return empty(state.value.shape(), state.value.dtype(), state.room); }
  void release(const Tensor& t, Room room) { arena_.release(t.raw(), room.bytes_of(t)); }
  Node* add_node(const char* op, std::initializer_list<Var> inputs, Tensor value);
  void remake(Var::State& state);
  void copy(const Var& from, const Tensor& to);
  void check(const Tensor& value, const Node& node, bool in_backward);
  void time(const Node& node, bool backward);

  Backend& backend_;
  Arena& arena_;
  Node* last_ = nullptr;
  const char* site_ = "";
  std::int32_t nodes_ = 0;
  Tensor flag_;                   // of the guard, in the arena
  std::int32_t flag_value_ = 0;   // what the host has seen of it
  double nonfinite_value_ = 0.0;  // what raised the flag
  Room room_{};
  bool recording_ = true, guarded_ = false;
  Profile* profile_ = nullptr;
};

}  // namespace normlab
