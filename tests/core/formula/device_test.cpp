// Formulas on GPUs, whose kernels are generated: the emulation has those of tests/cuda_emulation/formulas.h.
#include <doctest/doctest.h>

#include "tests/core/formula/case.h"
#include "tests/cuda_emulation/formulas.h"
#include "tests/devices.h"

namespace normlab::formula {
namespace {

/// Compares with the CPU, and in double with finite differences, too.
void check_formulas(bool more) {
  int alone = 0;
  on_each_device([&] {
    const TestDevice& device = current_device();
    if (!device.backend.whole_batch()) return;
    std::uint64_t seed = 0;
    for (const TestFormula& f : test_formulas(more)) {
      CAPTURE(f.text);
      CAPTURE(to_string(f.dtype));
      CAPTURE(f.sizes.channels);
      Case c(f.tree(), f.sizes, 100 + 10 * ++seed, f.parameters);
      const std::vector<Values> wanted = c.run(f.dtype), got = c.run(f.dtype, device.backend);
      const double rounding = f.dtype == DType::f64 ? 1e-11 : f.dtype == DType::f32 ? 2e-5 : 1.0 / 250;
      const bool tame = is_tame(c.value());
      for (std::size_t k = 0; k < wanted.size(); ++k) {
        CAPTURE(k);
        if (tame) CHECK(difference(got[k], wanted[k]) < (k < 2 ? rounding : f.dtype == DType::f64 ? 1e-11 : 1e-4));
      }
      alone += f.dtype == DType::f64 && agrees(c, 1 + c.in[0].size() / 50, device.backend);
    }
  });
  CHECK(alone > (more ? 20 : 5));
}

}  // namespace

TEST_CASE("cuda: formulas have the CPU's values and gradients like finite differences") { check_formulas(false); }
TEST_CASE("cuda: a formula gives NaN and ties where the CPU does") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  on_each_device([&] {
    Backend& backend = current_device().backend;
    if (!backend.whole_batch()) return;
    for (const TestFormula& f : edge_formulas()) {
      CAPTURE(f.text);
      Case c(f.tree(), f.sizes, 1, f.parameters);
      for (std::size_t i = 0; i < c.in[0].size(); ++i) c.in[0][i] = double(i % 7) - 3;  // equal ones, and 0
      c.in[0][5] = nan;
      const std::vector<Values> wanted = c.run(f.dtype), got = c.run(f.dtype, backend);
      for (std::size_t k = 0; k < wanted.size(); ++k)
        for (std::size_t i = 0; i < wanted[k].size(); ++i) {
          CAPTURE(k);
          CAPTURE(i);
          if (std::isnan(wanted[k][i]))
            CHECK(std::isnan(got[k][i]));
          else if (std::isinf(wanted[k][i]))
            CHECK(got[k][i] == wanted[k][i]);
          else
            CHECK(got[k][i] == doctest::Approx(wanted[k][i]).epsilon(1e-12));
        }
    }
  });
}

TEST_CASE("cuda: the part of a formula that is NaN first is named") {
  on_each_device([] {
    Backend& backend = current_device().backend;
    const Programs programs(tree_of("log(x) + sqrt(x - 2) * x", {}), {.channels = 3}, {});
    Arena memory(backend.memory());
    const Tensor x = memory.empty({1, 6, 3}, DType::f64);
    std::fill_n(x.data<double>(), 18, 1.0);
    CHECK(backend.first_nan({1, 6, 3}, {.forward = {.programs = &programs, .x = x}}) == "sqrt(x - 2)");
  });
}

TEST_CASE("cuda: two hundred random formulas" * doctest::skip()) { check_formulas(true); }

}  // namespace normlab::formula
