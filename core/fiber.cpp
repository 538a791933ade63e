#include "core/fiber.h"

#include <cxxabi.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/error.h"

#if defined(__SANITIZE_ADDRESS__)
#define NORMLAB_FIBER_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define NORMLAB_FIBER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NORMLAB_FIBER_ASAN 1
#elif __has_feature(thread_sanitizer)
#define NORMLAB_FIBER_TSAN 1
#endif
#endif

#if defined(NORMLAB_FIBER_ASAN)
#include <sanitizer/common_interface_defs.h>
#elif defined(NORMLAB_FIBER_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace normlab {
namespace {

constexpr std::size_t kGuard = 4096;      // below the stack: an overflow ends the process instead of corrupting memory
constexpr std::size_t kWarm = 128 << 10;  // what shards use: touched now, so that no later step takes a page

/// Tells a sanitizer which stack the thread is on.
void leave_stack([[maybe_unused]] void** keep, [[maybe_unused]] void* to, [[maybe_unused]] const void* stack,
                 [[maybe_unused]] std::size_t bytes) {
#if defined(NORMLAB_FIBER_ASAN)
  __sanitizer_start_switch_fiber(keep, stack, bytes);
#elif defined(NORMLAB_FIBER_TSAN)
  __tsan_switch_to_fiber(to, 0);
#endif
}

void enter_stack([[maybe_unused]] void* kept, [[maybe_unused]] const void** left,
                 [[maybe_unused]] std::size_t* left_bytes) {
#if defined(NORMLAB_FIBER_ASAN)
  __sanitizer_finish_switch_fiber(kept, left, left_bytes);
#endif
}

}  // namespace

Fiber::Fiber(std::size_t stack_bytes) : stack_bytes_(stack_bytes) {
  memory_ =
      mmap(nullptr, kGuard + stack_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory_ == MAP_FAILED)
    throw EnvironmentError(concat("cannot map the stack of a fiber (", std::strerror(errno),
                                  "); raise the limit on address space (ulimit -v), or use fewer --workers"));
  mprotect(memory_, kGuard, PROT_NONE);
  char* end = static_cast<char*>(memory_) + kGuard + stack_bytes_;
  for (std::size_t at = kGuard; at <= kWarm; at += kGuard) end[-std::ptrdiff_t(at)] = 0;
#if defined(NORMLAB_FIBER_TSAN)
  sanitizer_own_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if defined(NORMLAB_FIBER_TSAN)
  __tsan_destroy_fiber(sanitizer_own_);
#endif
  munmap(memory_, kGuard + stack_bytes_);
}

void Fiber::begin(void (*body)(void*), void* argument) {
  body_ = body;
  argument_ = argument;
  done_ = false;
  getcontext(&own_);
  own_.uc_stack = {static_cast<char*>(memory_) + kGuard, 0, stack_bytes_};
  own_.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&own_, reinterpret_cast<void (*)()>(enter), 2, unsigned(self), unsigned(self >> 32));
}

bool Fiber::resume() {
#if defined(NORMLAB_FIBER_TSAN)
  sanitizer_resumer_ = __tsan_get_current_fiber();
#endif
  void* kept = nullptr;
  // The thread has one such record, but the fiber may pause in the middle of a catch block.
  auto* const of_thread = reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
  std::swap(*of_thread, exceptions_);
  leave_stack(&kept, sanitizer_own_, static_cast<char*>(memory_) + kGuard, stack_bytes_);
  swapcontext(&resumer_, &own_);
  enter_stack(kept, nullptr, nullptr);
  std::swap(*of_thread, exceptions_);
  return done_;
}

void Fiber::pause() {
  void* kept = nullptr;
  leave_stack(done_ ? nullptr : &kept, sanitizer_resumer_, resumer_stack_, resumer_stack_bytes_);
  swapcontext(&own_, &resumer_);
  enter_stack(kept, &resumer_stack_, &resumer_stack_bytes_);
}

void Fiber::enter(unsigned low, unsigned high) {
  Fiber& self = *reinterpret_cast<Fiber*>(std::uintptr_t(low) | std::uintptr_t(high) << 32);
  enter_stack(nullptr, &self.resumer_stack_, &self.resumer_stack_bytes_);
  self.body_(self.argument_);
  self.done_ = true;
  self.pause();
}

}  // namespace normlab
