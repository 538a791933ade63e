// One row of the table of operations on a device, in any type.
#pragma once

#include <vector>

#include "autograd/randn.h"
#include "core/backend.h"
#include "experiments/lab/bench/op_cases.h"
#include "tests/devices.h"

namespace normlab {

inline double value(const Tensor& t, std::int64_t i) {
  return t.dtype() == DType::f64   ? t.data<double>()[i]
         : t.dtype() == DType::f32 ? double(t.data<float>()[i])
                                   : double(float(t.data<bf16>()[i]));
}

/// The result, then the gradient of each input.
using CaseResults = std::vector<std::vector<double>>;

/// Images of all activations, from `first` to `end`.
struct Images {
  std::int64_t first = 0, end = 0;  // 0: all
};

/// `how` computes the row's result. All types get numbers that bf16 can hold, so that only the kernels differ.
inline CaseResults run_case(const TestDevice& device, const OpCase& row, const OpCase::Build& how, DType type,
                            const Images& images = {}) {
  Arena memory(device.memory()), tape_memory(device.memory());
  Tape tape(type == DType::bf16 ? device.backend.with_bf16(device.bf16) : device.backend, tape_memory);
  std::uint64_t seed = 6;
  const auto drawn = [&](const OpInput& in, DType to) {
    const Tensor from = randn(memory, in.shape, DType::f64, ++seed, in.std, in.mean), t = memory.empty(in.shape, to);
    for (std::int64_t i = 0; i < t.size(); ++i) {
      const auto rounded = float(bf16(float(from.data<double>()[i])));
      if (to == DType::f64)
        t.data<double>()[i] = double(rounded);
      else if (to == DType::f32)
        t.data<float>()[i] = rounded;
      else
        t.data<bf16>()[i] = bf16(rounded);
    }
    return t;
  };
  const auto some = [&](const Tensor& t) { return images.end ? t.slice(images.first, images.end - images.first) : t; };
  std::vector<Var> inputs;
  for (const OpInput& in : row.activations) inputs.push_back(tape.input(some(drawn(in, type)), true));
  for (const OpInput& in : row.parameters) inputs.push_back(tape.input(drawn(in, acc_of(type)), true));
  const Var y = how(inputs);
  seed = 98;
  tape.backward(y, images.end ? some(drawn({row.activations[0].shape, 0.0, 1.0}, type))
                              : drawn({y.shape(), 0.0, 1.0}, y.value().dtype()));
  device.backend.synchronize();
  CaseResults results(1 + inputs.size());
  for (std::int64_t i = 0; i < y.value().size(); ++i) results[0].push_back(value(y.value(), i));
  for (std::size_t k = 0; k < inputs.size(); ++k)
    for (std::int64_t i = 0; i < inputs[k].value().size(); ++i)
      results[k + 1].push_back(inputs[k].grad() ? value(inputs[k].grad(), i) : 0.0);
  return results;
}

/// The largest difference, over the largest number.
inline double difference(const std::vector<double>& got, const std::vector<double>& wanted) {
  double most = got.size() == wanted.size() ? 0.0 : 1.0, scale = 1e-30;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double apart = std::abs(got[i] - wanted[i]);
    most = apart <= most ? most : apart;  // NaN stays
    scale = std::max(scale, std::abs(wanted[i]));
  }
  return most / scale;
}

}  // namespace normlab
