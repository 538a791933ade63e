// Norms that the CPU computes by the programs of their formulas, as it does those of users.
#include <atomic>

#include "core/cpu/cpu_backend.h"
#include "core/formula/program.h"

namespace normlab {
namespace {

constexpr std::string_view kTanh = "gamma * tanh(alpha * x) + beta";
constexpr std::string_view kShiftedTanh = "gamma * tanh(alpha * x + shift) + beta";
constexpr std::string_view kBhyt = "gamma * tanh(alpha * x / (kappa * rms(x)))";

/// The programs of a formula for rows of this width, where kappa is a constant. They are made once, or by several
/// threads at once, and kept. No kernel takes a lock, so they are a list that only grows.
const formula::Programs& programs_of(std::string_view text, std::int64_t cols, double eps = 0, double kappa = 0) {
  struct Known {
    std::tuple<std::string_view, std::int64_t, double, double> key;
    formula::Programs programs;
    const Known* next;
  };
  static std::atomic<const Known*> last{nullptr};
  const std::tuple key{text, cols, eps, kappa};
  for (const Known* known = last; known; known = known->next)
    if (known->key == key) return known->programs;
  constexpr formula::Name kNames[] = {
      {"alpha"}, {"shift"}, {"gamma", formula::kChannel}, {"beta", formula::kChannel}, {"kappa"}};
  const std::vector<formula::Parameter> parameters{
      {"alpha"}, {"shift"}, {"gamma", true}, {"beta", true}, {"kappa", false, false, kappa}};
  const formula::Site site{.channels = cols, .eps = eps};
  Known* const made = new Known{key, {formula::parse(text, kNames), site, parameters}, last};
  while (!last.compare_exchange_weak(made->next, made)) continue;
  return made->programs;
}
const formula::Programs& tanh_programs(const Tensor& x, const Tensor& shift) {
  return programs_of(shift ? kShiftedTanh : kTanh, x.shape().back());
}

FormulaDims dims_of(const Tensor& x) { return {1, x.shape().rows(), x.shape().back()}; }
FormulaForward forward(const formula::Programs& programs, const NormForward& n, Tensor alpha, Tensor shift = {}) {
  return {.programs = &programs, .x = n.x, .y = n.y, .lasting = n.rstd, .parameters = {alpha, shift, n.gamma, n.beta}};
}
FormulaBackward backward(const FormulaForward& f, const NormBackward& n, Gradient dalpha, Gradient dshift = {}) {
  return {.forward = f, .dy = n.dy, .dx = n.dx, .dparameters = {dalpha, dshift, n.dgamma, n.dbeta}};
}

}  // namespace

void CpuBackend::tanh_norm(const NormForward& n, Tensor alpha, Tensor shift) {
  formula(dims_of(n.x), forward(tanh_programs(n.x, shift), n, alpha, shift));
}
void CpuBackend::tanh_norm_backward(const NormBackward& n, Tensor alpha, Tensor shift, Gradient dalpha,
                                    Gradient dshift) {
  const NormForward kept{.x = n.x, .gamma = n.gamma};
  formula_backward(dims_of(n.x), backward(forward(tanh_programs(n.x, shift), kept, alpha, shift), n, dalpha, dshift));
}

std::int64_t CpuBackend::kept_by_bhyt(NormDims d, double kappa) const {
  return programs_of(kBhyt, d.cols, d.eps, kappa).lasting_size(1, d.rows);
}
void CpuBackend::bhyt(NormDims d, double kappa, const NormForward& n, Tensor alpha) {
  formula(dims_of(n.x), forward(programs_of(kBhyt, d.cols, d.eps, kappa), n, alpha));
}
void CpuBackend::bhyt_backward(NormDims d, double kappa, const NormBackward& n, Tensor alpha, Gradient dalpha) {
  const NormForward kept{.x = n.x, .gamma = n.gamma, .rstd = n.rstd};
  formula_backward(dims_of(n.x), backward(forward(programs_of(kBhyt, d.cols, d.eps, kappa), kept, alpha), n, dalpha));
}

}  // namespace normlab
