// A call stack that a thread can leave in the middle of a function and any thread can come back to.
//
// Changing threads costs a sleep and a wake-up, 30 to 70 us in a virtual machine; changing fibers costs less than one.
// Code that runs on a fiber may find itself on another thread after pause(), so it must not keep the address of
// anything thread-local across it.
#pragma once

#include <ucontext.h>

#include <cstddef>

namespace normlab {

class Fiber {
 public:
  /// Takes the stack. EnvironmentError where the system gives no memory for it.
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next resume() calls body(of), which throws nothing.
  void begin(void (*body)(void*), void* of);
  /// Runs the body until it pauses or returns; true once it has returned.
  bool resume();
  /// Goes back to who called resume(). Called on the fiber itself.
  void pause();

 private:
  static void enter(unsigned low, unsigned high);

  ucontext_t own_{}, resumer_{};
  void* memory_ = nullptr;
  void (*body_)(void*) = nullptr;
  void* of_ = nullptr;
  bool done_ = true;
  /// What a sanitizer knows this stack and the resumer's by; unused in other builds.
  void *sanitizer_own_ = nullptr, *sanitizer_resumer_ = nullptr;
  const void* resumer_stack_ = nullptr;
  std::size_t resumer_stack_bytes_ = 0;
};

}  // namespace normlab
