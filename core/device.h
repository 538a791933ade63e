// A device apart from its kernels: memory, transfers, synchronisation.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "core/function_ref.h"
#include "core/group.h"
#include "core/memory.h"
#include "core/tensor.h"
#include "core/watch.h"

namespace normlab {

/// Kinds of uploads. Evaluations have their own, so that they do not overwrite the next step's batch.
enum class Upload : std::uint8_t { images, targets, state, evaluated_images, evaluated_targets };
inline constexpr int kUploads = 5;

/// A recorded sequence of kernels that can be replayed on the same memory.
class Recording {
 public:
  virtual ~Recording() = default;
  /// Returns without waiting.
  virtual void replay() = 0;
};

/// What a recording depends on: the memory that it reads, and a number that changes when its network's earlier ones become
/// stale.
struct StepKey {
  std::array<const void*, 3> inputs{};
  std::uint64_t version = 0;
  auto operator<=>(const StepKey&) const = default;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  /// What a result records about the device besides its name: {"gpu": ...}. Empty if every result already contains it.
  virtual std::map<std::string, std::string> provenance() const { return {}; }
  /// What compiles formulas for this device: its version, and flags that change bits; "" if nothing has to. Throws
  /// EnvironmentError if it is missing.
  virtual std::string formula_compiler() { return {}; }
  virtual Memory& memory() { return host_memory(); }
  /// The device wants all images of a batch at once and the parameters in one piece.
  virtual bool whole_batch() const { return false; }
  /// A host tensor where kernels can read it: itself, or a copy. A copy stays valid until the second later upload of
  /// the same kind, and `host` may change immediately, or in an upload_buffer() after wait_for_upload().
  virtual Tensor upload(Upload, Tensor host) { return host; }
  /// Zeroed memory that upload() copies to the device from where it is. For any thread.
  virtual std::shared_ptr<std::byte[]> upload_buffer(std::size_t bytes) { return std::make_shared<std::byte[]>(bytes); }
  /// Waits for the last upload of this kind.
  virtual void wait_for_upload(Upload) {}
  /// Copies `from` as the kernels started so far leave it; `to` is filled by the next synchronize().
  virtual void read(Tensor from, void* to) = 0;
  /// Waits until all requested work is done. Only then may the host read tensors or overwrite what kernels read.
  /// Synchronous devices return at once.
  virtual void synchronize() {}
  /// Drops the reads that no synchronize() has completed, so that their targets may go.
  virtual void forget_reads() {}
  /// What moves this device's memory() between the processes of `group`, each call after the kernels started before it.
  /// All processes call it; the first call with a group may wait for the others. EnvironmentError, the same in all, if
  /// it cannot connect them. `group` must outlive the device, or its next call.
  virtual Exchange& exchange(Group& group) { return group; }
  /// Records the kernels that `work` starts instead of running them. Returns null without calling `work` on a device
  /// where starting a kernel costs next to nothing. `work` must not wait, upload or read, and should have run once
  /// before, so that it allocates nothing. A recording is stale once thread_memory() has changed.
  virtual std::unique_ptr<Recording> record([[maybe_unused]] FunctionRef<void()> work) { return nullptr; }
  /// In a TrialStack (core/trial_stack.h): runs `work`, as record() requires it, together with that of the other
  /// networks, and returns when all have been started. False without calling `work` if there are no others.
  virtual bool run_together([[maybe_unused]] const StepKey& key, [[maybe_unused]] FunctionRef<void()> work) {
    return false;
  }
  /// Times this device's work.
  virtual std::unique_ptr<Watch> watch() { return host_watch(); }
  /// Kernels may keep memory between calls, partly per thread. This number changes whenever they take more.
  virtual std::uint64_t thread_memory() const { return 0; }
  /// Gives the calling thread as much of that memory as any other thread has.
  virtual void match_thread_memory() {}
};

}  // namespace normlab
