// A formula as operations on values, each computed once, and its derivative as more of them.
#pragma once

#include <array>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/formula/tree.h"

namespace normlab::formula {

/// Operations. Of the leaves, `gate` is a second input beside x, `tokens` is the number of an image's tokens and `token` the number of one of them, from
/// 0. inverse: 1 / a. times: a b, but 0 if either is 0. select: a < b ? c : d. same: a == b ? c : 0. Reductions over
/// channels (_c) and an image's tokens (_t); first_most and first_least: where the largest and smallest value is first,
/// a channel from 1 or a token from 0. sum_all: over all tokens and images.
enum class Op : std::uint8_t {
  x,
  gate,
  dy,
  number,
  parameter,
  channel,
  token,
  tokens,
  stop,
  neg,
  inverse,
  abs,
  sign,
  sqrt,
  exp,
  expm1,
  log,
  log1p,
  tanh,
  sigmoid,
  erf,
  atan,
  sin,
  cos,
  softplus,
  add,
  sub,
  mul,
  times,
  div,
  pow,
  min,
  max,
  select,
  same,
  sum_c,
  max_c,
  min_c,
  first_most_c,
  first_least_c,
  sum_t,
  max_t,
  min_t,
  first_most_t,
  first_least_t,
  sum_all
};
constexpr bool is_leaf(Op op) { return op <= Op::tokens; }
constexpr bool reduces_channels(Op op) { return Op::sum_c <= op && op <= Op::first_least_c; }
constexpr bool reduces_tokens(Op op) { return Op::sum_t <= op && op <= Op::first_least_t; }

/// What holds of a value for all finite inputs, but for overflow, as bits.
using Facts = std::uint8_t;
inline constexpr Facts kFinite = 1, kNotNegative = 2, kPositive = 4;

/// The number of a node. Arguments have smaller numbers.
using Id = int;
inline constexpr Id kNone = -1;

struct Node {
  Op op;
  std::array<Id, 4> in{kNone, kNone, kNone, kNone};
  double number = 0;  // of a number
  int index = 0;      // of a parameter
  Axes axes = 0;
  Facts facts = 0;
};

/// What a network says to the norm at one of its sites.
struct Site {
  std::int64_t channels = 1, tokens = 1, depth = 1, block = 0;  // C, N
  double eps = 1e-6;
  bool operator==(const Site&) const = default;
};

/// A parameter of a formula. One that is not learned is a number.
struct Parameter {
  std::string name;
  bool per_channel = false, learned = true;
  double value = 1;  // initially
};

class Graph {
 public:
  Graph(const Tree& tree, const Site& site, const std::vector<Parameter>& parameters);

  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& operator[](Id id) const { return nodes_[std::size_t(id)]; }
  Id y() const { return y_; }
  /// The gradients for that of y, dy: of x, of the gate, and of each parameter. kNone: nothing depends on it.
  Id dx() const { return dx_; }
  Id dgate() const { return dgate_; }
  const std::vector<Id>& dparameters() const { return dparameters_; }
  const Site& site() const { return site_; }
  /// The value of a term of the tree, and the gradient of a value, or kNone.
  Id of_term(std::size_t term) const { return of_term_[term]; }
  Id gradient(Id id) const { return gradients_[std::size_t(id)]; }

  // The rest is for the tables of graph.cpp.
  Id make(Op op, std::array<Id, 4> in = {kNone, kNone, kNone, kNone}, double number = 0, int index = 0);
  Id number(double value) { return make(Op::number, {kNone, kNone, kNone, kNone}, value); }
  Id unary(Op op, Id a) { return make(op, {a, kNone, kNone, kNone}); }
  Id binary(Op op, Id a, Id b) { return make(op, {a, b, kNone, kNone}); }
  Id add(Id a, Id b) { return binary(Op::add, a, b); }
  Id sub(Id a, Id b) { return binary(Op::sub, a, b); }
  /// a b, as one product of factors that are the same for all channels, times one of the others.
  Id mul(Id a, Id b);
  Id less(Id a, Id b, Id then, Id otherwise) { return make(Op::select, {a, b, then, otherwise}); }
  /// a / b; by the inverse where b is the same for all channels.
  Id quotient(Id a, Id b);
  /// A factor of a gradient: a b, where 0 wins over infinity.
  Id factor(Id a, Id b);

 private:
  friend struct Derivative;
  Id built(const Tree& tree, int term);
  Id called(const std::string& word, const std::vector<Id>& a);
  Id reduced(const Called& called, const std::vector<Id>& a);
  Id power(Id base, int exponent);
  Id mean(Id a, Axes over);
  Id sum(Id a, Axes over);
  void differentiate();
  /// `gradient` of a value with the axes `from` as one of an argument with the axes `to`.
  Id summed(Id gradient, Axes from, Axes to);
  Id sum_without_factors(Op op, Id a, Axes over);

  const Site site_;
  const std::vector<Parameter> parameters_;
  std::vector<Node> nodes_;
  std::map<std::tuple<Op, std::array<Id, 4>, double, int>, Id> known_;
  std::vector<Id> of_term_, gradients_;
  Id y_ = kNone, dx_ = kNone, dgate_ = kNone;
  std::vector<Id> dparameters_;
};

/// The steps from the leaves to a node, such as "t1 = x * x".
std::vector<std::string> steps_of(const Graph& graph, Id result, const std::vector<Parameter>& parameters);

}  // namespace normlab::formula
