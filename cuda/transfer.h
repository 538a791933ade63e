// Transfers between host and GPU during a step, through pinned memory and concurrent with kernels.
#pragma once

#include <array>
#include <vector>

#include "core/tensor.h"
#include "cuda/memory.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

class Event {
 public:
  enum class Kind : std::uint8_t { untimed, timed };
  explicit Event(Kind kind = Kind::untimed);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /// Occurs once all work given to `stream` so far is done.
  void record(const Stream& stream) const;
  /// Makes later work of `stream` wait for the event; an event that was never recorded delays nothing.
  void hold(const Stream& stream) const;
  void wait() const;
  /// Between the last times that two timed events occurred.
  double seconds_after(const Event& earlier) const;

 private:
  cudaEvent_t handle_ = nullptr;
};

/// Host memory that the GPU can copy from and to directly.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  std::byte* data() const { return memory_; }
  std::size_t bytes() const { return bytes_; }
  /// Contents undefined.
  void resize(std::size_t bytes);

 private:
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Copies host data into two buffers in turn: one is filled while kernels read the other. Data in pinned memory is copied
/// from there.
class Uploads {
 public:
  Uploads(const Stream& kernels, const Stream& copies) : kernels_(kernels), copies_(copies) {}
  /// The result stays valid until the second following call. `host` may change as soon as this returns, or if it is
  /// pinned, after wait().
  Tensor bring(const Tensor& host);
  /// For all copies so far.
  void wait() const { turns_[1 - next_].copied.wait(); }

 private:
  struct Turn {
    explicit Turn(const Stream& kernels) : on_device("an upload", kernels) {}
    PinnedBuffer pinned;
    Buffer on_device;
    Event copied, used;
  };
  const Stream &kernels_, &copies_;
  std::array<Turn, 2> turns_{Turn(kernels_), Turn(kernels_)};
  std::size_t next_ = 0;
};

/// Copies to the host, complete after wait().
class Readback {
 public:
  explicit Readback(const Stream& stream) : stream_(stream) {}
  void add(const Tensor& from, void* to);
  /// Waits for everything on the stream.
  void wait();
  /// Leaves out the copies that wait() has not completed.
  void forget();

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
