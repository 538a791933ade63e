// Memory that the GPU and the host see at one address, kept on the GPU; buffers that the GPU alone sees.
#pragma once

#include "core/memory.h"
#include "cuda/device.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

class DeviceMemory final : public Memory {
 public:
  explicit DeviceMemory(const Stream& stream) : stream_(stream) {}
  /// DeviceMemoryError (core/memory_error.h) where less is free.
  void* allocate(std::size_t bytes) override;
  void release(void* block, std::size_t bytes) noexcept override;
  void clear(void* block, std::size_t bytes) override;
  void touch(void* block, std::size_t bytes) override;
  bool on_host() const override { return false; }
  std::size_t gap() const override;
  void begin_use(void* part, std::size_t bytes) override;
  void end_use(void* part, std::size_t bytes) override;

 private:
  const Stream& stream_;
};

/// A kernel's intermediate results, as a device pointer that stays until a larger one is asked for. The work on the
/// stream that uses the smaller one is waited for first, so ask for the largest before a step is captured.
class Buffer {
 public:
  /// How often any has got larger: addresses that kernels were given before are stale then.
  static std::uint64_t growths();
  explicit Buffer(const Stream& stream) : stream_(stream) {}
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  /// `count` undefined values.
  template <class T>
  T* get(std::int64_t count) {
    return static_cast<T*>(take(static_cast<std::size_t>(count) * sizeof(T)));
  }

 private:
  void* take(std::size_t bytes);
  const Stream& stream_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
