#include "tests/cuda_emulation/fiber.h"

#include <sys/mman.h>

#include <boost/context/detail/fcontext.hpp>

#include "core/error.h"
#include "tests/sanitizer.h"

#if defined(NORMLAB_ADDRESS_SANITIZER)
#include <sanitizer/common_interface_defs.h>
#endif

namespace normlab::emulation {
namespace {
using namespace boost::context::detail;

// The address sanitizer has to be told of another stack, before the jump and after it. Without it these are nothing.
void leave_for([[maybe_unused]] void** kept, [[maybe_unused]] const void* stack, [[maybe_unused]] std::size_t bytes) {
#if defined(NORMLAB_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(kept, stack, bytes);
#endif
}
void arrived([[maybe_unused]] void* kept, [[maybe_unused]] const void** from, [[maybe_unused]] std::size_t* bytes) {
#if defined(NORMLAB_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(kept, from, bytes);
#endif
}
// Kernels hold little; what a sanitizer or a formatted error adds fits too.
constexpr std::size_t kStack = std::size_t{128} << 10, kGuard = 4096;
}  // namespace

// The contexts themselves and not boost::context::fiber: that one unwinds its stack by an exception when it is
// destroyed, and a fault is found inside of calls that nothing may be thrown through.

Fiber::Fiber(Body body) : body_(body) {
  void* map =
      mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) throw EnvironmentError("cuda emulation: no memory for another stack");
  mprotect(map, kGuard, PROT_NONE);
  stack_ = static_cast<char*>(map) + kGuard;
  bytes_ = kStack;
}

Fiber::~Fiber() { munmap(stack_ - kGuard, kGuard + bytes_); }

void Fiber::resume() {
  if (!context_)
    context_ = make_fcontext(stack_ + bytes_, bytes_, [](transfer_t from) {
      Fiber* self = static_cast<Fiber*>(from.data);
      arrived(nullptr, &self->caller_stack_, &self->caller_bytes_);
      self->caller_ = from.fctx;
      self->body_();
    });
  void* kept = nullptr;
  leave_for(&kept, stack_, bytes_);
  context_ = jump_fcontext(context_, this).fctx;
  arrived(kept, nullptr, nullptr);
}

void Fiber::suspend() {
  void* kept = nullptr;
  leave_for(&kept, caller_stack_, caller_bytes_);
  caller_ = jump_fcontext(caller_, nullptr).fctx;
  arrived(kept, &caller_stack_, &caller_bytes_);
}

void Fiber::abandon() { context_ = nullptr; }

}  // namespace normlab::emulation
