// Several workers on one GPU. By default, processes take turns of a few milliseconds. NVIDIA's multi-process service
// runs their kernels concurrently, which small networks need.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace normlab {

class SharedGpu {
 public:
  /// Starts the service for this process and those it forks afterwards; it ends with this object. If its program
  /// (nvidia-cuda-mps-control, part of the driver) is missing or fails, `message()` tells the user, and the workers
  /// take turns. If CUDA_MPS_PIPE_DIRECTORY is set, the user's own service is used. The service reads
  /// CUDA_VISIBLE_DEVICES, which is then unset as long as it runs, since its GPUs have other numbers.
  explicit SharedGpu(int workers);
  ~SharedGpu();
  SharedGpu(const SharedGpu&) = delete;
  SharedGpu& operator=(const SharedGpu&) = delete;

  /// A line for the user, or empty.
  const std::string& message() const { return message_; }
  bool started() const { return !folder_.empty(); }

 private:
  std::filesystem::path folder_;  // for the service's pipes and logs
  std::string message_;
  std::optional<std::string> visible_;  // CUDA_VISIBLE_DEVICES before the service began
};

}  // namespace normlab
