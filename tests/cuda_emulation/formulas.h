// The formulas whose kernels the tests have, which make compiles from their text in NVRTC's place.
#pragma once

#include <string>
#include <vector>

#include "core/formula/cuda_source.h"
#include "experiments/lab/bench/op_cases.h"
#include "tests/core/formula/interpreter.h"

namespace normlab::formula {

struct TestFormula {
  std::string text;
  std::vector<Parameter> parameters;
  Sizes sizes;
  DType dtype;
  Site site{.channels = sizes.channels, .tokens = sizes.tokens, .depth = 12, .block = 3};
  bool elementwise = false;
  Tree tree() const { return elementwise ? parse_rows(text) : tree_of(text, parameters); }
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

/// Those whose values depend on the order of equal ones, or on what NaN does.
inline std::vector<TestFormula> edge_formulas() {
  std::vector<TestFormula> out;
  for (const char* text :
       {"max(x) * x - min(-x)", "max_tokens(x) + min_image(x) * x", "sign(x) * relu(x) + clamp(x, -1, alpha)",
        "min(x, alpha) + max(shift, x) + where(x < 0, log(x), sqrt(x))", "abs(x)^alpha + x^-alpha + x^0.5",
        "sqrt(x * x) + where(x > 0, 1 / x, 3 * x) + softplus(x)"})
    out.push_back({text, kParameters, {2, 4, 40}, DType::f64});
  return out;
}

/// Of what attention does to its heads, see nn/model/heads.h.
inline constexpr const char *kHeadGate = "x * sigmoid(g)", *kHeadScale = "exp(min(x, log(100)))",
                            *kExclusive = "x - g * (dot(x, g) / max(dot(g, g), 1e-24))";
/// Of tests/autograd/op_cases.h: of x and perhaps a gate, which may be x itself.
struct ElementwiseCase {
  const char* text;
  std::int64_t cols;
  bool of_itself = false;
};
inline constexpr ElementwiseCase kElementwiseCases[] = {{"silu(x)", 5},
                                                        {"x * sigmoid(1.702 * x)", 37},
                                                        {"relu(x)^2 + 0.1 * x", 5},
                                                        {"silu(x) * g", 5},
                                                        {"gelu(x) * g", 72},
                                                        {"x + g", 5},
                                                        {"tanh(x) * g", 8, true},
                                                        {"relu(x) * g", 264},
                                                        {kHeadGate, 24},
                                                        {kHeadScale, 3},
                                                        {kExclusive, 1},
                                                        {kExclusive, 5},
                                                        {kExclusive, 64}};
/// Of tests/core/formula/gate_test.cpp.
inline constexpr Sizes kGateSizes{2, 3, 37};
inline const char* const kOfGates[] = {"relu(x)",
                                       "silu(x)",
                                       "relu(x)^2",
                                       "x * sigmoid(1.702 * x)",
                                       "silu(x) * g",
                                       "gelu(x) * g",
                                       "x + g",
                                       "x - g",
                                       "g * x",
                                       "stop(x) * g",
                                       "x * stop(g)",
                                       "stop(x) * stop(g)",
                                       "where(x < g, x, g * g)",
                                       "max(x, g) * tanh(g) + progress * x",
                                       "0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) * g",
                                       "x * g + channel * x / C + N * g / depth + block"};
/// Of prep_bn whose decay_share is 0.75.
inline const char* const kOfPRepBN = "max(1 - progress / 0.75, 0) * x + min(progress / 0.75, 1) * g";
/// Of an MLP in tests/nn/training.
inline const char* const kOfHidden = "silu(x) * g * (2 - progress)";
/// Those of the last three tests, and the activations of fixtures and test networks.
inline std::vector<TestFormula> elementwise_formulas() {
  std::vector<TestFormula> out;
  const auto add = [&](const char* text, const Sizes& sizes, DType type) {
    TestFormula one{.text = text, .parameters = {}, .sizes = sizes, .dtype = type, .elementwise = true};
    if (one.tree().reads("progress")) one.parameters = {{.name = "progress"}};
    out.push_back(one);
  };
  constexpr DType kTypes[] = {DType::f64, DType::f32, DType::bf16};
  for (const DType type : kTypes) {
    for (const ElementwiseCase& c : kElementwiseCases) add(c.text, {1, 1, c.cols}, type);
    for (const char* text : {"relu(x)^2", "silu(x) * g", kOfHidden}) add(text, {1, 1, 96}, type);
    for (const char* text : kActivationOps) add(text, {1, 1, OpSizes().hidden}, type);
  }
  for (const char* text : kOfGates) add(text, kGateSizes, DType::f64);
  for (const char* text :
       {"relu(x)", "silu(x)", "relu(x)^2", "x * sigmoid(1.702 * x)", "silu(x) * g", "gelu(x) * g",
        "0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) * g", "relu(x) * g", "x * tanh(softplus(x)) * g"})
    add(text, {1, 1, 20}, DType::f32);
  add("silu(x) * g", {1, 1, 4}, DType::f32);
  for (const DType type : {DType::f64, DType::f32}) {
    for (const std::int64_t rank : {3, 16}) add("silu(x)", {1, 1, rank}, type);
    for (const std::int64_t width : {4, 8, 24}) add("x * sigmoid(g)", {1, 1, width}, type);
    for (const std::int64_t width : {8, 24}) add(kOfPRepBN, {1, 1, width}, type);
  }
  for (const std::int64_t width : {24, 48, 96}) add("gelu(x) * g", {1, 1, width}, DType::f64);
  // The small networks' widths, heads and widths of heads, and those of fixtures.
  for (const std::int64_t width : {12, 48}) add(kHeadGate, {1, 1, width}, DType::f64);
  for (const std::int64_t heads : {2, 4}) add(kHeadScale, {1, 1, heads}, DType::f64);
  for (const std::int64_t width : {6, 12}) add(kExclusive, {1, 1, width}, DType::f64);
  for (const DType type : kTypes) add(kExclusive, {1, 1, 8}, type);
  add(kHeadGate, {1, 1, 8}, DType::f32);
  add(kHeadScale, {1, 1, 2}, DType::f32);
  add(kExclusive, {1, 1, 4}, DType::f32);
  return out;
}

/// Of networks in tests/nn/training/devices_test.cpp: over images, over channels, and both with their training's
/// progress.
inline const char* const kOfImages =
    "gamma * x / (abs(x) + alpha * std_image(x)) + beta * progress * block / (depth * N)";
inline const char* const kOfWindows = "(x - mean_image(x)) / std_image(x)";
inline const char* const kOfHeads = "x / (abs(x) + rms(x))";
inline const char* const kOfTokens = "gamma * x / rms(x) * (1 + progress)";
inline std::vector<TestFormula> network_formulas() {
  const Parameter alpha = kParameters[0], beta = kParameters[1], gamma = kParameters[2], progress{.name = "progress"};
  std::vector<TestFormula> out;
  const auto add = [&](const char* text, const std::vector<Parameter>& parameters, const Site& site, DType type) {
    out.push_back({text, parameters, {1, 1, site.channels}, type, site});
  };
  for (const DType type : {DType::f64, DType::f32, DType::bf16}) {
    for (const std::int64_t block : {1, 2})
      add(kOfImages, {alpha, beta, gamma, progress}, {.channels = 24, .tokens = 16, .depth = 2, .block = block}, type);
    add(kOfHeads, {}, {.channels = 8}, type);
    add(kOfTokens, {gamma, progress}, {.channels = 24}, type);
  }
  for (const std::int64_t width : {6, 12, 24, 48}) add(kOfWindows, {}, {.channels = width, .eps = 1e-5}, DType::f64);
  return out;
}

}  // namespace normlab::formula
