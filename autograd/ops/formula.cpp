// Norms and activations that their users give by a formula.
#include "autograd/ops.h"
#include "core/backend.h"
#include "core/formula/program.h"

namespace normlab {
namespace {

/// If the tape is guarded: calls the operation by what of its formula is NaN first.
void name_nan(Tape& tape, const char* op, const FormulaDims& dims, const FormulaBackward& input) {
  if (!tape.guarded()) return;
  if (const std::string part = tape.backend().first_nan(dims, input); !part.empty())
    tape.call(concat(op, " (NaN first in ", part, ")"));
}

}  // namespace

Var formula_norm(const formula::Programs& programs, const Var& x, std::int64_t images,
                 std::span<const Var> parameters) {
  const std::int64_t rows = x.shape().rows(), cols = x.shape().back();
  if (images < 1 || rows % images != 0)
    throw InputError(concat("formula_norm: ", images, " images do not divide ", rows, " tokens"));
  if (cols != programs.graph.site().channels || parameters.size() != programs.parameters.size())
    throw InputError(concat("formula_norm: made for ", programs.graph.site().channels, " channels and ",
                            programs.parameters.size(), " parameters, got ", cols, " and ", parameters.size()));
  const FormulaDims dims{images, rows / images, cols};
  Tape& tape = x.tape();
  FormulaForward args{.programs = &programs, .x = x.value(), .y = tape.empty_like(x.value())};
  std::array<Var, kMostFormulaParameters> values;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const formula::Parameter& parameter = programs.parameters[p];
    if (!parameter.learned) continue;
    require_shape("formula_norm", parameter.name.c_str(), parameters[p].shape(), {parameter.per_channel ? cols : 1});
    args.parameters[p] = parameters[p].value();
    values[p] = parameters[p];
  }
  if (const std::int64_t lasting = programs.lasting_size(dims.images, rows); lasting > 0)
    args.lasting = tape.empty_acc(x.value(), {lasting});
  tape.backend().formula(dims, args);
  name_nan(tape, "formula", dims, {.forward = args});
  const auto& [a, b, c, d, e, f, g] = values;
  return tape.record("formula", {x, a, b, c, d, e, f, g}, args.y,
                     [=](Backend& backend, const Tensor& dy, Grads& gradients) {
                       FormulaBackward back{.forward = args, .dy = dy, .dx = gradients[0]};
                       for (std::size_t p = 0; p < kMostFormulaParameters; ++p)
                         if (args.parameters[p]) back.dparameters[p] = gradients[int(p) + 1];
                       backend.formula_backward(dims, back);
                       name_nan(gradients.of(), "formula", dims, back);
                     });
}

Var elementwise(const formula::Programs& programs, const Var& x, const Var& gate, Tensor progress, const char* op) {
  const FormulaDims dims{1, x.shape().rows(), x.shape().back()};
  require_shape("elementwise", "x", x.shape(), with_back(x.shape(), programs.graph.site().channels));
  if (gate) require_shape("elementwise", "gate", gate.shape(), x.shape());
  Tape& tape = x.tape();
  const Saved saved = tape.save(x), saved_gate = gate ? tape.save(gate) : saved;
  const std::int64_t kept = programs.lasting_size(dims.images, dims.rows);
  const Tensor lasting = kept > 0 ? tape.empty_acc(x.value(), {kept}) : Tensor();
  const auto args = [=, all = &programs, gated = bool(gate)](const Tensor& y) {
    FormulaForward out{.programs = all, .x = saved.value(), .y = y, .lasting = lasting};
    if (gated) out.gate = saved_gate.value();
    out.parameters[0] = progress;
    return out;
  };
  const FormulaForward first = args(tape.empty_like(x.value()));
  tape.backend().formula(dims, first);
  name_nan(tape, op, dims, {.forward = first});
  const Var out = tape.record(op, {x, gate}, first.y, [=](Backend& backend, const Tensor& dy, Grads& gradients) {
    const FormulaBackward back{.forward = args(Tensor()), .dy = dy, .dx = gradients[0], .dgate = gradients[1]};
    backend.formula_backward(dims, back);
    name_nan(gradients.of(), op, dims, back);
  });
  tape.can_remake(out, [=](Backend& backend, const Tensor& again) { backend.formula(dims, args(again)); });
  return out;
}

}  // namespace normlab
