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
}  // namespace

TEST_CASE("blas: a build that is safe from several threads, with its core named") {
  CHECK((blas_info().flavour == "pthread" || blas_info().flavour == "openmp"));
  CHECK(!blas_info().core.empty());
  CHECK(getenv("OPENBLAS_CORETYPE") == nullptr);  // what was inherited is gone
}

TEST_CASE("blas: eight callers at once get the bits of one alone") {
  struct Size {
    std::int64_t m, n, k;
  };
  constexpr Size kSizes[] = {{260, 64, 64}, {65, 65, 32}, {64, 256, 260}, {7, 5, 3}};
  for (const Size s : kSizes) {
    const std::vector<float> a = numbers(s.m * s.k, 1), b = numbers(s.k * s.n, 2);
    std::vector<float> alone(static_cast<std::size_t>(s.m * s.n));
    const auto product = [&](std::vector<float>& c) {
      gemm(false, false, s.m, s.n, s.k, 1.0f, a.data(), s.k, b.data(), s.n, 0.0f, c.data(), s.n);
    };
    product(alone);
    double worst = 0.0;
    for (std::int64_t i = 0; i < s.m; ++i)
      for (std::int64_t j = 0; j < s.n; ++j) {
        double exact = 0.0;
        for (std::int64_t l = 0; l < s.k; ++l)
          exact += double(a[static_cast<std::size_t>(i * s.k + l)]) * double(b[static_cast<std::size_t>(l * s.n + j)]);
        worst = std::max(worst, std::abs(exact - double(alone[static_cast<std::size_t>(i * s.n + j)])));
      }
    CHECK(worst < 1e-4);
    std::vector<std::thread> threads;
    std::vector<int> wrong(8, 0);
    for (std::size_t t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        std::vector<float> c(alone.size());
        for (int repeat = 0; repeat < 100; ++repeat) {
          product(c);
          wrong[t] += std::memcmp(c.data(), alone.data(), c.size() * sizeof(float)) != 0;
        }
      });
    for (std::thread& t : threads) t.join();
    for (const int w : wrong) CHECK(w == 0);
  }
}
