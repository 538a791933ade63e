#include "experiments/lab/cli/formula_check.h"

#include <cmath>

#include "autograd/ops.h"
#include "autograd/randn.h"
#include "core/backend.h"
#include "core/formula/program.h"
#include "core/visible_text.h"
#include "nn/model/model.h"

namespace normlab {
namespace {

constexpr std::int64_t kTokens = 2;

/// Whether the part of a formula up to term `last` is finite for x [tokens, channels], for the same gate, and for
/// initial parameters.
bool is_finite(const FormulaAt& at, std::size_t last, const Tensor& x) {
  using formula::Term;
  formula::Tree part{{at.function->tree.terms.begin(), at.function->tree.terms.begin() + std::ptrdiff_t(last) + 1}};
  const int n = int(part.terms.size());  // part + 0 x has x's axes
  part.terms.push_back({.word = "x", .axes = formula::kAllAxes, .of_x = true});
  part.terms.push_back({.number = 0});
  part.terms.push_back({.word = "*", .arguments = {n, n + 1}, .axes = formula::kAllAxes, .of_x = true});
  part.terms.push_back({.word = "+", .arguments = {n - 1, n + 2}, .axes = formula::kAllAxes, .of_x = true});
  const std::vector<formula::Parameter> declared = at.function->parameters_at(at.site);
  const formula::Programs programs(part, at.site, declared);
  Arena memory;
  Tape tape(cpu_backend(), memory);
  std::vector<Var> values;
  for (const formula::Parameter& p : declared) {
    const Tensor value = tape.empty({p.per_channel ? at.site.channels : 1}, DType::f64);
    std::fill_n(value.data<double>(), value.size(), p.value);
    values.push_back(p.learned ? tape.input(value) : Var());
  }
  const Var from = tape.input(x);
  const Tensor y = at.is_activation
                       ? elementwise(programs, from, from, values.empty() ? Tensor() : values[0].value()).value()
                       : formula_norm(programs, from, 1, values).value();
  return std::all_of(y.data<double>(), y.data<double>() + y.size(), [](double v) { return std::isfinite(v); });
}

}  // namespace

std::vector<std::string> formula_notes(const ModelConfig& model) {
  std::vector<std::string> notes;
  for (const FormulaAt& at : formulas_of(model)) {
    Arena memory;
    const formula::Tree& tree = at.function->tree;
    const Shape shape{1, kTokens, at.site.channels};
    const Tensor random = randn(memory, shape, DType::f64, 1), zeros = randn(memory, shape, DType::f64, 1, 0.0);
    const auto words = [&](std::size_t term) {
      return concat(at.name, ": ", in_quotes(formula::text_of(tree, int(term))), " of ", in_quotes(at.function->text),
                    " is infinite or no number");
    };
    for (const auto& [x, input] : {std::pair(zeros, "zeros"), {random, "a random token"}}) {
      const std::size_t last = tree.terms.size() - 1;
      if (is_finite(at, last, x)) continue;
      std::size_t first = 0;
      while (first < last && is_finite(at, first, x)) ++first;
      const formula::Term& term = tree.terms[first];
      const bool of_input = term.of_x || term.axes == formula::kAllAxes;  // of x or of the gate
      if (!of_input) throw InputError(words(first) + ", whatever x is");
      notes.push_back(concat(words(first), " for ", input));
    }
  }
  return notes;
}

}  // namespace normlab
