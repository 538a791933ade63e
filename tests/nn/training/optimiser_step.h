// One step of an optimiser on the device under test, as the engine does it.
#pragma once

#include "nn/training/optimizer.h"
#include "tests/devices.h"

namespace normlab {

/// Writes what the step found into `state`; its result is there for the host.
inline void step_on_device(Optimizer& optimizer, ShardPool& pool, StepState& state) {
  Backend& backend = current_device().backend;
  optimizer.begin_step(state);
  const Tensor on_device = backend.upload(Upload::state, Tensor(&state, {sizeof state}, DType::u8));
  optimizer.step(pool, reinterpret_cast<StepState*>(on_device.data<std::uint8_t>()));
  StepState after;
  backend.read(on_device, &after);
  backend.synchronize();
  state = after;
}

}  // namespace normlab
