// What a step has on the device: its state and its recorded kernels.
#pragma once

#include <map>
#include <memory>

#include "core/device.h"
#include "core/devices.h"
#include "core/step_state.h"

namespace normlab {

/// The state of a step: the host writes it before the step and reads it afterwards; kernels use it in between.
class DeviceState {
 public:
  /// For the caller: settings of the next step, results of the last one read.
  StepState host;

  /// Uploads `host`, with this number of steps done, as the state that kernels use.
  void upload(Backend& backend, std::int64_t steps_done);
  /// In the backend's memory. Valid until the second following upload.
  StepState* device() const { return device_; }
  /// Requests the step's results from the device. After the device has synchronised, take_results() stores them
  /// in `host`.
  void read(Backend& backend);
  void take_results();

 private:
  static Tensor bytes_of(StepState* state) { return Tensor(state, {sizeof(StepState)}, DType::u8); }
  StepState before_, after_;  // before and after a step
  StepState* device_ = nullptr;
};

/// Steps recorded on the device (Backend::record), keyed by the memory that they read. They are valid for the last
/// number of images and for the backend's memory at that time.
class StepRecordings {
 public:
  using Inputs = decltype(StepKey::inputs);
  explicit StepRecordings(Backend& backend) : backend_(backend) {}
  /// Runs `step`, which reads `inputs` and covers `images` images: replays its recording, or records it if possible.
  /// The first step of a size is not recorded, so that it can allocate what it needs.
  void run(std::int64_t images, const Inputs& inputs, FunctionRef<void()> step);
  /// Makes the next step count as the first of its size.
  void clear();

 private:
  Backend& backend_;
  std::map<Inputs, std::unique_ptr<Recording>> recordings_;
  std::uint64_t version_ = 0;  // StepKey's
  std::int64_t images_ = 0;
  std::uint64_t memory_ = 0;
};

}  // namespace normlab
