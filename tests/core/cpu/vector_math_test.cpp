#include "core/cpu/vector_math.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/cpu/vector_exp.h"
#include "core/float_control.h"
#include "core/shards.h"

using namespace normlab;
using namespace normlab::cpu;

namespace {

/// Denormals as the hardware starts with them, or flushed as in every worker, until the end of the scope.
class DenormalMode {
 public:
  explicit DenormalMode(bool flush) {
    set_float_control(kFloatControlAtStart);
    if (flush) flush_denormals();
  }
  ~DenormalMode() { set_float_control(before_); }

 private:
  const std::uint64_t before_ = float_control();
};

// The references are wider than what they judge: double for float, long double for double.
template <class T>
struct Wide {
  using type = double;
  using bits = std::uint32_t;
};
template <>
struct Wide<double> {
  using type = long double;
  using bits = std::uint64_t;
};

template <class T>
struct Function {
  const char* name;
  void (*vector)(std::int64_t, const T*, T*);
  typename Wide<T>::type (*exact)(typename Wide<T>::type);
};
template <class T>
std::vector<Function<T>> functions() {
  return {{"exp", cpu::vector_exp, std::exp},
          {"tanh", cpu::vector_tanh, std::tanh},
          {"erf", cpu::vector_erf, std::erf},
          {"atan", cpu::vector_atan, std::atan}};
}

/// Distance in units of the last place of the exact result; below the normal numbers these are the smallest denormal.
template <class T>
double ulps(T y, typename Wide<T>::type exact) {
  using W = typename Wide<T>::type;
  using Limits = std::numeric_limits<T>;
  if (std::isnan(exact)) return std::isnan(y) ? 0.0 : Limits::infinity();
  if (std::abs(exact) > W(Limits::max())) {  // too large for T; within an ulp of the largest, both are right
    const bool near = std::abs(exact) < W(Limits::max()) * (1 + W(Limits::epsilon()));
    return std::abs(y) == Limits::infinity() || (near && y == Limits::max()) ? 0.0 : Limits::infinity();
  }
  int exponent = 0;
  std::frexp(std::max(std::abs(exact), W(Limits::min())), &exponent);
  return double(std::abs(W(y) - exact) / std::ldexp(W(1), exponent - Limits::digits));
}

/// All of the line: every `stride`-th pattern of bits, infinities and NaN among them, and every number in the last
/// stretches before exp overflows and underflows.
template <class T>
std::vector<T> sweep(typename Wide<T>::bits stride) {
  using Bits = typename Wide<T>::bits;
  std::vector<T> x;
  for (Bits u = 0, next = 0; next >= u; u = next, next += stride) x.push_back(std::bit_cast<T>(next));
  const bool single = sizeof(T) == 4;
  for (const double edge : single ? std::vector{88.7228394, -87.3365479, -103.972076}
                                  : std::vector{709.782712893384, -708.396418532264, -745.133219101941})
    for (T v = T(edge) * T(1 - 300 * std::numeric_limits<T>::epsilon()), i = 0; i < 600; ++i) {
      x.push_back(v);
      v = std::nextafter(v, edge > 0 ? std::numeric_limits<T>::infinity() : -std::numeric_limits<T>::infinity());
    }
  return x;
}

template <class T>
void check_accuracy(typename Wide<T>::bits stride) {
  const std::vector<T> x = sweep<T>(stride);
  std::vector<T> y(x.size());
  constexpr T kTiny = std::numeric_limits<T>::min();
  for (const bool flush : {false, true})
    for (const Function<T>& f : functions<T>()) {
      CAPTURE(sizeof(T));
      CAPTURE(flush);
      CAPTURE(std::string(f.name));
      {
        const DenormalMode mode(flush);
        f.vector(static_cast<std::int64_t>(x.size()), x.data(), y.data());
      }
      const DenormalMode mode(false);
      double worst = 0.0;
      T at = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto exact = f.exact(x[i]);
        // Flushed, a result or an intermediate value below the normal numbers is zero.
        const bool lost = flush && std::abs(exact) < 16 * kTiny;
        const double error = lost ? (std::abs(y[i] - T(exact)) <= 2 * kTiny ? 0.0 : 1e9) : ulps(y[i], exact);
        if (!(error <= worst)) worst = error, at = x[i];
      }
      CAPTURE(at);
      CHECK(worst <= 4.0);
    }
}

template <class T>
void check_special_values() {
  using Limits = std::numeric_limits<T>;
  constexpr T inf = Limits::infinity(), nan = Limits::quiet_NaN();
  const auto same = [](T a, T b) {
    return std::isnan(b) ? std::isnan(a) : a == b && std::signbit(a) == std::signbit(b);
  };
  const T x[] = {0, T(-0.0), inf, -inf, nan, Limits::max(), Limits::lowest()};
  const T expected[][std::size(x)] = {
      {1, 1, inf, 0, nan, inf, 0}, {0, T(-0.0), 1, -1, nan, 1, -1}, {0, T(-0.0), 1, -1, nan, 1, -1}};
  for (const bool flush : {false, true}) {
    const DenormalMode mode(flush);
    for (std::size_t f = 0; f < std::size(expected); ++f)
      for (std::size_t i = 0; i < std::size(x); ++i) {
        T y = 7;
        functions<T>()[f].vector(1, &x[i], &y);
        CAPTURE(functions<T>()[f].name);
        CAPTURE(x[i]);
        CHECK_MESSAGE(same(y, expected[f][i]), y);
      }
  }
}

template <class T>
void check_denormals() {
  using Limits = std::numeric_limits<T>;
  const DenormalMode mode(false);
  for (const T denormal : {Limits::denorm_min(), -Limits::denorm_min(), Limits::min() / 2}) {
    T y = 7;
    cpu::vector_exp(1, &denormal, &y);
    CHECK(y == 1);
    cpu::vector_tanh(1, &denormal, &y);
    CHECK(y == denormal);
  }
}

/// Calls `check` with each function, 257 arguments and the results for them.
template <class T>
void for_arguments(const std::function<void(const Function<T>&, const std::vector<T>&, const std::vector<T>&)>& check) {
  std::vector<T> x(257), y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = T(0.07) * (T(i) - 128);
  for (const Function<T>& f : functions<T>()) {
    CAPTURE(std::string(f.name));
    f.vector(std::int64_t(x.size()), x.data(), y.data());
    check(f, x, y);
  }
}

/// exp(scale x - shift) of a row of n values with one more value after it, and the same in double.
template <class T>
struct ExpRow {
  static constexpr double kBound = std::is_same_v<T, float> ? 1e-6 : 4e-15;
  explicit ExpRow(std::int64_t n) : row(static_cast<std::size_t>(n + 1), T(-77)) {
    const T scale = T(0.37), shift = T(2.5);
    for (std::int64_t i = 0; i < n; ++i) {
      row[static_cast<std::size_t>(i)] = T(6) - T(0.31) * T(i * 7 % 70);
      expected.push_back(std::exp(double(scale) * double(row[static_cast<std::size_t>(i)]) - double(shift)));
      total += expected.back();
    }
    sum = exp_row(n, row.data(), scale, shift);
  }
  std::vector<T> row;
  std::vector<double> expected;
  double sum = 0, total = 0;
};

struct InRegisters {
  const char* name;
  float (*of)(float);
  double (*exact)(double);
};
constexpr InRegisters kInRegisters[] = {{"tanh", [](float x) { return tanh_of(Floats{} + x)[0]; }, std::tanh},
                                        {"erf", [](float x) { return erf_of(Floats{} + x)[0]; }, std::erf}};

void for_arguments_in_registers(const std::function<void(const InRegisters&, float)>& check) {
  for (const InRegisters& f : kInRegisters) {
    CAPTURE(std::string(f.name));
    for (double v = 0.00001; v < 21; v += 0.000173) check(f, float(v));
    for (double v = 1e-37; v < 1e-4; v *= 1.01) check(f, float(v));
  }
}

}  // namespace

TEST_CASE("vector math: within 4 ulp for all arguments, denormals flushed or not") {
  check_accuracy<float>(2003);
  check_accuracy<double>(0xfffff12345f);
}

TEST_CASE("vector math: special arguments give exact results") {
  check_special_values<float>();
  check_special_values<double>();
}

TEST_CASE("vector math: denormals give exact results") {
  check_denormals<float>();
  check_denormals<double>();
}

TEST_CASE_TEMPLATE("vector math: an element's result does not depend on its place", T, float, double) {
  for_arguments<T>([](const Function<T>& f, const std::vector<T>& x, const std::vector<T>& y) {
    std::vector<T> part(x.size());
    for (std::size_t n = 0; n < 40; ++n) {
      f.vector(std::int64_t(n), x.data() + n, part.data());
      CHECK(std::memcmp(part.data(), y.data() + n, n * sizeof(T)) == 0);
    }
  });
}

TEST_CASE_TEMPLATE("vector math: nothing is written beyond the last result", T, float, double) {
  for_arguments<T>([](const Function<T>& f, const std::vector<T>& x, const std::vector<T>&) {
    for (std::size_t n = 0; n < 40; ++n) {
      std::vector<T> part(x.size(), T(7));
      f.vector(std::int64_t(n), x.data() + n, part.data());
      CHECK(std::all_of(part.begin() + std::ptrdiff_t(n), part.end(), [](T v) { return v == 7; }));
    }
  });
}

TEST_CASE_TEMPLATE("vector math: results computed in place are the same", T, float, double) {
  for_arguments<T>([](const Function<T>& f, const std::vector<T>& x, const std::vector<T>& y) {
    std::vector<T> in_place = x;
    f.vector(std::int64_t(x.size()), in_place.data(), in_place.data());
    CHECK(std::memcmp(in_place.data(), y.data(), y.size() * sizeof(T)) == 0);
  });
}

TEST_CASE("vector math: libmvec is used where glibc has it") {
#if defined(__x86_64__) && defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 35)
  CHECK(std::string(cpu::vector_math_kind()).starts_with("libmvec"));  // no quiet fall back to one by one
#endif
#endif
}

TEST_CASE("vector exp: in registers, within 2 ulp down to the smallest normal number") {
  double worst = 0;
  for (double v = 0; v > -86.9; v -= 0.000731) {
    alignas(64) float x[kLanes<float>] = {};
    x[0] = float(v);
    store(x, exp_nonpositive(load(x)));
    const double expected = std::exp(double(float(v)));
    worst = std::max(
        worst, std::abs(double(x[0]) - expected) / (std::nextafter(float(expected), 2.0f) - double(float(expected))));
  }
  CHECK(worst < 2);
}

TEST_CASE("vector exp: in registers, far below zero it is 0") {
  CHECK(exp_nonpositive(Floats{} - 1000.0f)[0] == 0);
  CHECK(exp_nonpositive(Floats{} - std::numeric_limits<float>::infinity())[0] == 0);
}

TEST_CASE("vector exp: in registers, NaN stays NaN") {
  CHECK(std::isnan(exp_nonpositive(Floats{} + std::bit_cast<float>(0x7fc00001))[0]));
}

TEST_CASE_TEMPLATE("exp_row: exponentials of a row of any length are right", T, float, double) {
  for (std::int64_t n = 1; n <= 70; ++n) {
    const ExpRow<T> r(n);
    for (std::size_t i = 0; i < r.expected.size(); ++i)
      CHECK(std::abs(double(r.row[i]) - r.expected[i]) <= ExpRow<T>::kBound * r.expected[i]);
  }
}

TEST_CASE_TEMPLATE("exp_row: the sum of the exponentials is right", T, float, double) {
  for (std::int64_t n = 1; n <= 70; ++n) {
    const ExpRow<T> r(n);
    CHECK(std::abs(r.sum - r.total) <= ExpRow<T>::kBound * r.total);
  }
}

TEST_CASE_TEMPLATE("exp_row: nothing is written beyond the row", T, float, double) {
  for (std::int64_t n = 1; n <= 70; ++n) CHECK(ExpRow<T>(n).row.back() == T(-77));
}

TEST_CASE("row_max: the largest value of a row of any length is found") {
  for (std::int64_t n = 1; n <= 70; ++n)
    for (std::int64_t at = 0; at < n; ++at) {
      std::vector<float> row(static_cast<std::size_t>(n), -3.0f);
      row[static_cast<std::size_t>(at)] = -1.0f;
      CHECK(row_max(n, row.data()) == -1.0f);
    }
}

TEST_CASE("vector tanh, erf: in registers, within 4 ulp") {
  std::map<std::string, double> worst;
  for_arguments_in_registers([&](const InRegisters& f, float x) {
    const double expected = f.exact(double(x));
    const double ulp = std::nextafter(float(expected), 2.0f) - double(float(expected));
    worst[f.name] = std::max(worst[f.name], std::abs(double(f.of(x)) - expected) / ulp);
  });
  for (const auto& [name, ulps] : worst) {
    CHECK(ulps < 4);
    MESSAGE(name, ": ", ulps, " ulp");
  }
}

TEST_CASE("vector tanh, erf: in registers, they are odd") {
  for_arguments_in_registers([](const InRegisters& f, float x) { CHECK(f.of(-x) == -f.of(x)); });
}

TEST_CASE("vector tanh, erf: in registers, zero gives 0, infinity 1 and NaN NaN") {
  for (const InRegisters& f : kInRegisters) {
    CHECK(f.of(0.0f) == 0.0f);
    CHECK(f.of(1e30f) == 1.0f);
    CHECK(f.of(-std::numeric_limits<float>::infinity()) == -1.0f);
    CHECK(std::isnan(f.of(std::bit_cast<float>(0x7fc00001))));
  }
}
