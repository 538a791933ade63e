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
TEST_CASE("cuda: two hundred random formulas" * doctest::skip()) { check_formulas(true); }

}  // namespace normlab::formula
