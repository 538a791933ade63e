// What a step has on the device: its state, and the kernels that are recorded of it.
#pragma once

#include <array>
#include <map>
#include <memory>

#include "core/device.h"
#include "core/devices.h"
#include "core/step_state.h"

namespace normlab {

/// The state of a step, which the host writes before the step and reads after it, and which kernels use in between.
class DeviceState {
 public:
  /// For the caller: settings of the next step, results of the last one that was read.
  StepState host;

  /// Makes host, but with this number of steps done, the state that kernels use.
  void upload(Backend& backend, std::int64_t steps_done);
  /// In the backend's memory. At most two uploads old.
  StepState* device() const { return device_; }
  /// Asks the device for the results of its step; take_results() puts them into `host` once it has been waited for.
  void read(Backend& backend);
  void take_results();

 private:
  static Tensor bytes_of(StepState* state) { return Tensor(state, {sizeof(StepState)}, DType::u8); }
  StepState before_, after_;  // of the step
  StepState* device_ = nullptr;
};

/// Steps that the device has recorded (Backend::record), by what they read. They hold for the number of images that
/// ran last, and for what the backend had in memory then.
class StepRecordings {
 public:
  using Inputs = std::array<const void*, 3>;
  explicit StepRecordings(Backend& backend) : backend_(backend) {}
  /// Runs `step`, which reads `inputs` and goes over `images` images: as it was recorded, or recorded now where that
  /// can be. The first step of a size is not, so that it takes the memory which it needs.
  void run(std::int64_t images, const Inputs& inputs, FunctionRef<void()> step);
  /// The next step is the first of its size.
  void clear();

 private:
  Backend& backend_;
  std::map<Inputs, std::unique_ptr<Recording>> recordings_;
  std::int64_t images_ = 0;
  std::uint64_t memory_ = 0;
};

}  // namespace normlab
