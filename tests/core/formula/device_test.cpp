// Formulas on GPUs, whose kernels are generated: the emulation has those of tests/cuda_emulation/formulas.h.
#include <doctest/doctest.h>

#include <optional>
#include <stdexcept>

#include "cuda/nvrtc.h"
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

TEST_CASE("NVRTC: a missing library is named with what to install") {
  std::string message;
  try {
    Nvrtc none(99);
  } catch (const EnvironmentError& error) {
    message = error.what();
  }
  CHECK_MESSAGE(message.starts_with("--device cuda: NVRTC, which compiles formulas, cannot be loaded ("), message);
  CHECK_MESSAGE(
      message.find("install libnvrtc99 or cuda-nvrtc-99-0, or `pip install nvidia-cuda-nvrtc`") != message.npos,
      message);
}

TEST_CASE("NVRTC: it compiles formulas to machine code, and its words tell what is wrong") {
  std::optional<Nvrtc> nvrtc;
  try {
    nvrtc.emplace(13);
  } catch (const EnvironmentError& error) {
    MESSAGE("skipped: ", error.what());
    return;
  }
  CHECK(nvrtc->words().starts_with("13."));
  CHECK(nvrtc->words().ends_with(" --fmad=false -std=c++17"));
  const std::vector<TestFormula> all = test_formulas(), activations = elementwise_formulas();
  std::vector<std::pair<TestFormula, bool>> some{{all[0], true}, {all[17], false}, {all[all.size() / 2], true}};
  for (const TestFormula& f : activations)
    if (f.dtype == DType::bf16 && (f.sizes.channels == 96 || f.text == kExclusive)) some.emplace_back(f, true);
  for (const auto& [f, backward] : some) {
    const auto& shown = f.text;
    CAPTURE(shown);
    const Programs programs(f.tree(), f.site, f.parameters);
    const CudaSource source = cuda_source(programs, backward, f.dtype, f.vector());
    const std::vector<char> code = nvrtc->machine_code(source.text, 9, 0);
    REQUIRE(code.size() > 4);
    CHECK(std::string(code.data() + 1, 3) == "ELF");
  }
  CHECK_THROWS_AS(nvrtc->machine_code("int one = ;", 9, 0), std::logic_error);
  CHECK_THROWS_AS(nvrtc->machine_code("", 3, 0), EnvironmentError);
}

TEST_CASE("cuda: two hundred random formulas" * doctest::skip()) { check_formulas(true); }

}  // namespace normlab::formula
