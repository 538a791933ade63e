// Every touch of memory by a kernel. The kernels are compiled with -fsanitize=thread, which puts a call of a function
// named below before each load and store; linked are not the compiler's own functions but these. A touch must be of
// memory that the device has and that is in use there, what is read must have been written, and two threads may not
// touch the same bytes, one of them writing, without a barrier between them.
#include <cstring>

#include "core/error.h"
#include "tests/cuda_emulation/heap.h"
#include "tests/cuda_emulation/scheduler.h"
#include "tests/cuda_emulation/streams.h"

extern "C" {
extern char __executable_start;
extern char end;
}

namespace normlab::emulation {
namespace {

template <class T>
bool within(const void* address, const T* begin, const T* finish) {
  return address >= static_cast<const void*>(begin) && address < static_cast<const void*>(finish);
}

bool is_poison(const char* address, std::size_t bytes) {
  if (bytes < 2 || reinterpret_cast<std::uintptr_t>(address) % 2) return false;  // a byte may have any value
  for (std::size_t i = 0; i < bytes; i += 2) {
    std::uint16_t pair;
    std::memcpy(&pair, address + i, 2);
    if (pair != kPoison) return false;
  }
  return true;
}

/// The later touch came without a barrier after the earlier one, or from other work and with nothing between them.
bool races(const Running& now, const Touch& before, std::uint8_t bytes) {
  if (!(before.bytes & bytes)) return false;
  if (before.serial < now.launch_serial) {
    if (before.serial < now.unordered) return false;
    const Pause pause;
    return out_of_order(before.serial);
  }
  if (before.serial != now.serial || before.several == 3) return true;  // blocks never wait for each other
  if (before.barriers != now.barriers) return false;
  if (before.several == 2) return true;
  if (before.thread == now.thread && before.several == 0) return false;
  const unsigned warp = now.thread / 32u;
  return before.thread / 32u != warp || before.warp_barriers == now.warp_barriers[warp];
}

/// What is known of reads once `mine` has come.
Touch joined(const Running& now, const Touch& before, Touch mine) {
  if (before.serial < now.launch_serial || before.bytes != mine.bytes) return mine;
  if (before.serial != mine.serial || before.several == 3) {
    mine.several = 3;
  } else if (before.barriers == mine.barriers) {
    if (before.several == 2 || before.thread / 32u != mine.thread / 32u)
      mine.several = 2;
    else if (before.warp_barriers == mine.warp_barriers && (before.several || before.thread != mine.thread))
      mine.several = 1;
  }
  return mine;
}

[[noreturn]] void fault_of_race(const Running& now, const Touch& before, const char* verb, const char* verb_before) {
  const Pause pause;
  if (before.serial < now.launch_serial)
    fault(concat(verb, " what ", words_of(before.serial), " has ", verb_before, kOutOfOrder));
  const std::string who = before.serial != now.serial || before.several == 3
                              ? concat("a thread of another block (thread ", before.thread, ")")
                          : before.several ? std::string("other threads")
                                           : concat("thread ", before.thread);
  fault(concat(verb, " what ", who, " has ", verb_before, ", with no barrier between them"));
}

void check_race(Running& now, const char* address, std::size_t size, bool writes) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const bool shared = within(address, now.shared, now.shared_end);
  const Touch mine{
      now.serial, now.thread,   static_cast<std::uint8_t>(size >= 4 ? 15u : ((1u << size) - 1u) << (at % 4)),
      0,          now.barriers, now.warp_barriers[now.thread / 32u]};
  for (std::size_t i = 0; i < size; i += 4) {
    Touches& seen = heap_touches(address + i);
    if (shared) {  // the next block has it for its own
      if (seen.write.serial != now.serial) seen.write = {};
      if (seen.read.serial != now.serial) seen.read = {};
    }
    if (races(now, seen.write, mine.bytes)) fault_of_race(now, seen.write, writes ? "writes" : "reads", "written");
    if (writes) {
      if (races(now, seen.read, mine.bytes)) fault_of_race(now, seen.read, "writes", "read");
      seen.write = mine;
    } else {
      seen.read = joined(now, seen.read, mine);
    }
  }
}

// Called by what the compiler puts in, which a sanitizer of its own leaves out.
[[maybe_unused]] void check(const void* address, std::size_t size, bool writes) {
  Running* now = running;
  if (!now) return;
  const char* verb = writes ? "writes" : "reads";
  if (in_heap(address)) {
    const char* bytes = static_cast<const char*>(address);
    if (!heap_in_use(address, size)) {
      const Pause pause;
      fault(concat(verb, " ", size, " bytes ", heap_describe(address)));
    }
    if (!writes && is_poison(bytes, size)) {
      const Pause pause;
      fault(concat("reads ", size, " bytes that nobody has written"));
    }
    check_race(*now, bytes, size, writes);
    return;
  }
  if (within(address, now->stack, now->stack_end) || address == static_cast<const void*>(&running) ||
      within(address, reinterpret_cast<const char*>(&position), reinterpret_cast<const char*>(&position + 1)))
    return;
  // What the host hands over by value, and constants.
  if (!writes && (within(address, now->parameters, now->parameters_end) || within(address, &__executable_start, &end)))
    return;
  const Pause pause;
  fault(concat(verb, " ", size, " bytes of the host's memory, which no device can see"));
}

bool called = false;

}  // namespace

bool checks_memory() { return called; }

void check_atomic(void* address, std::size_t bytes) {
  const Running* now = running;
  const Pause pause;
  if (now && (!in_heap(address) || !heap_in_use(address, bytes)))
    fault(
        concat("an atomic on ", bytes, " bytes ", in_heap(address) ? heap_describe(address) : "of the host's memory"));
}

}  // namespace normlab::emulation

#ifndef NORMLAB_SANITIZED  // then the sanitizer brings its own
using normlab::emulation::check;
extern "C" {
void __tsan_init() { normlab::emulation::called = true; }
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read1(void* p) { check(p, 1, false); }
void __tsan_read2(void* p) { check(p, 2, false); }
void __tsan_read4(void* p) { check(p, 4, false); }
void __tsan_read8(void* p) { check(p, 8, false); }
void __tsan_read16(void* p) { check(p, 16, false); }
void __tsan_write1(void* p) { check(p, 1, true); }
void __tsan_write2(void* p) { check(p, 2, true); }
void __tsan_write4(void* p) { check(p, 4, true); }
void __tsan_write8(void* p) { check(p, 8, true); }
void __tsan_write16(void* p) { check(p, 16, true); }
void __tsan_unaligned_read2(void* p) { check(p, 2, false); }
void __tsan_unaligned_read4(void* p) { check(p, 4, false); }
void __tsan_unaligned_read8(void* p) { check(p, 8, false); }
void __tsan_unaligned_read16(void* p) { check(p, 16, false); }
void __tsan_unaligned_write2(void* p) { check(p, 2, true); }
void __tsan_unaligned_write4(void* p) { check(p, 4, true); }
void __tsan_unaligned_write8(void* p) { check(p, 8, true); }
void __tsan_unaligned_write16(void* p) { check(p, 16, true); }
void __tsan_read_range(void* p, std::size_t bytes) { check(p, bytes, false); }
void __tsan_write_range(void* p, std::size_t bytes) { check(p, bytes, true); }
// Flags of static variables (8 bytes on ARM) and counts of shared pointers, in the host's part of the files.
char __tsan_atomic8_load(const volatile char* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
long __tsan_atomic64_load(const volatile long* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
int __tsan_atomic32_load(const volatile int* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
int __tsan_atomic32_fetch_add(volatile int* p, int v, int) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }
}
#endif
