// Norms that their users give by a formula.
#include "autograd/ops.h"
#include "core/backend.h"
#include "core/formula/program.h"

namespace normlab {

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
  const auto name = [=](Tape& on, const FormulaBackward& input) {
    if (!on.guarded()) return;
    if (const std::string part = on.backend().first_nan(dims, input); !part.empty())
      on.call(concat("formula (NaN first in ", part, ")"));
  };
  name(tape, {.forward = args});
  const auto& [a, b, c, d, e, f, g] = values;
  const Var y = tape.record("formula", {x, a, b, c, d, e, f, g}, args.y,
                            [=](Backend& backend, const Tensor& dy, Grads& gradients) {
                              FormulaBackward back{.forward = args, .dy = dy, .dx = gradients[0]};
                              for (std::size_t p = 0; p < kMostFormulaParameters; ++p)
                                if (args.parameters[p]) back.dparameters[p] = gradients[int(p) + 1];
                              backend.formula_backward(dims, back);
                              name(gradients.of(), back);
                            });
  return y;
}

}  // namespace normlab
