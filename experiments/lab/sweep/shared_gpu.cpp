#include "experiments/lab/sweep/shared_gpu.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "experiments/lab/base/system_calls.h"

extern char** environ;

namespace fs = std::filesystem;

namespace normlab {
namespace {

constexpr const char *kProgram = "nvidia-cuda-mps-control", *kPipes = "CUDA_MPS_PIPE_DIRECTORY",
                     *kLogs = "CUDA_MPS_LOG_DIRECTORY", *kVisible = "CUDA_VISIBLE_DEVICES";

/// Runs the program with one argument, or with `said` as its input. Returns "" or an error message.
std::string control(const char* argument, const std::string& said) {
  int input[2];
  if (pipe2(input, O_CLOEXEC) != 0) return std::strerror(errno);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, input[0], 0);
  for (const int output : {1, 2}) posix_spawn_file_actions_addopen(&files, output, "/dev/null", O_WRONLY, 0);
  char* arguments[] = {const_cast<char*>(kProgram), const_cast<char*>(argument), nullptr};
  pid_t child = 0;
  const int error = posix_spawnp(&child, kProgram, &files, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&files);
  close(input[0]);
  if (error == 0 && !said.empty()) {
    // Short enough for the pipe's buffer. If the program has already ended, the pipe has no reader.
    const auto before = std::signal(SIGPIPE, SIG_IGN);
    [[maybe_unused]] const ssize_t written = write(input[1], said.data(), said.size());
    std::signal(SIGPIPE, before);
  }
  close(input[1]);
  if (error == ENOENT) return fmt::format("{} is not installed", kProgram);
  if (error != 0) return std::strerror(error);
  int status = 0;
  uninterrupted([&] { return waitpid(child, &status, 0); });
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  return fmt::format("{} ended with code {}", kProgram, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
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
  const std::string wrong = control("-d", "");
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
  control(nullptr, "quit\n");
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
  unsetenv(kPipes);
  unsetenv(kLogs);
  if (visible_) setenv(kVisible, visible_->c_str(), 1);
}

}  // namespace normlab
