// The formulas whose kernels the tests have, which make compiles from their text in NVRTC's place.
#pragma once

#include <string>
#include <vector>

#include "core/formula/cuda_source.h"
#include "tests/core/formula/interpreter.h"

namespace normlab::formula {

struct TestFormula {
  std::string text;
  std::vector<Parameter> parameters;
  Sizes sizes;
  DType dtype;
  Tree tree() const { return tree_of(text, parameters); }
  Site site() const { return {.channels = sizes.channels, .tokens = sizes.tokens, .depth = 12, .block = 3}; }
  /// Values that are read at once where nothing is aligned worse than the rows are.
  int vector() const {
    const int whole = int(16 / size_of(dtype));
    return sizes.channels % whole == 0 ? whole : 1;
  }
};

/// Forty that have everything in them, each in some type and of some width; with `more`, 200 random ones instead.
inline std::vector<TestFormula> test_formulas(bool more = false) {
  constexpr DType kTypes[] = {DType::f64, DType::f32, DType::bf16};
  // Rows in single values and in vectors, on one warp, and on some.
  const Sizes sizes[] = {{2, 3, 5}, {3, 7, 40}, {2, 21, 64}, {1, 9, 600}, {2, 61, 37}};
  std::vector<TestFormula> out;
  const auto add = [&](const std::string& text, const Sizes& s, DType type) {
    TestFormula one{text, kParameters, s, type};
    try {
      one.tree();
      out.push_back(one);
    } catch (const FormulaError&) {
    }
  };
  if (more) {
    RandomFormulas texts(31);
    while (out.size() < 200) add(texts.next(), sizes[out.size() % 5], kTypes[out.size() % 3]);
    return out;
  }
  const char* const fixed[] = {
      "gamma * (x - mean(x)) / std(x) + beta",
      "gamma * x / rms(x)",
      "gamma * x / norm(x)",
      "gamma * tanh(alpha * x) + beta",
      "gamma * erf(alpha * x + shift) + beta",
      "(gamma + tanh(dot(x, beta)) * alpha) * x / rms(x)",
      "gamma * tanh(alpha * x / (10 * rms(x)))",
      "gamma * (x - mean_image(x)) / std_image(x) + beta",
      "gamma * (x - mean_tokens(x)) / std_tokens(x) + beta",
      "gamma * x / (abs(x) + alpha * rms(x)) + beta",
      "x - max(x) * min(x * gamma) + max_tokens(x) - min_tokens(alpha * x)",
      "x * max_image(x) - min_image(x) * dot_tokens(x, gamma) / N",
      "sigmoid(x) + softplus(x) * silu(x) - relu(x) * gelu(shift * x)",
      "sin(x) * cos(x) + atan(x) - expm1(-abs(x)) + sign(x) * log1p(abs(x))",
      "exp(-x^2) + log(abs(x) + 0.3) * sqrt(abs(x) + 0.1) - rsqrt(1 + x^2)",
      "abs(x)^alpha + x^3 - (abs(x) + 1)^-2 + (abs(x) + 0.5)^shift",
      "where(x < alpha, x^2, x - shift) * clamp(x, -0.7, alpha) + min(x, alpha) * max(x, shift)",
      "x * norm(gamma) + channel / C * x + stop(x) * mean(beta) * e - pi * shift",
      "x / (1 + var_tokens(x * gamma) + mean(std_tokens(x))) + rms_image(x - max(x))",
      "x * sum_image(x * alpha) / (N * C) + norm_tokens(x) * sum(x) / C + rms_tokens(x)",
      "x - stop(mean(x)) + alpha",
      "where(x > 9, 1, sum_tokens(x)) * gamma",
      "where(stop(x) > 9, 1, 2)",
      "x * x"};
  for (std::size_t i = 0; i < std::size(fixed); ++i) {
    add(fixed[i], sizes[i % 5], kTypes[i % 3]);
    if (i < 12) add(fixed[i], sizes[(i + 1) % 5], kTypes[(i + 1) % 3]);
  }
  add(fixed[0], {2, 3, 9000}, DType::bf16);  // wider than registers hold
  RandomFormulas texts(21);
  while (out.size() < 50) add(texts.next(), sizes[out.size() % 5], kTypes[out.size() % 3]);
  return out;
}

}  // namespace normlab::formula
