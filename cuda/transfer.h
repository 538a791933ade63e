// What goes between the host and the GPU in a step, by pinned memory and beside the kernels.
#pragma once

#include <array>
#include <vector>

#include "core/tensor.h"
#include "cuda/memory.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /// Happens when all that was asked of `stream` so far is done.
  void record(const Stream& stream) const;
  /// What is asked of `stream` from now on waits for it; an event that was never recorded is waited for by nobody.
  void hold(const Stream& stream) const;
  void wait() const;

 private:
  cudaEvent_t handle_ = nullptr;
};

/// Memory of the host that the GPU copies from and to without the system's help.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  std::byte* data() const { return memory_; }
  std::size_t bytes() const { return bytes_; }
  /// Undefined content.
  void resize(std::size_t bytes);

 private:
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Copies of what the host brings, in two buffers by turns: the copy of the next goes on while kernels read this one.
class Uploads {
 public:
  Uploads(const Stream& kernels, const Stream& copies) : kernels_(kernels), copies_(copies) {}
  /// Stays until the second call after it. `host` may change as soon as it returns.
  Tensor bring(const Tensor& host);

 private:
  struct Turn {
    explicit Turn(const Stream& kernels) : on_device(kernels) {}
    PinnedBuffer pinned;
    Buffer on_device;
    Event copied, used;
  };
  const Stream &kernels_, &copies_;
  std::array<Turn, 2> turns_{Turn(kernels_), Turn(kernels_)};
  std::size_t next_ = 0;
};

/// Copies for the host, which has them once it has waited.
class Readback {
 public:
  explicit Readback(const Stream& stream) : stream_(stream) {}
  void add(const Tensor& from, void* to);
  /// For everything on the stream.
  void wait();

 private:
  struct Copy {
    std::size_t at, bytes;
    void* to;
  };
  const Stream& stream_;
  PinnedBuffer pinned_;
  std::vector<Copy> copies_;
  std::size_t used_ = 0;
};

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
