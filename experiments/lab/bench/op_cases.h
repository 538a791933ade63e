// The operations of a network in one table. tests/autograd check gradients, devices, types and fused forms of each row,
// and of ragged cases; `bench ops` times the rows at a network's sizes. It stands beside `bench` since nothing that
// trains needs it.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "autograd/tape.h"
#include "core/arena.h"

namespace normlab {

/// Normal numbers for an input.
struct OpInput {
  OpInput(std::initializer_list<std::int64_t> dims) : shape(dims) {}
  OpInput(const Shape& size, double mean_of, double std_of) : shape(size), mean(mean_of), std(std_of) {}
  Shape shape;
  double mean = 0.3, std = 0.8;
};

struct OpCase {
  using Build = std::function<Var(const std::vector<Var>& inputs)>;
  std::string name;  // the operation, and what is special
  /// The first inputs, in the type of a step, and the others, in that of its sums and statistics.
  std::vector<OpInput> activations, parameters;
  Build build;
  /// The same result and gradients from other operations. In double: to the bit, or to 1e-13.
  Build unfused{};
  bool same_bits = false;
};

/// Tokens are those of attention and norms; windows cut a square of side^2 tokens. The defaults suit finite differences.
struct OpSizes {
  std::int64_t images = 2, tokens = 5, width = 6, hidden = 9, heads = 3, classes = 5, side = 4, patch = 2;
};

/// Activations that are formulas, as rows of that name; of x and, where they read g, of a gate.
inline constexpr std::array kActivationOps{"relu(x)^2", "silu(x)", "silu(x) * g", "gelu(x) * g"};
/// A row of one over [images, tokens, cols]; `of_itself`: the gate is x.
OpCase activation_op(const char* text, const Shape& shape, bool of_itself = false);

/// Every norm over [images, tokens, width].
std::vector<OpCase> norm_ops(const OpSizes& sizes);
/// The norms and the other operations of a network. Masks and labels are in `memory`.
std::vector<OpCase> network_ops(Arena& memory, const OpSizes& sizes);

}  // namespace normlab
