#include "core/formula/graph.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <numbers>

#include "core/error.h"

namespace normlab::formula {
namespace {

/// An elementwise function of one value: its word, and its derivative at a, where it is y.
struct UnaryRow {
  Op op;
  std::string_view word;
  Id (*slope)(Graph& g, Id a, Id y);  // null: 0
};
constexpr UnaryRow kUnary[] = {
    {Op::stop, "stop", nullptr},
    {Op::neg, "neg", [](Graph& g, Id, Id) { return g.number(-1); }},
    {Op::inverse, "inverse", [](Graph& g, Id, Id y) { return g.unary(Op::neg, g.mul(y, y)); }},
    {Op::abs, "abs", [](Graph& g, Id a, Id) { return g.unary(Op::sign, a); }},
    {Op::sign, "sign", nullptr},
    {Op::sqrt, "sqrt", [](Graph& g, Id, Id y) { return g.mul(g.number(0.5), g.unary(Op::inverse, y)); }},
    {Op::exp, "exp", [](Graph&, Id, Id y) { return y; }},
    {Op::expm1, "expm1", [](Graph& g, Id, Id y) { return g.add(y, g.number(1)); }},
    {Op::log, "log", [](Graph& g, Id a, Id) { return g.unary(Op::inverse, a); }},
    {Op::log1p, "log1p", [](Graph& g, Id a, Id) { return g.unary(Op::inverse, g.add(a, g.number(1))); }},
    {Op::tanh, "tanh", [](Graph& g, Id, Id y) { return g.sub(g.number(1), g.mul(y, y)); }},
    {Op::sigmoid, "sigmoid", [](Graph& g, Id, Id y) { return g.mul(y, g.sub(g.number(1), y)); }},
    {Op::erf, "erf",
     [](Graph& g, Id a, Id) {
       return g.mul(g.number(2 * std::numbers::inv_sqrtpi), g.unary(Op::exp, g.unary(Op::neg, g.mul(a, a))));
     }},
    {Op::atan, "atan", [](Graph& g, Id a, Id) { return g.unary(Op::inverse, g.add(g.mul(a, a), g.number(1))); }},
    {Op::sin, "sin", [](Graph& g, Id a, Id) { return g.unary(Op::cos, a); }},
    {Op::cos, "cos", [](Graph& g, Id a, Id) { return g.unary(Op::neg, g.unary(Op::sin, a)); }},
    {Op::softplus, "softplus", [](Graph& g, Id a, Id) { return g.unary(Op::sigmoid, a); }}};

const UnaryRow* find_unary(Op op) {
  const auto* row = std::find_if(std::begin(kUnary), std::end(kUnary), [&](const UnaryRow& r) { return r.op == op; });
  return row == std::end(kUnary) ? nullptr : row;
}

/// A function that is composed of others, and so is its derivative.
struct ComposedRow {
  std::string_view word;
  Id (*value)(Graph& g, const std::vector<Id>& a);
};
constexpr ComposedRow kComposed[] = {
    {"+", [](Graph& g, const std::vector<Id>& a) { return g.add(a[0], a[1]); }},
    {"-", [](Graph& g, const std::vector<Id>& a) { return g.sub(a[0], a[1]); }},
    {"*", [](Graph& g, const std::vector<Id>& a) { return g.mul(a[0], a[1]); }},
    {"/", [](Graph& g, const std::vector<Id>& a) { return g.quotient(a[0], a[1]); }},
    {"rsqrt", [](Graph& g, const std::vector<Id>& a) { return g.unary(Op::inverse, g.unary(Op::sqrt, a[0])); }},
    {"relu", [](Graph& g, const std::vector<Id>& a) { return g.binary(Op::max, g.number(0), a[0]); }},
    {"silu", [](Graph& g, const std::vector<Id>& a) { return g.mul(a[0], g.unary(Op::sigmoid, a[0])); }},
    {"gelu",
     [](Graph& g, const std::vector<Id>& a) {
       const Id erf = g.unary(Op::erf, g.mul(g.number(std::numbers::sqrt2 / 2), a[0]));
       return g.mul(g.mul(g.number(0.5), a[0]), g.add(g.number(1), erf));
     }},
    {"min", [](Graph& g, const std::vector<Id>& a) { return g.binary(Op::min, a[0], a[1]); }},
    {"max", [](Graph& g, const std::vector<Id>& a) { return g.binary(Op::max, a[0], a[1]); }},
    {"clamp",
     [](Graph& g, const std::vector<Id>& a) { return g.binary(Op::min, g.binary(Op::max, a[0], a[1]), a[2]); }},
    {"where<", [](Graph& g, const std::vector<Id>& a) { return g.less(a[0], a[1], a[2], a[3]); }},
    {"where>", [](Graph& g, const std::vector<Id>& a) { return g.less(a[1], a[0], a[2], a[3]); }}};

constexpr std::string_view kOtherWords[] = {
    "+",      "-",   "*",   "*0",         "/",           "^",     "min",   "max",   "where",        "same",
    "sum",    "max", "min", "first_most", "first_least", "sum_t", "max_t", "min_t", "first_most_t", "first_least_t",
    "sum_all"};

}  // namespace

std::string_view word_of_op(Op op) {
  constexpr std::string_view kLeaves[] = {"x", "dy", "", "", "channel", "token", "tokens"};
  if (is_leaf(op)) return kLeaves[std::size_t(op)];
  const UnaryRow* row = find_unary(op);
  return row ? row->word : kOtherWords[std::size_t(op) - std::size_t(Op::add)];
}

Id Graph::make(Op op, std::array<Id, 4> in, double value, int index) {
  if ((op == Op::add || op == Op::mul || op == Op::times) && in[0] > in[1]) std::swap(in[0], in[1]);
  if (op == Op::mul || op == Op::times)
    for (const int one : {0, 1})
      if ((*this)[in[std::size_t(one)]].op == Op::number && (*this)[in[std::size_t(one)]].number == 1)
        return in[std::size_t(1 - one)];
  const auto [known, is_new] = known_.try_emplace({op, in, value, index}, Id(nodes_.size()));
  if (!is_new) return known->second;
  Node node{.op = op, .in = in, .number = value, .index = index};
  const auto of = [&](std::size_t i) { return in[i] == kNone ? Node{} : (*this)[in[i]]; };
  const Node a = of(0), b = of(1), c = of(2), d = of(3);
  node.axes = Axes(a.axes | b.axes | c.axes | d.axes);
  if (reduces_channels(op)) node.axes = Axes(node.axes & ~kChannel);
  if (reduces_tokens(op)) node.axes = Axes(node.axes & ~kToken);
  if (op == Op::sum_all) node.axes = Axes(node.axes & kChannel);
  const auto is = [&](bool finite, bool not_negative = false, bool positive = false) {
    node.finite = finite;
    node.not_negative = not_negative || positive;
    node.positive = positive;
  };
  const bool both = a.finite && b.finite;
  switch (op) {
    case Op::x:
    case Op::dy:
      node.axes = kAllAxes;
      is(true);
      break;
    case Op::number:
      is(true, value >= 0, value > 0);
      break;
    case Op::parameter:
      node.axes = parameters_[std::size_t(index)].per_channel ? kChannel : Axes(0);
      is(true);
      break;
    case Op::channel:
    case Op::token:
    case Op::tokens:
      node.axes = op == Op::channel ? kChannel : op == Op::token ? Axes(kImage | kToken) : Axes(0);
      is(true, true, op != Op::token);
      break;
    case Op::abs:
      is(a.finite, true, a.positive);
      break;
    case Op::inverse:
      is(a.finite && a.positive, a.not_negative, a.positive);
      break;
    case Op::sqrt:
      is(a.finite && a.not_negative, true, a.positive);
      break;
    case Op::exp:
      is(a.op == Op::neg && (*this)[a.in[0]].finite && (*this)[a.in[0]].not_negative, true);
      break;
    case Op::expm1:
    case Op::pow:
      is(false);
      break;
    case Op::log:
      is(a.finite && a.positive);
      break;
    case Op::log1p:
      is(a.finite && a.not_negative);
      break;
    case Op::sigmoid:
    case Op::softplus:
      is(a.finite, true);
      break;
    case Op::add:
      is(both, a.not_negative && b.not_negative, (a.positive && b.not_negative) || (b.positive && a.not_negative));
      break;
    case Op::mul:
      is(both, in[0] == in[1] || (a.not_negative && b.not_negative), a.positive && b.positive);
      break;
    case Op::div:
      is(both && b.positive, a.not_negative && b.not_negative);
      break;
    case Op::min:
    case Op::max:
      is(both, a.not_negative && b.not_negative, a.positive && b.positive);
      break;
    case Op::select:
      is(c.finite && d.finite, c.not_negative && d.not_negative, c.positive && d.positive);
      break;
    case Op::same:
      is(c.finite, c.not_negative);
      break;
    case Op::times:
      is(false);
      break;
    case Op::sub:
      is(both);
      break;
    case Op::neg:
    case Op::sign:
    case Op::tanh:
    case Op::erf:
    case Op::atan:
    case Op::sin:
    case Op::cos:
      is(a.finite);
      break;
    default:  // stop and the reductions
      is(a.finite, a.not_negative, a.positive);
  }
  nodes_.push_back(node);
  return known->second;
}

Id Graph::quotient(Id a, Id b) {
  const bool by_inverse = ((*this)[a].axes & kChannel) && !((*this)[b].axes & kChannel);
  return by_inverse ? mul(a, unary(Op::inverse, b)) : binary(Op::div, a, b);
}

Id Graph::factor(Id a, Id b) { return binary((*this)[a].finite && (*this)[b].finite ? Op::mul : Op::times, a, b); }

Graph::Graph(const Tree& tree, const Site& site, const std::vector<Parameter>& parameters)
    : site_(site), parameters_(parameters) {
  for (std::size_t t = 0; t < tree.terms.size(); ++t) of_term_.push_back(built(tree, int(t)));
  y_ = of_term_.back();
  differentiate();
}

Id Graph::built(const Tree& tree, int term) {
  const Term& t = tree.terms[std::size_t(term)];
  if (t.word.empty()) return number(t.number);
  std::vector<Id> a;
  for (const int i : t.arguments) a.push_back(of_term_[std::size_t(i)]);
  if (t.word == "^") {  // a literal whole number multiplies
    const Term& e = tree.terms[std::size_t(t.arguments[1])];
    const Term& size = e.word == "neg" ? tree.terms[std::size_t(e.arguments[0])] : e;
    if (size.word.empty() && size.number == std::floor(size.number) && size.number <= 8)
      return power(a[0], e.word == "neg" ? -int(size.number) : int(size.number));
  }
  if (!a.empty()) return called(t.word, a);
  if (t.word == "x") return make(Op::x);
  if (t.word == "channel") return make(Op::channel);
  const std::pair<std::string_view, double> numbers[] = {
      {"pi", std::numbers::pi},    {"e", std::numbers::e},         {"C", double(site_.channels)},
      {"N", double(site_.tokens)}, {"depth", double(site_.depth)}, {"block", double(site_.block)}};
  for (const auto& [word, value] : numbers)
    if (t.word == word) return number(value);
  for (std::size_t p = 0; p < parameters_.size(); ++p)
    if (parameters_[p].name == t.word)
      return parameters_[p].learned ? make(Op::parameter, {kNone, kNone, kNone, kNone}, 0, int(p))
                                    : number(parameters_[p].value);
  throw InputError(concat("formula: unknown value ", t.word));
}

Id Graph::called(const std::string& word, const std::vector<Id>& a) {
  if (word == "^") return binary(Op::pow, a[0], a[1]);
  const Called reduction = find_function(word);
  if (reduction.function && reduction.function->reduces && a.size() == reduction.function->least)
    return reduced(reduction, a);
  for (const UnaryRow& row : kUnary)
    if (row.word == word) return unary(row.op, a[0]);
  for (const ComposedRow& row : kComposed)
    if (row.word == word) return row.value(*this, a);
  throw InputError(concat("formula: unknown function ", word));
}

Id Graph::sum(Id a, Axes over) {
  if (over & kChannel) a = unary(Op::sum_c, a);
  return over & kToken ? unary(Op::sum_t, a) : a;
}

Id Graph::mean(Id a, Axes over) {
  Id total = sum(a, over);
  if (over & kChannel) total = quotient(total, number(double(site_.channels)));
  return over & kToken ? quotient(total, make(Op::tokens)) : total;
}

Id Graph::reduced(const Called& called, const std::vector<Id>& a) {
  const std::string_view word = called.function->word;
  const Axes over = called.over;
  const auto with_eps = [&](Id of) { return unary(Op::sqrt, add(of, number(site_.eps))); };
  const auto variance = [&] {
    const Id off = sub(a[0], mean(a[0], over));
    return mean(mul(off, off), over);
  };
  const auto extreme = [&](Op in_channels, Op in_tokens) {
    const Id of_channels = over & kChannel ? unary(in_channels, a[0]) : a[0];
    return over & kToken ? unary(in_tokens, of_channels) : of_channels;
  };
  if (word == "mean") return mean(a[0], over);
  if (word == "sum") return sum(a[0], over);
  if (word == "dot") return sum(mul(a[0], a[1]), over);
  if (word == "rms") return with_eps(mean(mul(a[0], a[0]), over));
  if (word == "norm") return with_eps(sum(mul(a[0], a[0]), over));
  if (word == "std") return with_eps(variance());
  if (word == "max") return extreme(Op::max_c, Op::max_t);
  if (word == "min") return extreme(Op::min_c, Op::min_t);
  return variance();
}

Id Graph::power(Id base, int exponent) {
  Id result = number(1), square = base;
  for (int left = std::abs(exponent); left > 0; left /= 2, square = left > 0 ? mul(square, square) : square)
    if (left % 2 == 1) result = mul(result, square);
  return exponent < 0 ? unary(Op::inverse, result) : result;
}

/// Sums the gradients of each value, from the result to the leaves.
struct Derivative {
  Graph& g;
  std::vector<Id> of = std::vector<Id>(g.nodes_.size(), kNone);

  /// Adds `gradient`, of a value with the axes of `node`, to that of its argument.
  void give(Id node, std::size_t argument, Id gradient) {
    const Id to = g[node].in[argument];
    gradient = g.summed(gradient, g[node].axes, g[to].axes);
    Id& total = of[std::size_t(to)];
    total = total == kNone ? gradient : g.add(total, gradient);
  }

  void through(Id node) {
    const Node n = g[node];
    const Id dy = of[std::size_t(node)], zero = g.number(0);
    const auto [a, b, c, d] = n.in;
    if (const UnaryRow* row = find_unary(n.op)) {
      if (n.op == Op::neg) return give(node, 0, g.unary(Op::neg, dy));
      if (row->slope) give(node, 0, g.factor(dy, row->slope(g, a, node)));
      return;
    }
    switch (n.op) {
      case Op::add:
      case Op::sub:
        give(node, 0, dy);
        return give(node, 1, n.op == Op::add ? dy : g.unary(Op::neg, dy));
      case Op::mul:
        if (a == b) return give(node, 0, g.factor(g.mul(g.number(2), dy), a));
        give(node, 0, g.factor(dy, b));
        return give(node, 1, g.factor(dy, a));
      case Op::div: {
        const Id part = g.factor(dy, g.unary(Op::inverse, b));
        give(node, 0, part);
        return give(node, 1, g.unary(Op::neg, g.factor(part, node)));
      }
      case Op::pow: {
        give(node, 0, g.factor(dy, g.factor(b, g.binary(Op::pow, a, g.sub(b, g.number(1))))));
        if (g[b].op == Op::number) return;
        const Id logarithm = g.factor(node, g.unary(Op::log, a));
        return give(node, 1, g.factor(dy, g.less(zero, g.unary(Op::abs, a), logarithm, zero)));
      }
      case Op::min:
        give(node, 0, g.less(b, a, zero, dy));
        return give(node, 1, g.less(b, a, dy, zero));
      case Op::max:
        give(node, 0, g.less(a, b, zero, dy));
        return give(node, 1, g.less(a, b, dy, zero));
      case Op::select:
        give(node, 2, g.less(a, b, dy, zero));
        return give(node, 3, g.less(a, b, zero, dy));
      case Op::sum_c:
      case Op::sum_t:
        return give_reduced(node, dy);
      case Op::max_c:
        return give_reduced(node, g.make(Op::same, {g.make(Op::channel), g.unary(Op::first_most_c, a), dy, kNone}));
      case Op::min_c:
        return give_reduced(node, g.make(Op::same, {g.make(Op::channel), g.unary(Op::first_least_c, a), dy, kNone}));
      case Op::max_t:
        return give_reduced(node, g.make(Op::same, {g.make(Op::token), g.unary(Op::first_most_t, a), dy, kNone}));
      case Op::min_t:
        return give_reduced(node, g.make(Op::same, {g.make(Op::token), g.unary(Op::first_least_t, a), dy, kNone}));
      default:
        return;
    }
  }
  /// Of a reduction's argument, for all of whose values `gradient` is meant.
  void give_reduced(Id node, Id gradient) {
    Id& total = of[std::size_t(g[node].in[0])];
    total = total == kNone ? gradient : g.add(total, gradient);
  }
};

void Graph::differentiate() {
  Derivative d{*this};
  const Id last = y_;
  d.of.resize(nodes_.size(), kNone);
  std::vector<bool> wanted(nodes_.size());  // x or a parameter is in it
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Node& n = nodes_[i];
    wanted[i] = n.op == Op::x || n.op == Op::parameter;
    for (const Id a : n.in) wanted[i] = wanted[i] || (a != kNone && n.op != Op::stop && wanted[std::size_t(a)]);
  }
  d.of[std::size_t(last)] = make(Op::dy);
  dparameters_.assign(parameters_.size(), kNone);
  for (Id i = last; i >= 0; --i) {
    if (d.of[std::size_t(i)] == kNone || !wanted[std::size_t(i)]) continue;
    if ((*this)[i].op == Op::x) dx_ = d.of[std::size_t(i)];
    if ((*this)[i].op == Op::parameter) dparameters_[std::size_t((*this)[i].index)] = d.of[std::size_t(i)];
    d.through(i);
  }
}

Id Graph::summed(Id gradient, Axes from, Axes to) {
  const auto has = [&](Axes axis) { return ((*this)[gradient].axes & axis) != 0; };
  if (from & ~to & kChannel)
    gradient = has(kChannel) ? sum_without_factors(Op::sum_c, gradient, kChannel)
                             : mul(gradient, number(double(site_.channels)));
  const bool of_image = (to & kImage) != 0;
  if ((from & ~to & kToken) && !has(kToken)) gradient = mul(gradient, make(Op::tokens));
  if (of_image && (from & ~to & kToken) && has(kToken)) gradient = sum_without_factors(Op::sum_t, gradient, kToken);
  if (!of_image && (from & kImage)) gradient = sum_without_factors(Op::sum_all, gradient, Axes(kImage | kToken));
  return gradient;
}

/// The sum of a, where factors that are the same for all its terms multiply the sum.
Id Graph::sum_without_factors(Op op, Id a, Axes over) {
  std::vector<Id> same;
  const std::function<Id(Id)> varying = [&](Id id) -> Id {
    const Node n = (*this)[id];
    if (!(n.axes & over)) return same.push_back(id), number(1);
    if (n.op == Op::neg) return same.push_back(number(-1)), varying(n.in[0]);
    if (n.op != Op::mul) return id;
    const Id left = varying(n.in[0]);
    return mul(left, varying(n.in[1]));
  };
  const Id inside = varying(a);
  Id total = unary(op, inside);
  for (const Id factor : same) total = mul(total, factor);
  return total;
}

std::vector<std::string> steps_of(const Graph& graph, Id result, const std::vector<Parameter>& parameters) {
  std::vector<bool> needed(graph.nodes().size());
  needed[std::size_t(result)] = true;
  for (std::size_t i = needed.size(); i-- > 0;)
    for (const Id a : graph.nodes()[i].in)
      if (needed[i] && a != kNone) needed[std::size_t(a)] = true;
  std::vector<std::string> names(needed.size()), out;
  int count = 0;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    const Node& n = graph.nodes()[i];
    const auto part = [&](std::size_t a) { return names[std::size_t(n.in[a])]; };
    if (n.op == Op::number) {
      char digits[32];
      names[i].assign(digits, std::to_chars(digits, digits + sizeof digits, n.number).ptr);
    } else if (n.op == Op::parameter) {
      names[i] = parameters[std::size_t(n.index)].name;
    } else if (is_leaf(n.op)) {
      names[i] = word_of_op(n.op);
    } else {
      names[i] = concat("t", ++count);
      const std::string_view word = word_of_op(n.op);
      const bool infix = Op::add <= n.op && n.op <= Op::pow;
      std::string text = infix             ? concat(part(0), " ", n.op == Op::times ? "*" : word, " ", part(1))
                         : n.op == Op::neg ? "-" + part(0)
                                           : concat(word, "(", part(0));
      if (!infix && n.op != Op::neg) {
        for (std::size_t a = 1; a < n.in.size() && n.in[a] != kNone; ++a)
          text += concat(n.op == Op::select && a == 1 ? " < " : ", ", part(a));
        text += ')';
      }
      out.push_back(concat(names[i], " = ", text));
    }
  }
  return out;
}

}  // namespace normlab::formula
