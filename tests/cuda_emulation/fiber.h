// A function that stops in its middle and goes on later, on a stack of its own. The one door to Boost.Context.
#pragma once

#include <cstddef>

namespace normlab::emulation {

class Fiber {
 public:
  using Body = void (*)();
  /// Maps a stack with a page below it that must not be touched. The body never returns: where it has nothing more to
  /// do it suspends.
  explicit Fiber(Body body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the body, or goes on with it where it suspended; returns when it suspends.
  void resume();
  /// From inside: back to who resumed it.
  void suspend();
  /// The next resume() begins the body again; what it was doing is forgotten, no destructor runs.
  void abandon();

  const void* stack() const { return stack_; }
  std::size_t stack_bytes() const { return bytes_; }

 private:
  const Body body_;
  char* stack_ = nullptr;
  std::size_t bytes_ = 0;
  void *context_ = nullptr, *caller_ = nullptr;
};

}  // namespace normlab::emulation
