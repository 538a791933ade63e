// Runs a kernel's blocks one after the other, each thread of a block as a plain call that becomes a fiber where it has
// to wait. Finds barriers that not all reach and warp operations under divergence; where the kernels were compiled for
// it, each touch of memory is checked too (checks.cpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

struct EmulatedStream;
struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

namespace normlab::emulation {

/// A kernel that is wrong: "layer_norm: block 3, thread 17: ...".
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A line of source: as a default argument, that of the call. (std::source_location is not in clang 14.)
struct Where {
  const char* file = "";
  int line = 0;
  static constexpr Where current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// What threadIdx and the others stand for in the thread that runs.
struct Position {
  uint3 thread, block;
  dim3 block_dim, grid_dim;
};
extern constinit thread_local Position position;

/// Calls body(call) for each thread of each block; `call` holds the kernel's arguments, which are the only memory of
/// the host that it may read. Throws Fault; nothing of the kernel runs on after one.
void run(EmulatedStream* stream, const char* op, dim3 grid, dim3 block, std::size_t shared_bytes, void* call,
         std::size_t call_bytes, void (*body)(void*));

/// Kernels that were launched or captured so far.
long kernels_launched();

// From inside a kernel.

/// Ends the kernel with "op: block, thread: " and this.
[[noreturn]] void fault(const std::string& what);
void block_barrier(Where where);
/// The memory of `bytes` that a block has in common under `key`, the same for all its threads. A null key: what the
/// launch asked for.
void* shared_memory(const void* key, std::size_t bytes);

enum class WarpOp : std::uint8_t { barrier, vote, shuffle };
/// Each lane of `mask` hands in a value; each gets that of lane `source`, or for a vote the bits of those whose value
/// is not 0.
std::uint64_t warp_operation(WarpOp op, std::uint32_t mask, std::uint64_t value, int source, Where where);
/// Bounds of what an atomic function works on.
void check_atomic(void* address, std::size_t bytes);

/// What is being run by this host thread, for the checks of memory. Null outside of kernels.
struct Running {
  std::uint32_t launch_serial, serial;  // blocks counted over all work: the first of this launch, and this
  std::uint32_t unordered;              // Work::unordered of the launch
  std::uint16_t thread;
  std::uint32_t barriers;                       // that the block has passed
  std::array<std::uint32_t, 32> warp_barriers;  // each warp
  const char *stack, *stack_end, *parameters, *parameters_end, *shared, *shared_end;
};
extern constinit thread_local Running* running;

/// While it lives the kernel does not run but what serves it: its own touches of memory are nobody's business. The
/// linker may take a function of the standard library from a file that was compiled with the checks.
class Pause {
 public:
  Pause() : before_(running) { running = nullptr; }
  ~Pause() { running = before_; }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  Running* const before_;
};

/// False where the kernels were compiled without what calls the checks.
bool checks_memory();

}  // namespace normlab::emulation
