#include "core/cpu/blas.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "core/random.h"

using namespace normlab;

namespace {
std::vector<float> numbers(std::int64_t n, std::uint64_t seed) {
  std::vector<float> v(static_cast<std::size_t>(n));
  const StreamKey key = stream_key(seed, "test", "blas");
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(normal(key, i));
  return v;
}

struct Product {
  std::int64_t m, n, k;
  std::vector<float> a = numbers(m * k, 1), b = numbers(k * n, 2);
  std::vector<float> compute() const {
    std::vector<float> c(static_cast<std::size_t>(m * n));
    gemm(false, false, m, n, k, 1.0f, a.data(), k, b.data(), n, 0.0f, c.data(), n);
    return c;
  }
};
std::vector<Product> products() { return {{260, 64, 64}, {65, 65, 32}, {64, 256, 260}, {7, 5, 3}}; }
}  // namespace

TEST_CASE("blas: the build of OpenBLAS is safe from several threads") {
  CHECK((blas_info().flavour == "pthread" || blas_info().flavour == "openmp"));
}

TEST_CASE("blas: the core that OpenBLAS chose is known") { CHECK(!blas_info().core.empty()); }

TEST_CASE("blas: a CPU gets the widest kernels that it has instructions for") {
  using Cores = std::vector<std::string>;
  const auto wider = [](const char* core, bool (*has)(const char*)) {
    const auto found = wider_blas_cores(core, has);
    return Cores(found.begin(), found.end());
  };
  const auto all = [](const char*) { return true; };
  const auto no_avx512 = [](const char* name) {
    return std::string_view(name).find("avx512") == std::string_view::npos;
  };
  CHECK(wider("Prescott", all).front() == "Cooperlake");
  CHECK(wider("Prescott", no_avx512).front() == "Haswell");
  CHECK(wider("Haswell", all) == Cores{"Cooperlake", "SkylakeX"});
  for (const char* same : {"Haswell", "Zen"}) CHECK(wider(same, no_avx512).empty());
  for (const char* widest : {"Cooperlake", "SapphireRapids", "NeoverseN1"}) CHECK(wider(widest, all).empty());
  CHECK(wider("Prescott", [](const char*) { return false; }).empty());
}

TEST_CASE("blas: an inherited OPENBLAS_CORETYPE is removed") {
  const char* kernels = getenv("OPENBLAS_CORETYPE");
#if defined(NORMLAB_OPENBLAS_CORE)
  REQUIRE(kernels != nullptr);  // a program for a level of x86-64 chooses its own
  CHECK(std::string_view(kernels) == NORMLAB_OPENBLAS_CORE);
#else
  CHECK(kernels == nullptr);
#endif
}

TEST_CASE("blas: products are within rounding of sums in double") {
  for (const Product& p : products()) {
    const std::vector<float> c = p.compute();
    double worst = 0.0;
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) {
        double exact = 0.0;
        for (std::int64_t l = 0; l < p.k; ++l)
          exact +=
              double(p.a[static_cast<std::size_t>(i * p.k + l)]) * double(p.b[static_cast<std::size_t>(l * p.n + j)]);
        worst = std::max(worst, std::abs(exact - double(c[static_cast<std::size_t>(i * p.n + j)])));
      }
    CHECK(worst < 1e-4);
  }
}

TEST_CASE("blas: eight callers at once get the bits of one alone") {
  for (const Product& p : products()) {
    const std::vector<float> alone = p.compute();
    std::vector<std::thread> threads;
    std::vector<int> wrong(8, 0);
    for (std::size_t t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        for (int repeat = 0; repeat < 100; ++repeat) {
          const std::vector<float> c = p.compute();
          wrong[t] += std::memcmp(c.data(), alone.data(), c.size() * sizeof(float)) != 0;
        }
      });
    for (std::thread& t : threads) t.join();
    for (const int w : wrong) CHECK(w == 0);
  }
}
