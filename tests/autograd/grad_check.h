// Checks gradients against finite differences by random projection (after HIPS autograd's check): for random directions
// u and v, u^T J v must agree with the central difference of u^T f along v.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/randn.h"
#include "autograd/tape.h"
#include "core/backend.h"
#include "core/error.h"
#include "core/random.h"

namespace normlab {

struct GradCheckReport {
  double max_error = 0.0;  // largest |analytic - numeric| / (1 + |numeric|) over inputs and directions
  std::string worst;       // "input 1, direction 0: analytic 0.3, numeric 0.2"
};

/// `f` builds one output from leaves on the given tape. `inputs` are f64 tensors in the backend's memory. Each is
/// checked separately, in several directions and along up to `elements` single elements.
inline GradCheckReport grad_check(Backend& backend, const std::function<Var(Tape&, const std::vector<Var>&)>& f,
                                  std::vector<Tensor> inputs, std::uint64_t seed, int directions = 3,
                                  int elements = 4) {
  Arena memory(backend.memory()), tape_memory(backend.memory());
  Tape tape(backend, tape_memory);
  const auto run = [&] {
    tape.reset();
    std::vector<Var> leaves;
    for (const Tensor& t : inputs) leaves.push_back(tape.input(t, true));
    std::pair result(f(tape, leaves), leaves);
    backend.synchronize();
    return result;
  };
  const auto dot = [](const Tensor& a, const Tensor& b) {
    double total = 0.0;
    for (std::int64_t i = 0; i < a.size(); ++i) total += a.data<double>()[i] * b.data<double>()[i];
    return total;
  };
  GradCheckReport report;
  constexpr double kStep = 1e-5;
  // One projection u of the output for all inputs: backward() with the seed u gives its gradient in each input.
  const Var first = run().first;
  const Tensor u = randn(memory, first.shape(), DType::f64, seed);
  auto [output, leaves] = run();
  tape.backward(output, u);
  backend.synchronize();
  std::vector<Tensor> gradients;
  for (const Var& leaf : leaves) {
    Tensor copy = memory.empty(leaf.shape(), DType::f64);
    for (std::int64_t i = 0; i < copy.size(); ++i)
      copy.data<double>()[i] = leaf.grad() ? leaf.grad().data<double>()[i] : 0.0;
    gradients.push_back(copy);
  }
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    double* x = inputs[k].data<double>();
    const std::int64_t n = inputs[k].size();
    const std::vector<double> saved(x, x + n);
    for (int j = 0; j < directions + elements; ++j) {
      Tensor v = randn(memory, inputs[k].shape(), DType::f64, seed + 1000 * (k + 1) + static_cast<std::uint64_t>(j));
      if (j >= directions) {
        const auto word = draw(stream_key(seed, "test", "element"), static_cast<std::uint64_t>(j) + 100 * k)[0];
        const auto hit = static_cast<std::int64_t>(below(word, static_cast<std::uint32_t>(n)));
        for (std::int64_t i = 0; i < n; ++i) v.data<double>()[i] = i == hit;
      }
      const auto value_at = [&](double step) {
        for (std::int64_t i = 0; i < n; ++i) x[i] = saved[static_cast<std::size_t>(i)] + step * v.data<double>()[i];
        return dot(run().first.value(), u);
      };
      const double numeric = (value_at(kStep) - value_at(-kStep)) / (2 * kStep);
      std::copy(saved.begin(), saved.end(), x);
      const double analytic = dot(gradients[k], v);
      const double error = std::abs(analytic - numeric) / (1 + std::abs(numeric));
      if (!(error <= report.max_error)) {  // also catches NaN
        report.max_error = error;
        report.worst = concat("input ", k, ", direction ", j, ": analytic ", analytic, ", numeric ", numeric);
      }
    }
  }
  return report;
}

}  // namespace normlab
