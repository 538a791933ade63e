// Settings that choose between variants of a kernel, the same for all devices.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/words.h"

namespace normlab {

enum class GeluForm : std::uint8_t { erf, tanh };
constexpr auto stated_words(GeluForm) { return words<GeluForm>("erf", "tanh"); }

/// How label smoothing e is spread. all: e / C for every class (PyTorch). others: e / (C - 1) for every class but the
/// label's (Big Vision).
enum class Smoothing : std::uint8_t { all, others };
constexpr auto stated_words(Smoothing) { return words<Smoothing>("all", "others"); }

/// When a grid that windows do not divide gets its zero tokens at the bottom and right: before the cyclic shift, as in
/// torchvision, or after it, as in timm. After it, windows join opposite edges without a mask between them.
enum class WindowPadding : std::uint8_t { before_shift, after_shift };
constexpr auto stated_words(WindowPadding) { return words<WindowPadding>("before_shift", "after_shift"); }

/// The bounded function of a norm without statistics, gamma phi(u) + beta with u = alpha x + shift ("Stronger
/// Normalization-Free Transformers", arXiv:2512.10938, table of functions): tanh u; erf u; u / sqrt(1 + u^2);
/// u / (1 + |u|); 2/pi atan u; u cut at ±1. dyisru: sqrt(C) x / sqrt(alpha + x^2), without a shift (arXiv:2503.21708).
enum class PointwisePhi : std::uint8_t { tanh, erf, isru, softsign, atan, hardtanh, dyisru };
constexpr auto stated_words(PointwisePhi) {
  return words<PointwisePhi, 1>("tanh", "erf", "isru", "softsign", "atan", "hardtanh");
}

/// f(std::integral_constant<PointwisePhi, phi>()).
template <class F>
void for_pointwise_phi(PointwisePhi phi, F&& f) {
  using enum PointwisePhi;
  switch (phi) {
    case tanh:
      return f(std::integral_constant<PointwisePhi, tanh>());
    case erf:
      return f(std::integral_constant<PointwisePhi, erf>());
    case isru:
      return f(std::integral_constant<PointwisePhi, isru>());
    case softsign:
      return f(std::integral_constant<PointwisePhi, softsign>());
    case atan:
      return f(std::integral_constant<PointwisePhi, atan>());
    case hardtanh:
      return f(std::integral_constant<PointwisePhi, hardtanh>());
    case dyisru:
      return f(std::integral_constant<PointwisePhi, dyisru>());
  }
}

/// Which channels of a head rotary positions turn together: c and c + d/2 of d (DINOv3's rotate_half), or 2 c and
/// 2 c + 1 (EVA-02).
enum class RotaryPairs : std::uint8_t { halves, neighbours };

}  // namespace normlab
