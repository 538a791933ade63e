// A call stack that a thread can leave in the middle of a function and any thread can resume.
//
// Switching threads costs a sleep and a wake-up, 30 to 70 us in a virtual machine; switching fibers costs less than
// 1 us. After pause() code may continue on another thread, so it must not keep addresses of thread-local variables
// across it.
#pragma once

#include <ucontext.h>

#include <cstddef>

namespace normlab {

class Fiber {
 public:
  /// Allocates the stack; by default one that a shard needs. Throws EnvironmentError if the system has no memory for it.
  explicit Fiber(std::size_t stack_bytes = std::size_t{512} << 10);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next resume() calls body(of), which must not throw.
  void begin(void (*body)(void*), void* argument);
  /// Runs the body until it pauses or returns; true once it has returned.
  bool resume();
  /// Returns to the caller of resume(). Call it only on the fiber itself.
  void pause();

 private:
  static void enter(unsigned low, unsigned high);

  /// What the C++ runtime knows of a stack's exceptions, those that are caught and those in flight.
  struct Exceptions {
    void* caught = nullptr;
    unsigned in_flight = 0;
  };
  ucontext_t own_{}, resumer_{};
  Exceptions exceptions_{};
  const std::size_t stack_bytes_;
  void* memory_ = nullptr;
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  bool done_ = true;
  /// How a sanitizer knows this stack and the resumer's; unused in other builds.
  void *sanitizer_own_ = nullptr, *sanitizer_resumer_ = nullptr;
  const void* resumer_stack_ = nullptr;
  std::size_t resumer_stack_bytes_ = 0;
};

}  // namespace normlab
