#include "cuda/trial_stack.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "core/fiber.h"
#include "cuda/cuda_backend.h"
#include "cuda/recording.h"
#include "cuda/stack_place.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

constexpr std::size_t kTrialStack = std::size_t{8} << 20;  // bytes, as a thread has; what is not used takes no memory

struct Product {
  const char* op;
  LtProduct product;
  LtOperands with;
  LtProducts* alone;
};

}  // namespace

class CudaStack::Place final : public StackPlace {
 public:
  /// ready: may go on. step: waits for the other networks. product, recorded: in a recording, waits for their products,
  /// or for their ends. idle: see TrialStack::wait().
  enum class State : std::uint8_t { running, ready, step, product, recorded, idle, ended };

  Place(CudaStack& stack, std::size_t number)
      : StackPlace({&stack.memory_, number}, {&stack.buffers_, number}, stack.formulas_),
        number_(number),
        backend(*this) {}

  void begin(const FunctionRef<void(int)>& body) {
    body_ = &body;
    state = State::ready;
    error = nullptr;
    fiber.begin([](void* of) { static_cast<Place*>(of)->work(); }, this);
  }
  bool may_go_on() const { return state == State::ready || (state == State::idle && (*ready)()); }

  void run_together(const StepKey& of_step, FunctionRef<void()> step) override {
    key = of_step;
    pause(State::step);
    while (recording) {
      try {
        step();
      } catch (...) {
        error = std::current_exception();
      }
      if (!recording) break;  // it failed
      pause(State::recorded);
    }
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
  }
  bool records() const override { return recording; }
  bool product(LtProducts& alone, const char* op, const LtProduct& p, const LtOperands& with) override {
    wanted = {op, p, with, &alone};
    together = false;
    pause(State::product);
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
    return together || alone(op, p, with);
  }
  void before_waiting() override {
    if (state == State::running) pause(State::ready);
  }
  void pause(State until) {
    state = until;
    fiber.pause();
  }

  std::size_t number() const { return number_; }
  const Stream& stream() const { return backend.stream(); }

 private:
  void work() {
    try {
      (*body_)(static_cast<int>(number_));
    } catch (...) {
      error = std::current_exception();
    }
    state = State::ended;
  }
  const std::size_t number_;
  const FunctionRef<void(int)>* body_ = nullptr;

 public:
  CudaBackend backend;
  Fiber fiber{kTrialStack};
  Event reached;
  State state = State::ended;
  StepKey key{};
  Product wanted{};                      // while state is product
  FunctionRef<bool()>* ready = nullptr;  // while state is idle
  std::exception_ptr error;
  bool recording = false, together = false;
};

CudaStack::CudaStack(int places) : memory_(places), buffers_(places) {
  for (int i = 0; i < places; ++i) places_.push_back(std::make_unique<Place>(*this, static_cast<std::size_t>(i)));
}
CudaStack::~CudaStack() = default;

/// Whether a place of `before` has another network or other memory now.
bool CudaStack::stale(const Steps& before, const Steps& now) {
  return std::any_of(before.begin(), before.end(), [&](const auto& then) {
    return std::any_of(now.begin(), now.end(), [&](const auto& step) {
      return step.first == then.first && step.second.version != then.second.version;
    });
  });
}

Backend& CudaStack::backend(int place) { return places_.at(static_cast<std::size_t>(place))->backend; }

void CudaStack::resume(Place& place) {
  running_ = &place;
  place.state = Place::State::running;
  place.fiber.resume();
  running_ = nullptr;
}

void CudaStack::run(FunctionRef<void(int)> body) {
  constexpr std::chrono::milliseconds kBetweenLooks{1};
  for (const auto& place : places_) place->begin(body);
  const auto lives = [](const auto& place) { return place->state != Place::State::ended; };
  while (std::any_of(places_.begin(), places_.end(), lives)) {
    bool moved = false;
    for (const auto& place : places_)
      if (place->may_go_on()) {
        resume(*place);
        moved = true;
      }
    if (!moved && !step_together()) std::this_thread::sleep_for(kBetweenLooks);
  }
  for (const auto& place : places_)
    if (place->error) std::rethrow_exception(std::exchange(place->error, nullptr));
}

void CudaStack::wait(FunctionRef<bool()> ready) {
  running_->ready = &ready;
  running_->pause(Place::State::idle);
}

bool CudaStack::step_together() {
  Places all;
  Steps steps;
  for (const auto& place : places_)
    if (place->state == Place::State::step) {
      all.push_back(place.get());
      steps.emplace_back(place->number(), place->key);
    }
  if (all.empty()) return false;
  auto graph = graphs_.find(steps);
  if (graph == graphs_.end()) {
    std::unique_ptr<Recording> made = record(all);
    if (!made) return true;
    std::erase_if(graphs_, [&](const auto& other) { return stale(other.first, steps); });
    graph = graphs_.emplace(std::move(steps), std::move(made)).first;
  }
  try {
    for (Place* place : all) {
      place->reached.record(place->stream());
      place->reached.hold(stream_);
    }
    graph->second->replay();
    done_.record(stream_);
    for (Place* place : all) done_.hold(place->stream());
  } catch (...) {
    for (Place* place : all) place->error = std::current_exception();
  }
  for (Place* place : all) {
    place->recording = false;
    place->state = Place::State::ready;
  }
  return true;
}

/// Null if a step threw; that network gets the error, and the others wait for the next recording.
std::unique_ptr<Recording> CudaStack::record(const Places& all) {
  std::unique_ptr<Recording> made;
  try {
    made = record_graph(stream_, [&] {
      begun_.record(stream_);
      for (Place* place : all) {
        begun_.hold(place->stream());
        place->recording = true;
        place->state = Place::State::ready;
      }
      for (Places waiting;; waiting.clear()) {
        for (Place* place : all) {
          if (place->state == Place::State::ready) resume(*place);
          if (place->state == Place::State::product) waiting.push_back(place);
        }
        if (waiting.empty()) break;
        multiply(waiting);
      }
      for (Place* place : all) {
        place->reached.record(place->stream());
        place->reached.hold(stream_);
      }
    });
    bool compared = false;
    for (Place* place : all) compared |= place->backend.compare_products();
    if (compared) return record(all);
  } catch (...) {
    for (Place* place : all)
      if (!place->error) place->error = std::current_exception();
  }
  bool failed = false;
  for (Place* place : all) {
    place->state = Place::State::step;
    if (!place->error) continue;
    failed = true;
    place->recording = false;
    place->state = Place::State::ready;
  }
  return failed ? nullptr : std::move(made);
}

/// Each network waits with a product. Those of adjacent places that are equal are one call, if cuBLASLt has that.
void CudaStack::multiply(const Places& waiting) {
  for (Place* place : waiting) place->state = Place::State::ready;
  for (auto first = waiting.begin(); first != waiting.end();) {
    const auto joins = [&](const Place& next, const Place& before) {
      const Product &one = (*first)->wanted, &other = next.wanted;
      return next.number() == before.number() + 1 && other.product == one.product &&
             one.alone->same_algorithm(one.product, *other.alone);
    };
    auto end = first + 1;
    while (end != waiting.end() && joins(**end, **(end - 1))) ++end;
    multiply_adjacent({first, end});
    first = end;
  }
}

void CudaStack::multiply_adjacent(std::span<Place* const> some) {
  if (some.size() < 2 || multiply_at_once(some) != AtOnce::no) return;
  const std::size_t half = some.size() / 2;  // some may lie elsewhere
  multiply_adjacent(some.first(half));
  multiply_adjacent(some.subspan(half));
}

AtOnce CudaStack::multiply_at_once(std::span<Place* const> some) {
  Place& first = *some[0];
  try {
    std::vector<LtOperands> operands;
    for (Place* place : some) {
      operands.push_back(place->wanted.with);
      if (place == &first) continue;
      place->reached.record(place->stream());
      place->reached.hold(first.stream());
    }
    const AtOnce how = first.wanted.alone->at_once(first.wanted.op, first.wanted.product, operands);
    if (how != AtOnce::done) return how;
    first.reached.record(first.stream());
    for (Place* place : some) {
      place->together = true;
      if (place != &first) first.reached.hold(place->stream());
    }
  } catch (...) {
    for (Place* place : some) place->error = std::current_exception();
  }
  return AtOnce::done;
}

std::unique_ptr<TrialStack> make_stack(int places, int number, bool shared) {
  use_device(number, shared);  // reports first what is missing
  if (!device_info().managed_at_any_time)
    throw EnvironmentError(concat("--stack ", places, ": ", device_info().name,
                                  " does not let the host read memory while kernels run; leave it out"));
  return std::make_unique<CudaStack>(places);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
