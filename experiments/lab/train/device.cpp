#include "experiments/lab/train/device.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/backend.h"
#include "core/cpu/blas.h"
#include "cuda/backend.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/sha256.h"
#include "experiments/lab/base/system_calls.h"
#include "nn/model/model.h"
#include "nn/training/fitting_batch.h"

namespace normlab {
namespace {

/// The calling thread computes a part of each step, so it needs enough stack.
void require_stack() {
  constexpr rlim_t kLeast = 256 << 10;
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < kLeast)
    throw EnvironmentError(
        fmt::format("the stack is limited to {} kB, but training needs {}; raise the limit (ulimit -s)",
                    limit.rlim_cur >> 10, kLeast >> 10));
}

void require_here(DeviceKind kind, const DeviceNeeds& needs, const ProductAlgorithms& algorithms, int gpu) {
  const ComputeDevice device(kind, algorithms, gpu);
  for (const Precision p : needs.precisions) in_precision(device.backend(), p);
  if (needs.formulas) device.backend().formula_compiler();
}

/// Runs in the probing process: reports an error as exit code, with the message in the pipe.
[[noreturn]] void look(DeviceKind kind, const DeviceNeeds& needs, const ProductAlgorithms& algorithms, int gpu,
                       int pipe) {
  int code = 0;
  std::string words;
  try {
    require_here(kind, needs, algorithms, gpu);
  } catch (const Error& error) {
    code = static_cast<int>(error.code());
    words = error.what();
  } catch (const std::exception& error) {
    code = static_cast<int>(ExitCode::environment);
    words = error.what();
  }
  const ssize_t written = write(pipe, words.data(), words.size());  // shorter than the pipe's capacity
  _exit(written == static_cast<ssize_t>(words.size()) ? code : static_cast<int>(ExitCode::environment));
}

std::string read_all(int pipe) {
  std::string text;
  char part[512];
  for (ssize_t n; (n = read(pipe, part, sizeof part)) > 0 || (n < 0 && errno == EINTR);)
    if (n > 0) text.append(part, static_cast<std::size_t>(n));
  return text;
}

}  // namespace

ComputeDevice::ComputeDevice(DeviceKind kind, const ProductAlgorithms& algorithms, int gpu, bool shared)
    : own_(kind == DeviceKind::cuda ? make_cuda_backend(gpu, shared) : nullptr),
      backend_(own_ ? own_.get() : &cpu_backend()) {
  // Checked before any worker or thread exists, instead of in the middle of a step.
  require_stack();
  if (kind == DeviceKind::cpu) blas_info();
  if (!algorithms.sha256.empty() && kind == DeviceKind::cpu)
    throw InputError("--gpu-algorithms: are for products on a GPU; add --device cuda, or leave it out");
  prefer(algorithms);
}

ComputeDevice::ComputeDevice(Backend& of_stack, const ProductAlgorithms& algorithms) : backend_(&of_stack) {
  prefer(algorithms);
}

void ComputeDevice::prefer(const ProductAlgorithms& algorithms) {
  if (!algorithms.sha256.empty()) backend_->prefer_products(algorithms);
}

ComputeDevice::~ComputeDevice() = default;

ProductAlgorithms read_algorithms(const std::string& file) {
  const std::optional<std::string> text = read_file_if_there(file);
  if (!text)
    throw InputError(fmt::format(
        "--gpu-algorithms {}: there is no such file; `normlab bench gemm --device cuda --tune FILE` makes one", file));
  return {file, *text, sha256_hex(*text)};
}

void DeviceNeeds::add(const TrialConfig& config) {
  precisions.insert(config.train.precision);
  formulas = formulas || runs_formulas(config.model);
}

void require_device(DeviceKind kind, const DeviceNeeds& needs, const ProductAlgorithms& algorithms, int gpu) {
  if (kind == DeviceKind::cpu) return require_here(kind, needs, algorithms, gpu);
  int ends[2];
  std::fflush(nullptr);
  if (pipe(ends) != 0) throw EnvironmentError(fmt::format("cannot create a pipe: {}", std::strerror(errno)));
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    look(kind, needs, algorithms, gpu, ends[1]);
  }
  const int fork_error = errno;
  close(ends[1]);
  const std::string words = pid > 0 ? read_all(ends[0]) : "";
  close(ends[0]);
  if (pid < 0) throw EnvironmentError(fmt::format("cannot start a process: {}", std::strerror(fork_error)));
  int status = 0;
  uninterrupted([&] { return waitpid(pid, &status, 0); });
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  if (!WIFEXITED(status))
    throw EnvironmentError(fmt::format("--device cuda: the process that examines the GPU was ended by signal {} ({})",
                                       WTERMSIG(status), strsignal(WTERMSIG(status))));
  throw Error(static_cast<ExitCode>(WEXITSTATUS(status)), words);
}

std::string step_too_large(const DeviceMemoryError& error, std::int64_t fitting, std::size_t standing,
                           const EngineSettings& settings, const BatchWords& words, std::int64_t beside) {
  const std::int64_t batch = settings.max_batch, part = std::max<std::int64_t>(1, batch / settings.accumulate);
  const std::string evaluation = beside > 0 ? fmt::format(" beside an evaluation of {}", beside) : "";
  std::string advice;
  if (fitting == part) {
    advice = fmt::format("A step of {} images fits now, so other processes took the memory before; use fewer --workers",
                         batch);
  } else if (fitting == 0) {
    advice = fmt::format("Not even one image fits in the rest{}; use fewer --workers, or a GPU with more memory",
                         evaluation);
  } else {
    advice = fmt::format("{} images at a time fit{}, but {} do not; set {} to {} or less", fitting, evaluation, part,
                         words.batch, fitting * settings.accumulate);
    if (!words.parts.empty())
      advice += fmt::format(", or {} to {} or more", words.parts, (batch + fitting - 1) / fitting);
  }
  return fmt::format("{}. Weights, gradients and the optimiser's state take {} MB. {}", error.what(),
                     (standing >> 20) + 1, advice);
}

void throw_step_too_large(const DeviceMemoryError& error, Backend& backend, int threads, const ModelConfig& config,
                          const EngineSettings& settings, const BatchWords& words, std::int64_t evaluated) {
  ShardPool pool(threads);
  const std::int64_t alone = fitting_part(backend, pool, config, settings),
                     both = evaluated > 0 ? fitting_part(backend, pool, config, settings, evaluated) : alone;
  throw EnvironmentError(step_too_large(error, both, standing_bytes(backend, config, settings, settings.device_shards),
                                        settings, words, both < alone ? evaluated : 0));
}

void throw_stack_too_large(const DeviceMemoryError& error, Backend& backend, int networks) {
  const auto count = static_cast<std::size_t>(networks);
  const std::size_t before = backend.memory().peak(), each = before + error.asked / count,
                    all = error.free + before * count;
  throw EnvironmentError(
      fmt::format("{}. {} networks are trained together, and each takes at least {} MB; use --stack {} or less",
                  error.what(), networks, (each >> 20) + 1, std::clamp<std::size_t>(all / each, 1, count - 1)));
}

}  // namespace normlab
