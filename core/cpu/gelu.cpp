#include "core/cpu/gelu.h"

#include "core/cpu/vector_exp.h"
#include "core/cpu/vector_math.h"
#include "core/shared_kernels.h"

namespace normlab::cpu {
namespace {

/// A piece of at most kGeluPiece values, by the vector functions of the C library.
template <class A>
void by_library(GeluForm form, std::int64_t n, const A* x, A* y, A* slope) {
  alignas(64) A t[kGeluPiece] = {}, e[kGeluPiece] = {};
  if (form == GeluForm::erf) {
    for (std::int64_t i = 0; i < n; ++i) t[i] = x[i] * A(kRootHalf);
    vector_erf(n, t, t);
    if (slope) {
      for (std::int64_t i = 0; i < n; ++i) e[i] = A(-0.5) * x[i] * x[i];
      vector_exp(n, e, e);
      for (std::int64_t i = 0; i < n; ++i) slope[i] = A(0.5) * (1 + t[i]) + x[i] * A(kInverseRootTwoPi) * e[i];
    }
  } else {
    for (std::int64_t i = 0; i < n; ++i) t[i] = A(kRootTwoOverPi) * (x[i] + A(kGeluCubic) * x[i] * x[i] * x[i]);
    vector_tanh(n, t, t);
    if (slope)
      for (std::int64_t i = 0; i < n; ++i) {
        const A inner = A(kRootTwoOverPi) * (1 + 3 * A(kGeluCubic) * x[i] * x[i]);
        slope[i] = A(0.5) * (1 + t[i]) + A(0.5) * x[i] * (1 - t[i] * t[i]) * inner;
      }
  }
  if (y)
    for (std::int64_t i = 0; i < n; ++i) y[i] = A(0.5) * x[i] * (1 + t[i]);
}

template <class A>
void block_by_library(GeluForm form, std::int64_t rows, std::int64_t columns, std::int64_t stride, const A* x, A* y,
                      A* slope) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; c += kGeluPiece) {
      const std::int64_t at = r * stride + c;
      by_library(form, std::min(kGeluPiece, columns - c), x + at, y ? y + at : nullptr, slope ? slope + at : nullptr);
    }
}

/// The erf form with one exponential for both results. With a = |x| and u = exp(-a^2 / 2), Phi(-a) = u R(a), where R is
/// smooth and falls from 1/2 like 1 / a. R is a polynomial in t = 1 / (1 + 0.3 a), fitted on [0, 14] for minimal
/// largest relative error, 6e-8. exp(z) = 2^n exp(r), |r| <= log(2) / 2, by a polynomial fitted in the same way, 2e-9.
/// So the lower tail keeps its digits, which 1 + erf(x / sqrt(2)) loses.
struct ValueAndSlope {
  Floats value, slope;
};
[[gnu::always_inline]] inline ValueAndSlope normal_gelu(Floats x) {
  constexpr float kTail[] = {7.168855210218936e-06f, 0.1194876893587382f,  0.12192033887969464f,
                             0.09468353753011599f,   0.14253548663425242f, -0.0765064178740239f,
                             0.22866002490603798f,   -0.1691660826476746f, 0.038378283274193695f};
  const Floats a = std::bit_cast<Floats>(std::bit_cast<Ints>(x) & 0x7fffffff);
  const Floats u = exp_nonpositive(a * a * -0.5f);
  const Floats tail = u * polynomial(kTail, 1.0f / (1.0f + 0.3f * a));
  const Floats phi = x < 0.0f ? tail : 1.0f - tail;
  return {x * phi, phi + x * (u * float(kInverseRootTwoPi))};
}

}  // namespace

void gelu_block(GeluForm form, std::int64_t rows, std::int64_t columns, std::int64_t stride, const float* x, float* y,
                float* slope) {
  if (form == GeluForm::tanh) return block_by_library(form, rows, columns, stride, x, y, slope);
  // One loop over all vectors of the block, so that the constants stay in registers.
  for (std::int64_t r = 0; r < rows; ++r)
    each_vector<float, kVectorBytes>(columns, [&](std::int64_t c, auto lanes) {
      const std::int64_t at = r * stride + c;
      const ValueAndSlope g = normal_gelu(load(x + at, lanes));
      if (y) store(y + at, g.value, lanes);
      if (slope) store(slope + at, g.slope, lanes);
    });
}

void gelu_block(GeluForm form, std::int64_t rows, std::int64_t columns, std::int64_t stride, const double* x, double* y,
                double* slope) {
  block_by_library(form, rows, columns, stride, x, y, slope);
}

}  // namespace normlab::cpu
