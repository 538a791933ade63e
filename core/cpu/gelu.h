// GELU and its slope over arrays, alone or after a linear layer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/cpu/vector.h"
#include "core/kernels.h"

namespace normlab::cpu {

inline constexpr std::int64_t kGeluPiece = 256;  // bf16 values widened at a time

/// y = gelu(x) and slope = gelu'(x) of a block [rows, columns] with row stride `stride` in all three. y or slope may be
/// null, and y may be x.
///   erf: x Phi(x), Phi(x) + x phi(x).   tanh: x (1 + tanh(u)) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3).
/// In float the erf form has a relative error below 1.5e-6 in y for |x| < 5, tails included, and an error below 2e-7 in
/// the slope.
void gelu_block(GeluForm form, std::int64_t rows, std::int64_t columns, std::int64_t stride, const float* x, float* y,
                float* slope);
void gelu_block(GeluForm form, std::int64_t rows, std::int64_t columns, std::int64_t stride, const double* x, double* y,
                double* slope);

/// The same for n values.
template <class A>
static void gelu_values(GeluForm form, std::int64_t n, const A* x, std::type_identity_t<A>* y,
                        std::type_identity_t<A>* slope) {
  gelu_block(form, 1, n, n, x, y, slope);
}

/// The same for values computed as X and stored as T. `slope` may be null.
template <class X, class T>
static void gelu_forward(GeluForm form, std::int64_t n, const X* x, T* y, T* slope = nullptr) {
  using A = Acc<T>;
  if constexpr (std::is_same_v<X, A> && std::is_same_v<T, A>) {
    gelu_values(form, n, x, y, slope);
  } else {
    alignas(64) A wide[kGeluPiece], value[kGeluPiece], rise[kGeluPiece];
    for (std::int64_t i = 0; i < n; i += kGeluPiece) {
      const std::int64_t m = std::min(kGeluPiece, n - i);
      each_vector<A>(m, [&](std::int64_t j, auto lanes) { store(wide + j, load(x + i + j, lanes), lanes); });
      gelu_values(form, m, wide, value, slope ? rise : nullptr);
      each_vector<A>(m, [&](std::int64_t j, auto lanes) {
        store(y + i + j, load(value + j, lanes), lanes);
        if (slope) store(slope + i + j, load(rise + j, lanes), lanes);
      });
    }
  }
}

/// dx (+)= dy gelu'(x).
template <class T>
static void gelu_gradient(GeluForm form, std::int64_t n, const T* dy, const T* x, T* dx, bool add) {
  using A = Acc<T>;
  alignas(64) A wide[kGeluPiece], rise[kGeluPiece];
  for (std::int64_t i = 0; i < n; i += kGeluPiece) {
    const std::int64_t m = std::min(kGeluPiece, n - i);
    each_vector<A>(m, [&](std::int64_t j, auto lanes) { store(wide + j, load(x + i + j, lanes), lanes); });
    gelu_values(form, m, wide, nullptr, rise);
    each_vector<A>(m, [&](std::int64_t j, auto lanes) {
      const Vec<A> g = load(dy + i + j, lanes) * load(rise + j, lanes);
      store(dx + i + j, add ? load(dx + i + j, lanes) + g : g, lanes);
    });
  }
}

}  // namespace normlab::cpu
