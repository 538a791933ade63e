#include "nn/training/device_step.h"

#include <atomic>

#include "core/backend.h"

namespace normlab {

void DeviceState::upload(Backend& backend, std::int64_t steps_done) {
  before_ = host;
  before_.step = steps_done;
  const Tensor state = backend.upload(Upload::state, bytes_of(&before_));
  device_ = reinterpret_cast<StepState*>(state.data<std::uint8_t>());
}

void DeviceState::read(Backend& backend) { backend.read(bytes_of(device_), &after_); }

void DeviceState::take_results() {
  host.grad_norm = after_.grad_norm;
  host.clip_factor = after_.clip_factor;
  host.nonfinite = after_.nonfinite;
}

void StepRecordings::clear() {
  recordings_.clear();
  images_ = 0;
}

void StepRecordings::run(std::int64_t images, const Inputs& inputs, FunctionRef<void()> step) {
  if (images_ != images || memory_ != backend_.thread_memory()) {
    recordings_.clear();
    step();
    images_ = images;
    memory_ = backend_.thread_memory();
    static std::atomic<std::uint64_t> versions{0};
    version_ = ++versions;
    return;
  }
  if (backend_.run_together({inputs, version_}, step)) return;
  auto found = recordings_.find(inputs);
  if (found == recordings_.end()) {
    std::unique_ptr<Recording> made = backend_.record(step);
    if (!made) return step();
    found = recordings_.emplace(inputs, std::move(made)).first;
  }
  found->second->replay();
}

}  // namespace normlab
