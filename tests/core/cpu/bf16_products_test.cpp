// oneDNN's products and the emulated ones against each other and against double, and the refusal of other CPUs.
#include "core/cpu/bf16_products.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/random.h"
#include "tests/core/cpu/bf16_choice.h"

using namespace normlab;

namespace {

float draw_value(std::uint64_t seed, std::int64_t i) {
  return float(normal(stream_key(seed, "test", "bf16"), static_cast<std::uint64_t>(i)));
}
std::vector<bf16> bf16_values(std::int64_t n, std::uint64_t seed) {
  std::vector<bf16> v(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) v[static_cast<std::size_t>(i)] = bf16(draw_value(seed, i));
  return v;
}

/// The result of `how` in double, and for each element the sum of the absolute values that went into it.
struct Result {
  std::vector<double> values, magnitudes;
};

template <class C>
Result run(Bf16Products how, const Bf16Product& p) {
  const std::int64_t lda = p.transpose_a ? p.m : p.k, ldb = p.transpose_b ? p.k : p.n;
  const std::int64_t a_size = (p.transpose_a ? p.k : p.m) * lda, b_size = (p.transpose_b ? p.n : p.k) * ldb;
  const std::vector<bf16> a = bf16_values(p.batch * a_size, 1), b = bf16_values(p.batch * b_size, 2);
  std::vector<float> bias(static_cast<std::size_t>(p.n));
  for (std::int64_t j = 0; j < p.n; ++j) bias[static_cast<std::size_t>(j)] = draw_value(3, j);
  std::vector<C> c(static_cast<std::size_t>(p.batch * p.m * p.n));
  for (std::size_t i = 0; i < c.size(); ++i) c[i] = C(draw_value(4, std::int64_t(i)));
  const std::vector<C> before = c;
  bf16_product(how, p, a.data(), b.data(), bias.data(), c.data());
  Result result;
  for (std::int64_t e = 0; e < p.batch; ++e)
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) {
        const auto at = static_cast<std::size_t>((e * p.m + i) * p.n + j);
        double exact = 0, magnitude = 0;
        const auto add = [&](double term) { exact += term, magnitude += std::abs(term); };
        for (std::int64_t l = 0; l < p.k; ++l)
          add(double(float(a[static_cast<std::size_t>(e * a_size + (p.transpose_a ? l * lda + i : i * lda + l))])) *
              double(float(b[static_cast<std::size_t>(e * b_size + (p.transpose_b ? j * ldb + l : l * ldb + j))])));
        if (p.bias) add(double(bias[static_cast<std::size_t>(j)]));
        if (p.add) add(double(float(before[at])));
        // k + 2 additions in float, in any order, each off by at most 2^-24 of what has been added up: at most (k + 2)
        // 2^-24 sum |terms|. Rounding to bf16 moves the result by at most 2^-8 of itself.
        double bound = double(p.k + 2) * 0x1p-24 * magnitude;
        if (p.to == DType::bf16) bound += 0x1p-8 * (std::abs(exact) + bound);
        CHECK(std::abs(double(float(c[at])) - exact) <= bound);
        result.values.push_back(double(float(c[at])));
        result.magnitudes.push_back(magnitude);
      }
  return result;
}

Result run(Bf16Products how, const Bf16Product& p) {
  return p.to == DType::bf16 ? run<bf16>(how, p) : run<float>(how, p);
}

const Bf16Product kProducts[] = {
    {.m = 5, .n = 7, .k = 3},
    {.m = 65, .n = 48, .k = 33, .transpose_b = true, .to = DType::bf16, .bias = true},
    {.m = 65, .n = 33, .k = 48, .to = DType::bf16, .add = true},
    {.m = 48, .n = 33, .k = 65, .transpose_a = true, .add = true},
    {.m = 64, .n = 24, .k = 845, .transpose_a = true, .add = true},  // sums in pieces, which must not be rounded
    {.m = 17, .n = 20, .k = 1536, .transpose_b = true, .to = DType::bf16},
    {.m = 9, .n = 9, .k = 16, .batch = 3, .transpose_b = true},
    {.m = 9, .n = 16, .k = 9, .batch = 3, .transpose_a = true},
    {.m = 4, .n = 10, .k = 1, .to = DType::bf16, .bias = true},
    {.m = 1, .n = 1, .k = 5},
};

}  // namespace

TEST_CASE("bf16 products: emulated ones are right within float sums and one rounding") {
  for (const Bf16Product& p : kProducts) run(Bf16Products::emulated, p);
}

TEST_CASE("bf16 products: oneDNN's equal the emulated ones up to the order of float sums") {
  SKIP_WITHOUT_NATIVE_BF16();
  for (const Bf16Product& p : kProducts) {
    CAPTURE(p.m);
    CAPTURE(p.n);
    CAPTURE(p.k);
    const Result native = run(Bf16Products::native, p), emulated = run(Bf16Products::emulated, p);
    int different = 0;
    for (std::size_t i = 0; i < native.values.size(); ++i) {
      // Twice the error of one. Sums that differ so little are rounded alike, or to two neighbours, 2^-7 apart at most.
      double bound = 2 * double(p.k + 2) * 0x1p-24 * native.magnitudes[i];
      if (p.to == DType::bf16 && native.values[i] != emulated.values[i])
        ++different, bound += 0x1p-7 * std::abs(native.values[i]);
      CHECK(std::abs(native.values[i] - emulated.values[i]) <= bound);
    }
    CHECK(different <= 1 + int(native.values.size()) / 50);
  }
}

TEST_CASE("bf16 products: a primitive is made once") {
  SKIP_WITHOUT_NATIVE_BF16();
  const Bf16Product p{.m = 11, .n = 13, .k = 19};
  const std::int64_t before = bf16_primitives_made();
  bf16_prepare(p);
  CHECK(bf16_primitives_made() == before + 1);
  bf16_prepare(p);
  run(Bf16Products::native, p);
  CHECK(bf16_primitives_made() == before + 1);
}

TEST_CASE("bf16 products: a CPU without the instructions is refused with a way out") {
  CHECK_THROWS_WITH_AS(
      require_native_bf16([](const char*) { return false; }),
      "\"precision\": \"bf16\" needs an x86-64 CPU with AVX512-BF16 or AMX-BF16, and this one has "
      "neither; use \"bf16_emulated\", which rounds at the same places on any CPU, but is slower than \"fp32\"",
      EnvironmentError);
}

TEST_CASE("bf16 products: a CPU with either set of instructions is accepted") {
  CHECK_NOTHROW(require_native_bf16([](const char* name) { return std::string(name) == "avx512bf16"; }));
  CHECK_NOTHROW(require_native_bf16([](const char* name) { return std::string(name) == "amx-bf16"; }));
}
