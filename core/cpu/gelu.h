// GELU over arrays in pieces that stay in the first-level cache; used alone and behind a linear layer.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/backend.h"
#include "core/cpu/vector_math.h"

namespace normlab::cpu {

inline constexpr std::int64_t kGeluPiece = 256;
inline constexpr double kRootHalf = 0.70710678118654752440;          // 1 / sqrt(2)
inline constexpr double kInverseRootTwoPi = 0.39894228040143267794;  // 1 / sqrt(2 pi)
inline constexpr double kRootTwoOverPi = 0.79788456080286535588;     // sqrt(2 / pi)
inline constexpr double kGeluCubic = 0.044715;

/// t = erf(x / sqrt(2)), or tanh(sqrt(2 / pi) (x + 0.044715 x^3)): the part of GELU that needs a library function.
template <class T>
void gelu_inner(GeluForm form, std::int64_t n, const T* x, Acc<T>* t) {
  using A = Acc<T>;
  if (form == GeluForm::erf) {
    for (std::int64_t i = 0; i < n; ++i) t[i] = A(x[i]) * A(kRootHalf);
    vector_erf(n, t, t);
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      const A v = A(x[i]);
      t[i] = A(kRootTwoOverPi) * (v + A(kGeluCubic) * v * v * v);
    }
    vector_tanh(n, t, t);
  }
}

/// gelu'(x) from t = gelu_inner(x), into e. erf: Phi(x) + x phi(x).
template <class T>
void gelu_slope(GeluForm form, std::int64_t n, const T* x, const Acc<T>* t, Acc<T>* e) {
  using A = Acc<T>;
  if (form == GeluForm::erf) {
    for (std::int64_t j = 0; j < n; ++j) e[j] = A(-0.5) * A(x[j]) * A(x[j]);
    vector_exp(n, e, e);
    for (std::int64_t j = 0; j < n; ++j) e[j] = A(0.5) * (1 + t[j]) + A(x[j]) * A(kInverseRootTwoPi) * e[j];
  } else {
    for (std::int64_t j = 0; j < n; ++j) {
      const A v = A(x[j]);
      const A inner_slope = A(kRootTwoOverPi) * (1 + 3 * A(kGeluCubic) * v * v);
      e[j] = A(0.5) * (1 + t[j]) + A(0.5) * v * (1 - t[j] * t[j]) * inner_slope;
    }
  }
}

/// y = gelu(x), and slope = gelu'(x) where it is not null: the backward pass then needs no library function. y may be
/// x.
template <class X, class T>
void gelu_forward(GeluForm form, std::int64_t n, const X* x, T* y, T* slope = nullptr) {
  using A = Acc<T>;
  alignas(64) A t[kGeluPiece];
  alignas(64) A e[kGeluPiece];
  for (std::int64_t i = 0; i < n; i += kGeluPiece) {
    const std::int64_t m = std::min(kGeluPiece, n - i);
    gelu_inner(form, m, x + i, t);
    if (slope) {
      gelu_slope(form, m, x + i, t, e);
      for (std::int64_t j = 0; j < m; ++j) slope[i + j] = T(e[j]);
    }
    for (std::int64_t j = 0; j < m; ++j) y[i + j] = T(A(0.5) * A(x[i + j]) * (1 + t[j]));
  }
}

/// dx (+)= dy gelu'(x).
template <class T>
void gelu_gradient(GeluForm form, std::int64_t n, const T* dy, const T* x, T* dx, bool add) {
  using A = Acc<T>;
  alignas(64) A t[kGeluPiece];
  alignas(64) A e[kGeluPiece];
  for (std::int64_t i = 0; i < n; i += kGeluPiece) {
    const std::int64_t m = std::min(kGeluPiece, n - i);
    gelu_inner(form, m, x + i, t);
    gelu_slope(form, m, x + i, t, e);
    for (std::int64_t j = 0; j < m; ++j) {
      const A g = A(dy[i + j]) * e[j];
      dx[i + j] = add ? T(A(dx[i + j]) + g) : T(g);
    }
  }
}

}  // namespace normlab::cpu
