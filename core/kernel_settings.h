// What kernels are told by a setting, the same for all devices.
#pragma once

#include <cstdint>

namespace normlab {

enum class GeluForm : std::uint8_t { erf, tanh };

/// Over which classes label smoothing e goes. all: e / C for every class (PyTorch). others: e / (C - 1) for each class
/// but the label's (Big Vision).
enum class Smoothing : std::uint8_t { all, others };

}  // namespace normlab
