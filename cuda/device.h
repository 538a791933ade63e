// The GPU that this process works on, its stream, and what CUDA's errors say to a user.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#ifndef NORMLAB_CUDA_NAMESPACE
#define NORMLAB_CUDA_NAMESPACE cuda
#endif

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// Throws EnvironmentError "op: CUDA: ..." for anything but success.
void check(const char* op, cudaError_t error);

struct DeviceInfo {
  int number = 0, major = 0, minor = 0, multiprocessors = 0;
  std::string name;
  std::size_t memory = 0, shared_per_block = 0;  // bytes
  int driver = 0, runtime = 0;                   // 13000: 13.0
  bool managed_at_any_time = false;              // the host may look at managed memory while kernels run
};

/// Looks at the current device. Throws EnvironmentError without a driver, with one that is older than the runtime,
/// without a GPU, for one below compute capability 8.0, and for one that this binary has no kernels for.
DeviceInfo query_device();
/// What query_device() gave the first time that it did not throw.
const DeviceInfo& device_info();

/// 13020 as "13.2".
std::string version_text(int number);
/// That of the kernel's module, "580.65.06"; "unknown" where it does not say so.
std::string driver_release();

/// Throws InputError where a launch is beyond what the device takes.
void check_launch(const char* op, std::int64_t blocks, int threads, std::size_t shared);

/// A queue of work in order. Errors of kernels are seen when it is waited for, and name the op that was started last;
/// with NORMLAB_CUDA_SYNC=1 each kernel is waited for, so that they name the right one.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t handle() const { return handle_; }
  /// Throws EnvironmentError for what kernels have done wrong.
  void synchronize() const;
  void launched(const char* op) const;
  bool waits_for_each() const { return wait_for_each_; }

 private:
  cudaStream_t handle_ = nullptr;
  mutable const char* last_op_ = "nothing";
  bool wait_for_each_ = false;
};

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
