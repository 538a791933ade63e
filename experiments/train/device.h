// Where a process computes: what --device chooses.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "core/devices.h"
#include "core/memory_error.h"
#include "experiments/descriptor/config.h"

namespace normlab {

enum class DeviceKind : std::uint8_t { cpu, cuda };

class ComputeDevice {
 public:
  /// EnvironmentError without such a device, or where this program has no kernels for it: nothing takes its place.
  explicit ComputeDevice(DeviceKind kind);
  ~ComputeDevice();
  Backend& backend() const { return *backend_; }

 private:
  std::unique_ptr<Backend> own_;  // the GPU's
  Backend* backend_;
};

/// Throws what a worker's ComputeDevice would throw, and where it cannot multiply in these precisions. A GPU is looked
/// at in a process of its own: one that has used CUDA cannot hand it on to the processes that it forks.
void require_device(DeviceKind kind, const std::set<Precision>& precisions);

/// What a user sets a batch and its parts by: keys of a descriptor, options of a command. `parts` may be empty.
struct BatchWords {
  std::string batch, parts;
};

/// In words: the error, what stands whatever the batch (bytes), and the most images at a time that fit.
std::string step_too_large(const DeviceMemoryError& error, std::int64_t fitting, std::size_t standing,
                           const EngineSettings& settings, const BatchWords& words);
/// The error of a step that asked a GPU for more memory than it has, with what fits and what to do. To be called once
/// the engine that ran out is gone: it tries smaller batches. EnvironmentError.
[[noreturn]] void throw_step_too_large(const DeviceMemoryError& error, Backend& backend, int threads,
                                       const ModelConfig& config, const EngineSettings& settings,
                                       const BatchWords& words);

}  // namespace normlab
