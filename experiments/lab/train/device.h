// The compute device of a process, selected by --device.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "core/devices.h"
#include "core/memory_error.h"
#include "core/words.h"
#include "experiments/lab/descriptor/config.h"

namespace normlab {

enum class DeviceKind : std::uint8_t { cpu, cuda };
constexpr auto stated_words(DeviceKind) { return words<DeviceKind>("cpu", "cuda"); }

class ComputeDevice {
 public:
  /// `gpu`: its number among those that this process sees; `shared`: with other workers. EnvironmentError if there is no
  /// such device, or this program has no kernels for it. InputError if it cannot use the algorithms. There is no
  /// fallback.
  explicit ComputeDevice(DeviceKind kind, const ProductAlgorithms& algorithms = {}, int gpu = 0, bool shared = false);
  /// A place of a stack, which must outlive it.
  ComputeDevice(Backend& of_stack, const ProductAlgorithms& algorithms);
  ~ComputeDevice();
  Backend& backend() const { return *backend_; }

 private:
  void prefer(const ProductAlgorithms& algorithms);
  std::unique_ptr<Backend> own_;  // for a GPU
  Backend* backend_;
};

/// The file of --gpu-algorithms. InputError if it is not there.
ProductAlgorithms read_algorithms(const std::string& file);

/// What trials need beside the device.
struct DeviceNeeds {
  std::set<Precision> precisions{};  // of its products
  bool formulas = false;             // what compiles them, see runs_formulas()
  void add(const TrialConfig& config);
};
/// Throws what a worker's ComputeDevice would throw, and EnvironmentError if the device lacks what is needed. A GPU is
/// probed in a separate process, since a process that has used CUDA cannot pass it on to forked processes.
void require_device(DeviceKind kind, const DeviceNeeds& needs, const ProductAlgorithms& algorithms, int gpu);

/// The settings for the batch and its parts, by their names in a descriptor or a command. `parts` may be empty.
struct BatchWords {
  std::string batch, parts;
};

/// A message with the error, the memory needed for any batch (`standing`, bytes), and the most images at a
/// time that fit. `beside`: images of the evaluation for which a step leaves no room; 0 if the step is what does not
/// fit.
std::string step_too_large(const DeviceMemoryError& error, std::int64_t fitting, std::size_t standing,
                           const EngineSettings& settings, const BatchWords& words, std::int64_t beside = 0);
/// Throws EnvironmentError for a step, or an evaluation of `evaluated` images at once, that needs more GPU memory than
/// available, saying what fits and what to do. Call it after the engine that ran out of memory is destroyed, since it
/// tries smaller batches.
[[noreturn]] void throw_step_too_large(const DeviceMemoryError& error, Backend& backend, int threads,
                                       const ModelConfig& config, const EngineSettings& settings,
                                       const BatchWords& words, std::int64_t evaluated = 0);
/// The same for networks that are trained together in more GPU memory than available. `backend`: of one of them, with
/// the peak of its memory until then.
[[noreturn]] void throw_stack_too_large(const DeviceMemoryError& error, Backend& backend, int networks);

}  // namespace normlab
