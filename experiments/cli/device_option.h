// --device, the same in every command.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "experiments/train/device.h"

namespace normlab {

inline CLI::Option* add_device(CLI::App& command, DeviceKind& device) {
  return command
      .add_option_function<std::string>(
          "--device",
          [&device](const std::string& word) { device = word == "cuda" ? DeviceKind::cuda : DeviceKind::cpu; },
          "where to compute; cuda: an NVIDIA GPU (docs/gpu.md)")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->default_str("cpu");
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
