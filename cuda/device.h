// The GPU of this process, its stream, and error messages for CUDA errors.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#ifndef NORMLAB_CUDA_NAMESPACE
#define NORMLAB_CUDA_NAMESPACE cuda
#endif

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// Throws EnvironmentError "op: CUDA: ..." for anything but success, DeviceFault if the error ends this process's use of
/// the GPU.
void check(const char* op, cudaError_t error);

struct DeviceInfo {
  int number = 0, major = 0, minor = 0;
  std::string name;
  std::size_t memory = 0, shared_per_block = 0;  // bytes
  int driver = 0, runtime = 0;                   // 13000: 13.0
  bool managed_at_any_time = false;              // the host may access managed memory while kernels run
};

/// Selects GPU `number`, of those that this process sees, for this process, and makes it current in this thread.
/// Throws like query_device(). Only the first number of a process counts. `shared`: other workers use the GPU too, so this
/// one leaves its core to them while it waits; alone it spins, which wakes it sooner.
void use_device(int number, bool shared = false);
bool device_is_shared();

/// Queries GPU `number`, and makes it the current one of this thread. Throws EnvironmentError if there is no driver, a
/// driver older than the runtime, no such GPU, a compute capability below 8.0, or a GPU that this binary has no kernels
/// for.
DeviceInfo query_device(int number = 0);
/// The result of the first query_device() that did not throw.
const DeviceInfo& device_info();

/// 13020 as "13.2".
std::string version_text(int number);
/// The version of the driver's kernel module, "580.65.06"; "unknown" if it does not report one.
std::string driver_release();

/// Throws InputError if a launch exceeds the device's limits.
void check_launch(const char* op, std::int64_t blocks, int threads, std::size_t shared);

/// An ordered queue of work. Errors of kernels appear when the queue is waited for and name the op started last. With
/// NORMLAB_CUDA_SYNC=1 each kernel is waited for, so errors name the right op.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t handle() const { return handle_; }
  /// Throws for errors of kernels like check().
  void synchronize() const;
  void launched(const char* op) const;
  /// Calls of launched(): a product that a library adds up in two kernels counts once.
  std::int64_t launches() const { return launches_; }
  /// Calls `look` now and then while synchronize() waits, which passes on what it throws; null stops.
  void look_while_waiting(std::function<void()> look) { look_ = std::move(look); }
  bool waits_for_each() const { return wait_for_each_; }
  /// How often a buffer of its kernels (cuda/memory.h) has grown, which makes earlier addresses stale.
  std::uint64_t buffer_growths() const { return buffer_growths_; }
  void buffer_grows() const { ++buffer_growths_; }

 private:
  void look_until_done() const;
  cudaStream_t handle_ = nullptr;
  mutable const char* last_op_ = "nothing";
  mutable std::int64_t launches_ = 0;
  mutable std::uint64_t buffer_growths_ = 0;
  bool wait_for_each_ = false;
  std::function<void()> look_;
};

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
