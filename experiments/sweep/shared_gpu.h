// Several workers on one GPU. Processes take turns on it, a few milliseconds each, unless NVIDIA's multi-process
// service puts their kernels side by side, which is what small networks need.
#pragma once

#include <filesystem>
#include <string>

namespace normlab {

class SharedGpu {
 public:
  /// Starts the service for this process and those that it forks from now on; it ends with this object. Nothing is
  /// started, and `message()` says so to the user, where its program (nvidia-cuda-mps-control, part of the driver) is
  /// not there or fails: workers then take turns. Where CUDA_MPS_PIPE_DIRECTORY is set, the user has one already.
  explicit SharedGpu(int workers);
  ~SharedGpu();
  SharedGpu(const SharedGpu&) = delete;
  SharedGpu& operator=(const SharedGpu&) = delete;

  /// A line for the user, or nothing.
  const std::string& message() const { return message_; }
  bool started() const { return !folder_.empty(); }

 private:
  std::filesystem::path folder_;  // of the service's pipes and logs
  std::string message_;
};

}  // namespace normlab
