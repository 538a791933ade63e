// Memory that GPU and host see at the same address, kept on the GPU, and buffers for the GPU alone.
#pragma once

#include "core/memory.h"
#include "cuda/device.h"
#include "cuda/slabs.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// While it lives no other process that has this file takes memory of the GPU: what a query finds free stays free.
/// EnvironmentError if the file cannot be opened.
class TurnToAllocate {
 public:
  explicit TurnToAllocate(const std::string& path);
  ~TurnToAllocate();
  TurnToAllocate(const TurnToAllocate&) = delete;
  TurnToAllocate& operator=(const TurnToAllocate&) = delete;

 private:
  const int file_;
};

class DeviceMemory final : public Memory {
 public:
  explicit DeviceMemory(const Stream& stream, SlabPlace place = {}) : stream_(stream), place_(place) {}
  /// Throws DeviceMemoryError (core/memory_error.h) if less is free; std::logic_error while a step is recorded.
  void* allocate(std::size_t bytes) override;
  void release(void* block, std::size_t bytes) noexcept override;
  void clear(void* block, std::size_t bytes) override;
  void touch(void* block, std::size_t bytes) override;
  bool on_host() const override { return false; }
  void restart_peak() override;
  std::size_t peak() const override;  // of a stack: the share of one network
  std::size_t gap() const override;
  void begin_use(void* part, std::size_t bytes) override;
  void end_use(void* part, std::size_t bytes) override;

 private:
  void* allocate_block(std::size_t bytes);
  const Stream& stream_;
  const SlabPlace place_;
};

/// Intermediate results of kernels, as a device pointer that is valid until a larger one is requested. That request
/// first waits for the stream's work on the smaller one, so ask for the largest size before a step is captured;
/// std::logic_error with the buffer's name in the middle of one.
class Buffer {
 public:
  Buffer(const char* name, const Stream& stream, SlabPlace place = {}) : name_(name), stream_(stream), place_(place) {}
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  /// `count` uninitialised values.
  template <class T>
  T* get(std::int64_t count) {
    return static_cast<T*>(take(static_cast<std::size_t>(count) * sizeof(T)));
  }

 private:
  void* take(std::size_t bytes);
  void release();
  const char* const name_;  // of what it holds
  const Stream& stream_;
  const SlabPlace place_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
