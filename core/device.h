// The part of a backend that is not kernels: the device's memory, what goes to it and comes back, and when it is done.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "core/function_ref.h"
#include "core/memory.h"
#include "core/tensor.h"

namespace normlab {

/// What is uploaded. A step and an evaluation have their own, so that an evaluation leaves the next step's alone.
enum class Upload : std::uint8_t { images, targets, state, evaluated_images, evaluated_targets };
inline constexpr int kUploads = 5;

/// Kernels that were asked for once, to be started again as they were: the same kernels on the same memory.
class Recording {
 public:
  virtual ~Recording() = default;
  /// Returns at once.
  virtual void replay() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  /// What a result records about the device beside its name: {"gpu": ...}. Empty where every result already says it.
  virtual std::map<std::string, std::string> provenance() const { return {}; }
  /// Where tensors for this device live.
  virtual Memory& memory() { return host_memory(); }
  /// The device wants its work whole: all images of a batch at once, the parameters in one piece.
  virtual bool whole_batch() const { return false; }
  /// A tensor of the host where kernels can read it: itself, or a copy. A copy stays until the second upload of its
  /// kind after it, and `host` may change at once.
  virtual Tensor upload(Upload, Tensor host) { return host; }
  /// Copies `from` as it is after the kernels started so far; `to` has it after the next synchronize().
  virtual void read(Tensor from, void* to) = 0;
  /// Returns when all that was asked for is done. Only then may the host read tensors, or write those that kernels
  /// read. A device that works while it is asked has nothing to wait for.
  virtual void synchronize() {}
  /// Keeps the kernels that `work` asks for instead of running them. Null, and `work` is not called, on a device where
  /// starting a kernel costs nothing to speak of. `work` must not wait, upload or read, and should have run once
  /// before, so that it takes no memory. A recording is stale when thread_memory() has changed since.
  virtual std::unique_ptr<Recording> record([[maybe_unused]] FunctionRef<void()> work) { return nullptr; }
  /// Kernels may keep memory between calls, some of it for each thread that runs them. This number changes when they
  /// take more.
  virtual std::uint64_t thread_memory() const { return 0; }
  /// Gives the calling thread as much of that memory as any other thread has.
  virtual void match_thread_memory() {}
};

}  // namespace normlab
