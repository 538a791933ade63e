// exp of non-positive values, tanh and erf in registers: for loops that do more than store the result, such as the rows
// of a softmax. Whole arrays go through vector_math.h.
#pragma once

#include <bit>
#include <limits>

#include "core/cpu/kernel.h"
#include "core/cpu/vector.h"
#include "core/cpu/vector_math.h"

namespace normlab::cpu {

using Floats = Vector<float>;
using Ints = Vector<std::int32_t>;

/// The polynomial with these coefficients, lowest power first.
template <std::size_t kTerms, class V>
static V polynomial(const float (&coefficients)[kTerms], V x) {
  V sum = V{} + coefficients[kTerms - 1];
  for (std::size_t i = kTerms - 1; i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

/// exp(z) for z <= 0 within 2 ulp; 0 below -87, where the result is no normal number. exp(z) = 2^n exp(r),
/// |r| <= log(2) / 2, by a polynomial with minimal largest relative error, 2e-9. NaN stays NaN.
template <class V>
[[gnu::always_inline]] static inline V exp_nonpositive(V z) {
  using Words = Vector<std::uint32_t, sizeof(V)>;  // without a sign, since additions may overflow
  constexpr float kExp[] = {1.0000000005546081f,   1.0000000363447388f, 0.4999999207505481f,   0.1666642007204989f,
                            0.041668226196695496f, 0.0083748240550985f, 0.0013836835332179769f};
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  constexpr float kLog2Upper = 0.693145751953125f, kLog2Lower = 1.42860682030941723e-6f;
  const V shifted = z * 1.44269504088896341f + kRound, n = shifted - kRound;
  const V r = (z - n * kLog2Upper) - n * kLog2Lower;
  // Multiplies instead of adding bits, so that NaN stays NaN.
  const V value = polynomial(kExp, r) * std::bit_cast<V>((std::bit_cast<Words>(shifted) << 23) + 0x3f800000u);
  return z < -87.0f ? V{} : value;
}

/// tanh(x) within 4 ulp, for float vectors of any width. With z = -2 |x| and m = exp(z) - 1, -tanh |x| = m / (2 + m).
/// n and r are as above, and m = 2^n (exp(r) - 1) + (2^n - 1). (exp(r) - 1) / r is a polynomial fitted in the same way
/// (1.1e-8), so that small values keep their digits. r is computed in one step: where n is large, its error vanishes
/// beside 1. NaN stays NaN.
template <class V>
[[gnu::always_inline]] static inline V tanh_of(V x) {
  using I = decltype(x < x);
  using Words = Vector<std::uint32_t, sizeof(V)>;
  constexpr float kTerms[] = {1.0000000112718694f,   0.4999999801085648f,   0.1666649979036281f,
                              0.041667155056640086f, 0.008369778522565617f, 0.0013888872142544693f};
  constexpr float kRound = 12582912.0f, kLog2 = 0.693147180559945309f;
  constexpr std::int32_t kSign = std::numeric_limits<std::int32_t>::min();
  const V twice = std::bit_cast<V>(std::bit_cast<I>(x) | kSign) * 2.0f;
  const V z = -40.0f > twice ? V{} - 40.0f : twice;  // tanh is 1 from there on
  const V shifted = z * 1.44269504088896341f + kRound, n = shifted - kRound;
  const V r = z - n * kLog2;
  const V power = std::bit_cast<V>((std::bit_cast<Words>(shifted) << 23) + 0x3f800000u);
  const V m = power * (polynomial(kTerms, r) * r) + (power - 1.0f);
  return std::bit_cast<V>(std::bit_cast<I>(m / (2.0f + m)) ^ (~std::bit_cast<I>(x) & kSign));
}

/// erf(x) within 4 ulp, for float vectors of any width. erf |x| = 1 - 2^w with w = log2(erfc |x|) = |x| q(|x|), where q
/// is a polynomial fitted on [0, 3.95] for minimal largest relative error of the result, 4e-9. 2^w - 1 is computed as
/// in tanh_of(), so that small values keep their digits. NaN stays NaN.
template <class V>
[[gnu::always_inline]] static inline V erf_of(V x) {
  using I = decltype(x < x);
  using Words = Vector<std::uint32_t, sizeof(V)>;
  constexpr float kLogErfc[] = {-1.6279070377349854f,   -0.9184476137161255f,     -0.14827705919742584f,
                                0.027632029727101326f,  0.00023140254779718816f,  -0.00240501225925982f,
                                0.0009129905374720693f, -0.00016972047160379589f, 1.3353967005969025e-05f};
  constexpr float kTerms[] = {0.6931471824645996f,   0.24022649228572845f,   0.05550357326865196f,
                              0.009618237614631653f, 0.0013390735257416964f, 0.00015403512225020677f};
  constexpr float kRound = 12582912.0f;
  constexpr std::int32_t kSign = std::numeric_limits<std::int32_t>::min();
  const V size = std::bit_cast<V>(std::bit_cast<I>(x) & ~kSign);
  const V a = size > 3.95f ? V{} + 3.95f : size;  // erf is 1 from there on
  const V w = polynomial(kLogErfc, a) * a;
  const V shifted = w + kRound, f = w - (shifted - kRound);
  const V power = std::bit_cast<V>((std::bit_cast<Words>(shifted) << 23) + 0x3f800000u);
  const V negative = power * (polynomial(kTerms, f) * f) + (power - 1.0f);
  return std::bit_cast<V>((std::bit_cast<I>(negative) & ~kSign) | (std::bit_cast<I>(x) & kSign));
}

/// The largest of n >= 1 values.
static inline float row_max(std::int64_t n, const float* row) {
  constexpr std::int64_t kWide = kLanes<float>;
  Floats top = Floats{} + row[0];
  const auto take = [&](Floats v) { top = top < v ? v : top; };
  std::int64_t j = 0;
  for (; j + kWide <= n; j += kWide) take(load(row + j));
  if (j < n) {  // reads the last whole vector again, or single values if there is none
    if (n >= kWide)
      take(load(row + n - kWide));
    else
      for (; j < n; ++j) take(Floats{} + row[j]);
  }
  alignas(64) float lanes[kWide];
  store(lanes, top);
  return *std::max_element(lanes, lanes + kWide);
}
static inline double row_max(std::int64_t n, const double* row) { return *std::max_element(row, row + n); }

/// row [n] = exp(scale row - shift), where shift is at least the largest scaled value; returns the sum.
static inline float exp_row(std::int64_t n, float* row, float scale, float shift) {
  Floats sums = {};
  each_vector<float, kVectorBytes>(n, [&](std::int64_t j, auto lanes) {
    const Floats e = exp_nonpositive(load(row + j, lanes) * scale - shift);
    store(row + j, e, lanes);
    sums += first(e, lanes);
  });
  alignas(64) float partial[kLanes<float>];
  store(partial, sums);
  return sum<float>(kLanes<float>, [&](auto i) { return partial[i]; });
}
static inline double exp_row(std::int64_t n, double* row, double scale, double shift) {
  for (std::int64_t j = 0; j < n; ++j) row[j] = scale * row[j] - shift;
  vector_exp(n, row, row);
  return sum<double>(n, [&](auto j) { return row[j]; });
}

}  // namespace normlab::cpu
