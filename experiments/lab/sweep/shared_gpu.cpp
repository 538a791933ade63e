#include "experiments/lab/sweep/shared_gpu.h"

#include <fmt/core.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace fs = std::filesystem;

namespace normlab {
namespace {

constexpr const char *kProgram = "nvidia-cuda-mps-control", *kPipes = "CUDA_MPS_PIPE_DIRECTORY",
                     *kLogs = "CUDA_MPS_LOG_DIRECTORY", *kVisible = "CUDA_VISIBLE_DEVICES";

/// Runs the shell's command line, which ends with the program's code. Returns "" or an error message.
std::string control(const char* line) {
  constexpr int kNotFound = 127;
  const int status = std::system(line), code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code == kNotFound) return fmt::format("{} is not installed", kProgram);
  return code == 0 ? "" : fmt::format("{} ended with code {}", kProgram, code);
}

}  // namespace

SharedGpu::SharedGpu(int workers) {
  if (workers < 2 || std::getenv(kPipes) != nullptr) return;
  std::string name = (fs::temp_directory_path() / "normlab-mps-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    message_ = fmt::format("{} workers take turns on the GPU: {}: {}", workers, name, std::strerror(errno));
    return;
  }
  setenv(kPipes, name.c_str(), 1);
  setenv(kLogs, name.c_str(), 1);
  folder_ = name;
  const std::string wrong = control("nvidia-cuda-mps-control -d </dev/null >/dev/null 2>&1");
  if (wrong.empty()) {
    // The service numbers the GPUs that it was told of from 0, and shows no others.
    if (const char* const visible = std::getenv(kVisible)) visible_ = visible;
    unsetenv(kVisible);
    return;
  }
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
  folder_.clear();
  unsetenv(kPipes);
  unsetenv(kLogs);
  message_ = fmt::format("{} workers take turns on the GPU: {}", workers, wrong);
}

SharedGpu::~SharedGpu() {
  if (!started()) return;
  control("echo quit | nvidia-cuda-mps-control >/dev/null 2>&1");
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
  unsetenv(kPipes);
  unsetenv(kLogs);
  if (visible_) setenv(kVisible, visible_->c_str(), 1);
}

}  // namespace normlab
