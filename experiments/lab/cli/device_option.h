// --device and what belongs to it, the same in every command.
#pragma once

#include "core/lane_tree.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/train/device.h"

namespace normlab {

inline Option add_device(Command& command, DeviceKind& device) {
  return command.add_choice("--device", device, "device to compute on; cuda: an NVIDIA GPU, see docs/gpu.md");
}

inline Option add_gpu_algorithms(Command& command, ProductAlgorithms& algorithms) {
  return command
      .add_option(
          "--gpu-algorithms", [&algorithms](const std::string& file) { algorithms = read_algorithms(file); },
          "file of `normlab bench gemm --tune` with algorithms for products on this GPU; changes the bits")
      .path();
}

/// How many shards a batch is cut into on GPUs.
inline Option add_gpu_shards(Command& command, std::int64_t& shards, const char* words) {
  return command.add_bounded("--gpu-shards", shards, words, std::int64_t{1}, kMostLanes);
}

/// For CPU-only commands: reports `why` if the GPU is requested.
inline void add_cpu_device(Command& command, const char* why) {
  command
      .add_option(
          "--device", [](const std::string&) {}, "cpu only")
      .check([why](const std::string& word) { return word == "cpu" ? std::string() : std::string(why); })
      .show_default("cpu");
}

}  // namespace normlab
