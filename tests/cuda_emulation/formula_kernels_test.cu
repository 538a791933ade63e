// Kernels of formulas are found again by their text.
#include "cuda/formula_kernels.h"

#include <doctest/doctest.h>

#include "tests/cuda_emulation/formulas.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

TEST_CASE("cuda: formulas of equal text have one kernel, and the text is kept once") {
  const formula::TestFormula f = formula::elementwise_formulas().front();
  const formula::Programs one(f.tree(), f.site, f.parameters), two(f.tree(), f.site, f.parameters);
  FormulaKernels kernels;
  const FormulaKernels::Compiled& found = kernels.of(one, false, f.dtype, f.vector());
  CHECK(found.source.text.empty());
  CHECK(found.source.threads > 0);
  CHECK(&kernels.of(one, false, f.dtype, f.vector()) == &found);
  CHECK(&kernels.of(two, false, f.dtype, f.vector()) == &found);
  CHECK(&kernels.of(two, true, f.dtype, f.vector()) != &found);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
