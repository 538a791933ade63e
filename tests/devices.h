// The backends that this test program can use: the CPU's, the GPU's kernels under emulation, and the GPU's where there
// is one.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <span>
#include <string>

#include "core/arena.h"
#include "core/backend.h"

namespace normlab {

struct TestDevice {
  std::string name;  // "cpu", "cuda (emulated)", "cuda"
  Backend& backend;
  Bf16Products bf16;  // the products in bf16 that it has
  Memory& memory() const { return backend.memory(); }
};

/// Made at the first call. Without a GPU there is none of that name. NORMLAB_TEST_DEVICES=cuda takes that one beside
/// the CPU and not all; it must then be there. There is emulated, too.
std::span<const TestDevice> devices_under_test();
/// "devices: cpu, cuda (emulated); no GPU: ...": what a report of the tests says; with a GPU its name.
std::string devices_report();

/// The device that a test works on: the CPU but in on_each_device().
const TestDevice& current_device();
/// Runs `body` with each device as the current one, which failures name. The emulation has its blocks, warps and lanes
/// in one permuted order, in each of nine with NORMLAB_LONG=1, in that of NORMLAB_CUDA_SCHEDULE where it is set.
void on_each_device(const std::function<void()>& body);

}  // namespace normlab
