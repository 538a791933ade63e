// A formula on some x with some parameters and some gradient of its result, in double.
#pragma once

#include <algorithm>

#include "autograd/ops.h"
#include "core/backend.h"
#include "core/formula/program.h"
#include "tests/autograd/case_run.h"
#include "tests/core/formula/interpreter.h"

namespace normlab::formula {

struct Case {
  Tree tree;
  Sizes sizes;
  Site site;
  std::vector<Parameter> parameters;
  std::vector<Values> in;  // x, then the parameters
  Values dy;

  Case(Tree of, const Sizes& s, std::uint64_t seed, const std::vector<Parameter>& given = kParameters)
      : tree(std::move(of)),
        sizes(s),
        site{.channels = s.channels, .tokens = s.tokens, .depth = 12, .block = 3},
        parameters(given) {
    Arena memory;
    const auto drawn = [&](std::int64_t n, double std, double mean) {
      const Tensor t = randn(memory, {n}, DType::f64, ++seed, std, mean);
      return Values(t.data<double>(), t.data<double>() + n);
    };
    in.push_back(drawn(s.size(), 1.0, 0.2));
    for (const Parameter& p : given) in.push_back(drawn(p.per_channel ? s.channels : 1, 0.3, p.value));
    dy = drawn(s.size(), 1.0, 0.0);
  }
  Values value() const {
    std::map<std::string, Values> named;
    for (std::size_t p = 0; p < parameters.size(); ++p) named[parameters[p].name] = in[p + 1];
    return interpret(tree, sizes, site, in[0], named);
  }
  /// y, then the gradients of x and the parameters, by the programs.
  std::vector<Values> run(DType type, Backend& backend = cpu_backend().with_bf16(Bf16Products::emulated)) const {
    const Programs programs(tree, site, parameters);
    Arena memory(backend.memory()), tape_memory(backend.memory());
    Tape tape(backend, tape_memory);
    const auto tensor = [&](const Values& v, const Shape& shape, DType to) {
      const Tensor t = memory.empty(shape, to);
      for (std::size_t i = 0; i < v.size(); ++i)
        if (to == DType::f64)
          t.data<double>()[i] = v[i];
        else if (to == DType::f32)
          t.data<float>()[i] = float(v[i]);
        else
          t.data<bf16>()[i] = bf16(v[i]);
      return t;
    };
    const Shape shape{sizes.images, sizes.tokens, sizes.channels};
    std::vector<Var> leaves{tape.input(tensor(in[0], shape, type), true)};
    for (std::size_t p = 1; p < in.size(); ++p)
      leaves.push_back(tape.input(tensor(in[p], {std::int64_t(in[p].size())}, acc_of(type)), true));
    const Var y = formula_norm(programs, leaves[0], sizes.images, std::span(leaves).subspan(1));
    tape.backward(y, tensor(dy, shape, type));
    backend.synchronize();
    std::vector<Values> out(1);
    for (std::int64_t i = 0; i < sizes.size(); ++i) out[0].push_back(normlab::value(y.value(), i));
    for (const Var& leaf : leaves) {
      out.emplace_back();
      for (std::int64_t i = 0; i < leaf.value().size(); ++i) out.back().push_back(normlab::value(leaf.grad(), i));
    }
    return out;
  }
  double loss() const {
    const Values y = value();
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
    return sum;
  }
  /// The derivative of dy . y by element i of input k; NaN near kinks and poles, where differences do not converge.
  double slope(std::size_t k, std::size_t i, double& error) {
    double& at = in[k][i];
    const double before = at;
    const auto central = [&](double h) {
      at = before + h;
      const double right = loss();
      at = before - h;
      const double left = loss();
      at = before;
      return (right - left) / (2 * h);
    };
    const double wide = central(2e-5), near = central(1e-5);
    error = std::abs(wide - near);
    return near;
  }
};

inline double largest(const Values& v) {
  double most = 0;
  for (const double e : v) most = std::isfinite(e) ? std::max(most, std::abs(e)) : e;
  return most;
}

/// Whether x and the parameters are a point that values and differences can be compared at.
inline bool is_tame(const Values& y) {
  return std::all_of(y.begin(), y.end(), [](double e) { return std::abs(e) < 1e4; });
}

/// Compares a formula with the interpreter. False: x lies near a kink or a pole.
inline bool agrees(Case& c, std::size_t every, Backend& backend = cpu_backend()) {
  const Values y = c.value();
  if (!is_tame(y)) return false;
  const std::vector<Values> got = c.run(DType::f64, backend);
  const double scale = std::max(1.0, largest(y));
  for (std::size_t i = 0; i < y.size(); ++i)
    if (!(std::abs(got[0][i] - y[i]) <= 1e-11 * scale)) {
      CAPTURE(i);
      CAPTURE(got[0][i]);
      CHECK(got[0][i] == y[i]);
      return true;
    }
  for (std::size_t k = 0; k < c.in.size(); ++k) {
    const double most = std::max(largest(got[k + 1]), 1e-3);
    for (std::size_t i = 0; i < c.in[k].size(); i += every) {
      double error = 0;
      const double wanted = c.slope(k, i, error);
      if (!(error < 3e-7 * std::max(most, std::abs(wanted)))) return false;
      if (std::abs(got[k + 1][i] - wanted) <= 1e-6 * most) continue;
      CAPTURE(k);
      CAPTURE(i);
      CHECK(got[k + 1][i] == wanted);
      return true;
    }
  }
  return true;
}

}  // namespace normlab::formula
