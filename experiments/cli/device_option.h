// --device, the same in every command.
#pragma once

#include "experiments/cli/commands.h"
#include "experiments/train/device.h"

namespace normlab {

inline CLI::Option* add_device(CLI::App& command, DeviceKind& device) {
  return add_choice(command, "--device", device, "where to compute; cuda: an NVIDIA GPU (docs/gpu.md)");
}

/// For what is about the CPU alone: says `why` where the GPU is asked for.
inline void add_cpu_device(CLI::App& command, const char* why) {
  command
      .add_option_function<std::string>(
          "--device", [](const std::string&) {}, "cpu alone")
      ->check([why](const std::string& word) { return word == "cpu" ? std::string() : std::string(why); })
      ->default_str("cpu");
}

}  // namespace normlab
