// The only way to start a kernel: checks the limits of a launch, names the op in later errors, and lets the tests'
// emulation take over.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <tuple>
#include <utility>

#include "cuda/device.h"

/// T* name: memory shared by the threads of a block, with `count` values (a constant) or, in the second form, as many
/// bytes as the launch requested. Uninitialised.
#ifdef NORMLAB_CUDA_EMULATED
#define NORMLAB_SHARED(T, name, count) \
  static const char name##_key = 0;    \
  T* const name = static_cast<T*>(::normlab::emulation::shared_memory(&name##_key, sizeof(T) * (count)))
#define NORMLAB_DYNAMIC_SHARED(T, name) T* const name = static_cast<T*>(::normlab::emulation::shared_memory(nullptr, 0))
#else
#define NORMLAB_SHARED(T, name, count)                                    \
  __shared__ alignas(16) unsigned char name##_bytes[sizeof(T) * (count)]; \
  T* const name = reinterpret_cast<T*>(name##_bytes)
#define NORMLAB_DYNAMIC_SHARED(T, name)                                   \
  extern __shared__ __align__(16) unsigned char normlab_dynamic_shared[]; \
  T* const name = reinterpret_cast<T*>(normlab_dynamic_shared)
#endif

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// Bytes of shared memory that a block gets without asking, and how many of them NORMLAB_SHARED may take in a kernel
/// that has NORMLAB_DYNAMIC_SHARED too.
inline constexpr std::size_t kSharedWithoutAsking = 48 * 1024, kSharedOfArrays = 16 * 1024;

/// Whether a multiprocessor's shared memory holds `blocks` blocks with `shared` bytes each.
inline bool blocks_fit(int blocks, std::size_t shared) {
  constexpr std::size_t kReserved = 1024;  // of each block, by CUDA; also what one block alone cannot have
  return static_cast<std::size_t>(blocks) * (shared + kReserved) <= device_info().shared_per_block + kReserved;
}

/// Blocks of a grid and threads of a block, both along x. `shared`: bytes for NORMLAB_DYNAMIC_SHARED.
struct Launch {
  std::int64_t blocks;
  int threads = 256;
  std::size_t shared = 0;
};

/// Starts kernel(args...) on the stream; the kernel returns void and takes its arguments by value. Launches nothing for
/// zero blocks. Throws InputError beyond 2^31 - 1 blocks, 1,024 threads or the device's shared memory, and
/// EnvironmentError if CUDA refuses.
template <class... Parameters, class... Arguments>
void launch(const char* op, void (*kernel)(Parameters...), Launch grid, const Stream& stream,
            Arguments&&... arguments) {
  if (grid.blocks == 0) return;
  check_launch(op, grid.blocks, grid.threads, grid.shared);
  std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
  const auto blocks = static_cast<unsigned>(grid.blocks), threads = static_cast<unsigned>(grid.threads);
#ifdef NORMLAB_CUDA_EMULATED
  using Call = std::pair<void (*)(Parameters...), std::tuple<Parameters...>>;
  Call call{kernel, values};
  emulation::run(stream.handle(), op, dim3(blocks), dim3(threads), grid.shared, &call, sizeof call, [](void* of) {
    const Call& the = *static_cast<const Call*>(of);
    std::apply(the.first, the.second);
  });
#else
  const auto* function = reinterpret_cast<const void*>(kernel);
  if (grid.shared > kSharedWithoutAsking - kSharedOfArrays)
    check(op,
          cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(grid.shared)));
  std::apply(
      [&](auto&... value) {
        void* pointers[] = {static_cast<void*>(&value)..., nullptr};
        check(op, cudaLaunchKernel(function, dim3(blocks), dim3(threads), pointers, grid.shared, stream.handle()));
      },
      values);
#endif
  stream.launched(op);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
