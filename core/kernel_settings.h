// Settings that choose between variants of a kernel, the same for all devices.
#pragma once

#include <cstdint>

namespace normlab {

enum class GeluForm : std::uint8_t { erf, tanh };

/// How label smoothing e is spread. all: e / C for every class (PyTorch). others: e / (C - 1) for every class but the
/// label's (Big Vision).
enum class Smoothing : std::uint8_t { all, others };

}  // namespace normlab
