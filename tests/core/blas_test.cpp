#include "core/cpu/blas.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "core/cpu/vector_math.h"
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
        blas_thread_init();
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

TEST_CASE("vector math: within 4 ulp of double, at every length, and the same wherever an element stands") {
  struct Function {
    const char* name;
    void (*vector)(std::int64_t, const float*, float*);
    double (*exact)(double);
    double low, high;
  };
  const Function functions[] = {{"exp", cpu::vector_exp, std::exp, -80, 80},
                                {"tanh", cpu::vector_tanh, std::tanh, -10, 10},
                                {"erf", cpu::vector_erf, std::erf, -5, 5}};
  for (const Function& f : functions) {
    CAPTURE(f.name);
    constexpr std::int64_t kCount = 10007;
    std::vector<float> x(kCount), y(kCount);
    for (std::size_t i = 0; i < kCount; ++i) x[i] = static_cast<float>(f.low + (f.high - f.low) * double(i) / kCount);
    f.vector(kCount, x.data(), y.data());
    double worst = 0.0;
    for (std::size_t i = 0; i < kCount; ++i) {
      const double exact = f.exact(double(x[i]));
      const double ulp = std::max(std::abs(exact) * 0x1p-23, double(std::nextafter(0.0f, 1.0f)));
      worst = std::max(worst, std::abs(double(y[i]) - exact) / ulp);
    }
    CHECK(worst < 4.0);
    for (const std::int64_t n : {1, 3, 17, 31}) {
      std::vector<float> part(static_cast<std::size_t>(n));
      f.vector(n, x.data() + 5, part.data());
      CHECK(std::memcmp(part.data(), y.data() + 5, part.size() * sizeof(float)) == 0);
    }
  }
#if defined(__x86_64__) && defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 35)
  CHECK(std::string(cpu::vector_math_kind()).starts_with("libmvec"));  // no quiet fall back to one by one
#endif
#endif
}
