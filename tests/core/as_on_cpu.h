// Operations on every device against the CPU's, in every type, written and added.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "autograd/randn.h"
#include "tests/devices.h"

namespace normlab {

/// One run of some operations on a device; inputs depend on their order alone. Tensors begin `shift` values behind what
/// an arena gives.
class Run {
 public:
  Run(Backend& on, DType type, Write how, std::int64_t shift) : backend(on), type_(type), write_(how), shift_(shift) {}

  Tensor in(const Shape& shape) { return drawn(shape, type_); }
  Tensor parameter(const Shape& shape) { return drawn(shape, acc_of(type_)); }
  Tensor out(const Shape& shape) { return kept(empty(shape, type_)); }
  Tensor parameter_out(const Shape& shape) { return kept(empty(shape, acc_of(type_))); }
  Gradient gradient(const Shape& shape) { return {kept(in(shape)), write_}; }
  Gradient parameter_gradient(const Shape& shape) { return {kept(parameter(shape)), write_}; }
  Tensor mask(const Shape& shape) {
    const Tensor t = empty(shape, DType::u8);
    for (std::int64_t i = 0; i < t.size(); ++i) t.data<std::uint8_t>()[i] = i % 3 != 1;
    return t;
  }
  /// Memory that the device sees, never shifted.
  Tensor memory(const Shape& shape, DType type) { return arena_.empty(shape, type); }
  /// Also into what results() gives.
  Tensor kept(const Tensor& t) { return kept_.emplace_back(t); }
  std::vector<double> results() {
    backend.synchronize();
    std::vector<double> all;
    for (const Tensor& t : kept_)
      for (std::int64_t i = 0; i < t.size(); ++i)
        all.push_back(t.dtype() == DType::bf16  ? double(float(t.data<bf16>()[i]))
                      : t.dtype() == DType::f32 ? double(t.data<float>()[i])
                                                : t.data<double>()[i]);
    return all;
  }
  Backend& backend;

 private:
  Tensor empty(const Shape& shape, DType type) {
    const Tensor all = arena_.empty({shape.size() + shift_}, type);
    return all.slice(shift_, shape.size()).reshape(shape);
  }
  Tensor drawn(const Shape& shape, DType type) {
    const Tensor all = randn(arena_, {shape.size() + shift_}, type, ++seed_);
    return all.slice(shift_, shape.size()).reshape(shape);
  }
  DType type_;
  Write write_;
  std::int64_t shift_;
  Arena arena_{backend.memory()};
  std::vector<Tensor> kept_;
  std::uint64_t seed_ = 0;
};

inline void as_on_cpu(const std::function<void(Run&)>& operations, std::int64_t shift = 0) {
  on_each_device([&] {
    for (const DType type : {DType::f32, DType::f64, DType::bf16})
      for (const Write how : {Write::assign, Write::add}) {
        Run here(current_device().backend, type, how, shift), there(cpu_backend(), type, how, shift);
        operations(here);
        operations(there);
        const std::vector<double> got = here.results(), expected = there.results();
        CAPTURE(to_string(type));
        CAPTURE((how == Write::add));
        REQUIRE(got.size() == expected.size());
        const double within = type == DType::f64 ? 1e-13 : type == DType::f32 ? 1e-5 : 0x1p-8;
        for (std::size_t i = 0; i < got.size(); ++i) {
          if (std::abs(got[i] - expected[i]) <= within * (1 + std::abs(expected[i]))) continue;
          CAPTURE(i);
          CHECK(got[i] == expected[i]);
        }
      }
  });
}

}  // namespace normlab
