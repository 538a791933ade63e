#include <doctest/doctest.h>

#include "experiments/lab/train/checkpoint.h"
#include "experiments/lab/train/device.h"
#include "nn/model/norm_formula.h"
#include "tests/devices.h"
#include "tests/lab/base/text.h"
#include "tests/lab/cli/small_sweep.h"

namespace normlab {
namespace {

bool gpu_is_there() {
  for (const TestDevice& device : devices_under_test())
    if (device.name == "cuda") return true;
  return false;
}

}  // namespace

TEST_CASE("device: without a GPU each command refuses --device cuda") {
  if (gpu_is_there()) {
    MESSAGE("skipped: there is a GPU");
    return;
  }
  const TemporaryFolder folder;
  const std::string sweep = small_sweep(folder), out = in_folder(folder, "out");
  for (const std::string& command :
       {"run " + sweep + " --out " + out, "run " + sweep + " --workers 2 --out " + out, "eval --probe " + sweep,
        std::string("eval --weights nothing --data nothing"), std::string("bench step"), std::string("bench profile"),
        std::string("bench update"), std::string("bench norms"), std::string("bench gemm"), std::string("bench ops"),
        std::string("bench models")}) {
    const Finished there = run_program(folder, command + " --device cuda");
    INFO(command << ": " << there.err);
    CHECK(there.code == 3);
    CHECK(has(there.err, "--device cuda: "));
    CHECK(has(there.err, "--device cpu"));
    CHECK(there.out.empty());
  }
  CHECK(ResultStore(out).trial_ids().empty());
}

TEST_CASE("device: bench data measures the CPU alone") {
  const TemporaryFolder folder;
  const Finished refused = run_program(folder, "bench data --device cuda");
  CHECK(refused.code == 2);
  CHECK_MESSAGE(has(refused.err, "CPU"), refused.err);
}

TEST_CASE("device: a device that is neither cpu nor cuda is refused") {
  const TemporaryFolder folder;
  CHECK(run_program(folder, "bench step --device gpu").code == 2);
}

TEST_CASE("device: --device cpu needs no GPU") {
  const TemporaryFolder folder;
  CHECK(run_program(folder, "bench step --device cpu --seconds 0.01 --threads 1").code == 0);
}

TEST_CASE("device: a result names its GPU and driver") {
  CHECK(cpu_backend().provenance().empty());
  for (const TestDevice& device : devices_under_test()) {
    if (!device.name.starts_with("cuda")) continue;
    const auto said = device.backend.provenance();
    for (const char* key : {"gpu", "compute_capability", "gpu_driver", "cuda_runtime", "cublas"})
      CHECK_MESSAGE((said.contains(key) && !said.at(key).empty()), key);
  }
}

TEST_CASE("device: equal bits are promised for one GPU and cuBLAS alone") {
  const std::string here = bits_identity(cpu_backend(), Precision::fp32);
  CHECK(!has(here, "gpu"));
  for (const TestDevice& device : devices_under_test()) {
    if (!device.name.starts_with("cuda")) continue;
    const auto said = device.backend.provenance();
    CHECK(bits_identity(device.backend, Precision::fp32) ==
          here + " | gpu " + said.at("gpu") + " | compute_capability " + said.at("compute_capability") + " | cublas " +
              said.at("cublas"));
    // A network without formulas does not need what compiles them.
    ViTConfig model;
    CHECK(formula_compiler_of(device.backend, model).empty());
    model.placement.final = {.kind = NormKind::formula,
                             .formula = interned({.tree = formula::parse("x * x", {}), .text = "x * x"})};
    const std::string compiler = formula_compiler_of(device.backend, model);
    CHECK(!compiler.empty());
    CHECK(has(bits_identity(device.backend, Precision::fp32, 1, compiler), " | nvrtc " + compiler));
    CHECK(formula_compiler_of(cpu_backend(), model).empty());
    model = {};
    model.activation = {ActivationKind::silu};
    CHECK(formula_compiler_of(device.backend, model) == compiler);
  }
}

TEST_CASE("device: an error of GPU memory names the batch that fits") {
  constexpr std::size_t kMega = std::size_t{1} << 20;
  const DeviceMemoryError error(1024 * kMega, 300 * kMega, 81920 * kMega);
  CHECK(error.asked == 1024 * kMega);
  EngineSettings settings;
  settings.max_batch = 256;
  const BatchWords words{"train.batch_size", "train.accumulate"};
  const std::string begin =
      "out of GPU memory: 1025 MB requested, 300 MB of 81920 MB free. Weights, gradients and the optimiser's state "
      "take 38 MB. ";
  CHECK(
      step_too_large(error, 112, 37 * kMega, settings, words) ==
      begin +
          "112 images at a time fit, but 256 do not; set train.batch_size to 112 or less, or train.accumulate to 3 or "
          "more");
  CHECK(step_too_large(error, 112, 37 * kMega, settings, {"--batch", ""}) ==
        begin + "112 images at a time fit, but 256 do not; set --batch to 112 or less");
  CHECK(step_too_large(error, 0, 37 * kMega, settings, words) ==
        begin + "Not even one image fits in the rest; use fewer --workers, or a GPU with more memory");
  CHECK(step_too_large(error, 256, 37 * kMega, settings, words) ==
        begin + "A step of 256 images fits now, so other processes took the memory before; use fewer --workers");
  CHECK(step_too_large(error, 0, 37 * kMega, settings, words, 512) ==
        begin +
            "Not even one image fits in the rest beside an evaluation of 512; use fewer --workers, or a GPU with "
            "more memory");
  CHECK(step_too_large(error, 112, 37 * kMega, settings, {"--batch", ""}, 500) ==
        begin + "112 images at a time fit beside an evaluation of 500, but 256 do not; set --batch to 112 or less");
  settings.accumulate = 2;
  CHECK(step_too_large(error, 96, 37 * kMega, settings, words) ==
        begin +
            "96 images at a time fit, but 128 do not; set train.batch_size to 192 or less, or train.accumulate to 3 or "
            "more");
}

}  // namespace normlab
