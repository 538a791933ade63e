#include "core/formula/graph.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <numbers>

#include "core/error.h"

namespace normlab::formula {
namespace {

/// What is known of an operation. Of a leaf, `axes` are its own, otherwise those of its arguments that stay. It has the
/// facts that all its values have, if it keeps them, and those that it gives; and it is finite if they have `finite_if`.
/// `slope`: the derivative at a, where it is y; null: 0, or Derivative says it.
struct OpRow {
  std::string_view word;
  Axes axes;
  Facts keeps, gives, finite_if;
  Id (*slope)(Graph& g, Id a, Id y) = nullptr;
};
constexpr Facts kEvery = kFinite | kNotNegative | kPositive, kNever = 8;
constexpr Axes kRow = kImage | kToken, kOthers = kImage | kChannel;
/// In the order of Op.
constexpr OpRow kOps[] = {
    {"x", kAllAxes, 0, kFinite, kNever},
    {kGate, kAllAxes, 0, kFinite, kNever},
    {"dy", kAllAxes, 0, kFinite, kNever},
    {"", 0, 0, kFinite, kNever},  // a number
    {"", 0, 0, kFinite, kNever},  // a parameter
    {"channel", kChannel, 0, kEvery, kNever},
    {"token", kRow, 0, kFinite | kNotNegative, kNever},
    {"tokens", 0, 0, kEvery, kNever},
    {"stop", kAllAxes, kEvery, 0, kNever},
    {"neg", kAllAxes, kFinite, 0, kNever, [](Graph& g, Id, Id) { return g.number(-1); }},
    {"inverse", kAllAxes, kNotNegative | kPositive, 0, kFinite | kPositive,
     [](Graph& g, Id, Id y) { return g.unary(Op::neg, g.mul(y, y)); }},
    {"abs", kAllAxes, kFinite | kPositive, kNotNegative, kNever,
     [](Graph& g, Id a, Id) { return g.unary(Op::sign, a); }},
    {"sign", kAllAxes, kFinite, 0, kNever},
    {"sqrt", kAllAxes, kPositive, kNotNegative, kFinite | kNotNegative,
     [](Graph& g, Id, Id y) { return g.mul(g.number(0.5), g.unary(Op::inverse, y)); }},
    {"exp", kAllAxes, 0, kNotNegative, kNever, [](Graph&, Id, Id y) { return y; }},
    {"expm1", kAllAxes, 0, 0, kNever, [](Graph& g, Id, Id y) { return g.add(y, g.number(1)); }},
    {"log", kAllAxes, 0, 0, kFinite | kPositive, [](Graph& g, Id a, Id) { return g.unary(Op::inverse, a); }},
    {"log1p", kAllAxes, 0, 0, kFinite | kNotNegative,
     [](Graph& g, Id a, Id) { return g.unary(Op::inverse, g.add(a, g.number(1))); }},
    {"tanh", kAllAxes, kFinite, 0, kNever, [](Graph& g, Id, Id y) { return g.sub(g.number(1), g.mul(y, y)); }},
    {"sigmoid", kAllAxes, kFinite, kNotNegative, kNever,
     [](Graph& g, Id, Id y) { return g.mul(y, g.sub(g.number(1), y)); }},
    {"erf", kAllAxes, kFinite, 0, kNever,
     [](Graph& g, Id a, Id) {
       return g.mul(g.number(2 * std::numbers::inv_sqrtpi), g.unary(Op::exp, g.unary(Op::neg, g.mul(a, a))));
     }},
    {"atan", kAllAxes, kFinite, 0, kNever,
     [](Graph& g, Id a, Id) { return g.unary(Op::inverse, g.add(g.mul(a, a), g.number(1))); }},
    {"sin", kAllAxes, kFinite, 0, kNever, [](Graph& g, Id a, Id) { return g.unary(Op::cos, a); }},
    {"cos", kAllAxes, kFinite, 0, kNever, [](Graph& g, Id a, Id) { return g.unary(Op::neg, g.unary(Op::sin, a)); }},
    {"softplus", kAllAxes, kFinite, kNotNegative, kNever, [](Graph& g, Id a, Id) { return g.unary(Op::sigmoid, a); }},
    {"+", kAllAxes, kFinite | kNotNegative, 0, kNever},
    {"-", kAllAxes, kFinite, 0, kNever},
    {"*", kAllAxes, kEvery, 0, kNever},
    {"*", kAllAxes, 0, 0, kNever},  // times
    {"/", kAllAxes, kNotNegative, 0, kNever},
    {"^", kAllAxes, 0, 0, kNever},
    {"min", kAllAxes, kEvery, 0, kNever},
    {"max", kAllAxes, kEvery, 0, kNever},
    {"where", kAllAxes, kEvery, 0, kNever},
    {"same", kAllAxes, kFinite | kNotNegative, 0, kNever},
    {"sum", kRow, kEvery, 0, kNever},
    {"max", kRow, kEvery, 0, kNever},
    {"min", kRow, kEvery, 0, kNever},
    {"first_most", kRow, kEvery, 0, kNever},
    {"first_least", kRow, kEvery, 0, kNever},
    {"sum_t", kOthers, kEvery, 0, kNever},
    {"max_t", kOthers, kEvery, 0, kNever},
    {"min_t", kOthers, kEvery, 0, kNever},
    {"first_most_t", kOthers, kEvery, 0, kNever},
    {"first_least_t", kOthers, kEvery, 0, kNever},
    {"sum_all", kChannel, kEvery, 0, kNever}};
static_assert(std::size(kOps) == std::size_t(Op::sum_all) + 1);
constexpr const OpRow& row_of(Op op) { return kOps[std::size_t(op)]; }
constexpr bool is_unary(Op op) { return Op::stop <= op && op <= Op::softplus; }

}  // namespace

Id Graph::make(Op op, std::array<Id, 4> in, double value, int index) {
  if ((op == Op::add || op == Op::mul || op == Op::times) && in[0] > in[1]) std::swap(in[0], in[1]);
  if (op == Op::mul || op == Op::times)
    for (const int one : {0, 1})
      if ((*this)[in[std::size_t(one)]].op == Op::number && (*this)[in[std::size_t(one)]].number == 1)
        return in[std::size_t(1 - one)];
  const auto [known, is_new] = known_.try_emplace({op, in, value, index}, Id(nodes_.size()));
  if (!is_new) return known->second;
  const OpRow& row = row_of(op);
  Node node{.op = op, .in = in, .number = value, .index = index};
  Axes axes = 0;
  Facts all = kEvery;
  for (std::size_t k = 0; k < in.size() && in[k] != kNone; ++k) {
    axes |= (*this)[in[k]].axes;
    if (k > 1 || (op != Op::select && op != Op::same)) all &= (*this)[in[k]].facts;
  }
  node.axes = is_leaf(op) ? row.axes : Axes(axes & row.axes);
  if (op == Op::parameter && parameters_[std::size_t(index)].per_channel) node.axes = kChannel;
  node.facts = Facts((all & row.keeps) | row.gives | ((all & row.finite_if) == row.finite_if ? kFinite : 0));
  const auto has_facts = [&](Id id, Facts facts) { return ((*this)[id].facts & facts) == facts; };
  if (op == Op::number) node.facts |= value > 0 ? kEvery : value == 0 ? kNotNegative : 0;
  if (op == Op::exp && (*this)[in[0]].op == Op::neg && has_facts((*this)[in[0]].in[0], kFinite | kNotNegative))
    node.facts |= kFinite;
  if (op == Op::add && (all & kNotNegative) && (has_facts(in[0], kPositive) || has_facts(in[1], kPositive)))
    node.facts |= kPositive;
  if (op == Op::mul && in[0] == in[1]) node.facts |= kNotNegative;
  if (op == Op::div && has_facts(in[0], kFinite) && has_facts(in[1], kFinite | kPositive)) node.facts |= kFinite;
  nodes_.push_back(node);
  return known->second;
}

Id Graph::mul(Id a, Id b) {
  Id parts[2] = {kNone, kNone};  // those with channels, and those without
  const auto take = [&](Id factor) {
    Id& part = parts[!((*this)[factor].axes & kChannel)];
    part = part == kNone ? factor : binary(Op::mul, part, factor);
  };
  for (const Id whole : {a, b}) {
    const Node n = (*this)[whole];
    const bool splits = n.op == Op::mul && (((*this)[n.in[0]].axes ^ (*this)[n.in[1]].axes) & kChannel);
    take(splits ? n.in[0] : whole);
    if (splits) take(n.in[1]);
  }
  return parts[0] == kNone || parts[1] == kNone ? parts[parts[0] == kNone] : binary(Op::mul, parts[0], parts[1]);
}

Id Graph::quotient(Id a, Id b) {
  const bool by_inverse = ((*this)[a].axes & kChannel) && !((*this)[b].axes & kChannel);
  return by_inverse ? mul(a, unary(Op::inverse, b)) : binary(Op::div, a, b);
}

Id Graph::factor(Id a, Id b) {
  return (*this)[a].facts & (*this)[b].facts & kFinite ? mul(a, b) : binary(Op::times, a, b);
}

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
  if (t.word == kGate) return make(Op::gate);
  throw InputError(concat("formula: unknown value ", t.word));
}

Id Graph::called(const std::string& word, const std::vector<Id>& a) {
  const Called reduction = find_function(word);
  if (reduction.function && reduction.function->reduces && a.size() == reduction.function->least)
    return reduced(reduction, a);
  for (std::size_t op = 0; op < std::size(kOps); ++op)
    if (is_unary(Op(op)) && kOps[op].word == word) return unary(Op(op), a[0]);
  const Id p = a[0], q = a.back();
  if (word == "+") return add(p, q);
  if (word == "-") return sub(p, q);
  if (word == "*") return mul(p, q);
  if (word == "/") return quotient(p, q);
  if (word == "^") return binary(Op::pow, p, q);
  if (word == "min") return binary(Op::min, p, q);
  if (word == "max") return binary(Op::max, p, q);
  if (word == "clamp") return binary(Op::min, binary(Op::max, p, a[1]), q);
  if (word == "where<") return less(p, a[1], a[2], q);
  if (word == "where>") return less(a[1], p, a[2], q);
  if (word == "rsqrt") return unary(Op::inverse, unary(Op::sqrt, p));
  if (word == "relu") return binary(Op::max, number(0), p);
  if (word == "silu") return mul(p, unary(Op::sigmoid, p));
  if (word == "gelu") {
    const Id erf = unary(Op::erf, mul(number(std::numbers::sqrt2 / 2), p));
    return mul(mul(number(0.5), p), add(number(1), erf));
  }
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
    if (n.op == Op::neg) return give(node, 0, g.unary(Op::neg, dy));
    if (const auto slope = row_of(n.op).slope) return give(node, 0, g.factor(dy, slope(g, a, node)));
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
      case Op::min_c:
      case Op::max_t:
      case Op::min_t: {
        const Id place = g.unary(Op(std::size_t(n.op) + 2), a);  // first_most or first_least
        const Id own = g.make(reduces_channels(n.op) ? Op::channel : Op::token);
        return give_reduced(node, g.make(Op::same, {own, place, dy, kNone}));
      }
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
  std::vector<bool> wanted(nodes_.size());  // x, the gate or a parameter is in it
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Node& n = nodes_[i];
    wanted[i] = n.op == Op::x || n.op == Op::gate || n.op == Op::parameter;
    for (const Id a : n.in) wanted[i] = wanted[i] || (a != kNone && n.op != Op::stop && wanted[std::size_t(a)]);
  }
  d.of[std::size_t(last)] = make(Op::dy);
  dparameters_.assign(parameters_.size(), kNone);
  for (Id i = last; i >= 0; --i) {
    if (d.of[std::size_t(i)] == kNone || !wanted[std::size_t(i)]) continue;
    if ((*this)[i].op == Op::x) dx_ = d.of[std::size_t(i)];
    if ((*this)[i].op == Op::gate) dgate_ = d.of[std::size_t(i)];
    if ((*this)[i].op == Op::parameter) dparameters_[std::size_t((*this)[i].index)] = d.of[std::size_t(i)];
    d.through(i);
  }
  gradients_ = std::move(d.of);
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
      names[i] = row_of(n.op).word;
    } else {
      names[i] = concat("t", ++count);
      const std::string_view word = row_of(n.op).word;
      const bool infix = Op::add <= n.op && n.op <= Op::pow;
      std::string text = infix             ? concat(part(0), " ", word, " ", part(1))
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
