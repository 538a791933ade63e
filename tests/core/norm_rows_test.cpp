// LayerNorm and RMSNorm over rows of any width, on each device: rows that one warp holds in registers, rows that
// several warps hold, and rows that are read again. Float, bf16 and double against the formulas in double.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "autograd/randn.h"
#include "core/arena.h"
#include "core/backend.h"
#include "tests/devices.h"

namespace normlab {
namespace {

using Numbers = std::vector<double>;
enum class Kind : std::uint8_t { layer_norm, fixed, rms_norm };
constexpr Kind kKinds[] = {Kind::layer_norm, Kind::fixed, Kind::rms_norm};

/// Numbers that bf16 can hold, so that only the kernels differ.
Numbers drawn(std::int64_t n, std::uint64_t seed, double mean) {
  Arena arena;
  const Tensor t = randn(arena, {n}, DType::bf16, seed, 1.0, mean);
  Numbers all;
  for (std::int64_t i = 0; i < n; ++i) all.push_back(double(float(t.data<bf16>()[i])));
  return all;
}

void set(const Tensor& t, std::int64_t i, double value) {
  if (t.dtype() == DType::f64)
    t.data<double>()[i] = value;
  else if (t.dtype() == DType::f32)
    t.data<float>()[i] = float(value);
  else
    t.data<bf16>()[i] = bf16(value);
}
double get(const Tensor& t, std::int64_t i) {
  return t.dtype() == DType::f64   ? t.data<double>()[i]
         : t.dtype() == DType::f32 ? double(t.data<float>()[i])
                                   : double(float(t.data<bf16>()[i]));
}

struct Case {
  std::int64_t rows, cols;
  Kind kind = Kind::layer_norm;
  std::int64_t offset = 0;  // values between the beginning of a vector and x
  bool want_dx = true, want_parameters = true;
};

struct Inputs {
  Numbers x, dy, gamma, beta;
  explicit Inputs(const Case& c)
      : x(drawn(c.rows * c.cols, 1, 3.0)),
        dy(drawn(c.rows * c.cols, 2, 0.0)),
        gamma(c.kind == Kind::fixed ? Numbers(std::size_t(c.cols), 1.0) : drawn(c.cols, 3, 1.0)),
        beta(c.kind == Kind::layer_norm ? drawn(c.cols, 4, 0.0) : Numbers(std::size_t(c.cols), 0.0)) {}
};

constexpr double kEps = 1e-3;  // rows of one value have no spread

/// y, and gradients that are added to ones.
struct Expected {
  Numbers y, dx, dgamma, dbeta;
  Expected(const Case& c, const Inputs& in)
      : y(in.x.size()), dx(in.x.size()), dgamma(in.gamma.size(), 1.0), dbeta(in.gamma.size(), 1.0) {
    const auto n = std::size_t(c.cols);
    for (std::size_t at = 0; at < in.x.size(); at += n) {
      double m = 0.0, v = 0.0, of_g = 0.0, of_gh = 0.0;
      for (std::size_t i = 0; i < n && c.kind != Kind::rms_norm; ++i) m += in.x[at + i] / double(n);
      for (std::size_t i = 0; i < n; ++i) v += std::pow(in.x[at + i] - m, 2) / double(n);
      const double s = 1 / std::sqrt(v + kEps);
      const auto x_hat = [&](std::size_t i) { return (in.x[at + i] - m) * s; };
      for (std::size_t i = 0; i < n; ++i) {
        y[at + i] = in.gamma[i] * x_hat(i) + in.beta[i];
        dgamma[i] += in.dy[at + i] * x_hat(i);
        dbeta[i] += in.dy[at + i];
        if (c.kind != Kind::rms_norm) of_g += in.dy[at + i] * in.gamma[i] / double(n);
        of_gh += in.dy[at + i] * in.gamma[i] * x_hat(i) / double(n);
      }
      for (std::size_t i = 0; i < n; ++i) dx[at + i] = 1 + s * (in.dy[at + i] * in.gamma[i] - of_g - x_hat(i) * of_gh);
    }
  }
};

/// The largest difference, over the largest value.
double difference(const Tensor& got, const Numbers& expected) {
  double most = 0.0, scale = 1e-30;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    most = std::max(most, std::abs(get(got, std::int64_t(i)) - expected[i]));
    scale = std::max(scale, std::abs(expected[i]));
  }
  return most / scale;
}

void check(const Case& c, DType dtype, const Inputs& in, const Expected& expected) {
  Backend& b = current_device().backend;
  Arena arena(current_device().memory());
  const DType acc = acc_of(dtype);
  const auto filled = [&](const Shape& shape, DType to, std::int64_t offset, auto&& value) {
    const std::int64_t n = shape.size();
    const Tensor t = arena.empty({n + offset}, to).slice(offset, n).reshape(shape);
    for (std::int64_t i = 0; i < n; ++i) set(t, i, value(std::size_t(i)));
    return t;
  };
  const auto one = [](std::size_t) { return 1.0; };
  const Shape all{c.rows, c.cols};
  const Tensor x = filled(all, dtype, c.offset, [&](std::size_t i) { return in.x[i]; });
  const Tensor dy = filled(all, dtype, 0, [&](std::size_t i) { return in.dy[i]; });
  const Tensor gain = filled({c.cols}, acc, 0, [&](std::size_t i) { return in.gamma[i]; });
  const Tensor bias = filled({c.cols}, acc, 0, [&](std::size_t i) { return in.beta[i]; });
  const Tensor gamma = c.kind == Kind::fixed ? Tensor() : gain, beta = c.kind == Kind::fixed ? Tensor() : bias;
  const Tensor y = arena.empty(all, dtype), mean = arena.empty({c.rows}, acc), rstd = arena.empty({c.rows}, acc);
  const Tensor dx = filled(all, dtype, 0, one), dgain = filled({c.cols}, acc, 0, one),
               dbias = filled({c.cols}, acc, 0, one);
  const bool parameters = c.want_parameters && c.kind != Kind::fixed;
  const Gradient to_x{c.want_dx ? dx : Tensor(), Write::add};
  const Gradient to_gain{parameters ? dgain : Tensor(), Write::add}, to_bias{parameters ? dbias : Tensor(), Write::add};
  const NormDims d{c.rows, c.cols, kEps};
  if (c.kind == Kind::rms_norm) {
    b.layer_norm(d, {x, gamma, {}, y, {}, rstd});
    b.layer_norm_backward(d, {dy, x, gamma, {}, rstd, to_x, to_gain});
  } else {
    b.layer_norm(d, {x, gamma, beta, y, mean, rstd});
    b.layer_norm_backward(d, {dy, x, gamma, mean, rstd, to_x, to_gain, to_bias});
  }
  b.synchronize();
  const double stored = dtype == DType::bf16 ? 1.0 / 256 : dtype == DType::f32 ? 1e-5 : 1e-13;
  const double summed = dtype == DType::f64 ? 1e-13 : 3e-6;
  const Numbers untouched_x(in.x.size(), 1.0), untouched(in.gamma.size(), 1.0);
  CHECK(difference(y, expected.y) < stored);
  CHECK(difference(dx, c.want_dx ? expected.dx : untouched_x) < stored);
  CHECK(difference(dgain, parameters ? expected.dgamma : untouched) < summed);
  CHECK(difference(dbias, parameters && c.kind == Kind::layer_norm ? expected.dbeta : untouched) < summed);
}

void check_on_each_device(const Case& c) {
  const Inputs in(c);
  const Expected expected(c, in);
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16})
    on_each_device([&] {
      CAPTURE(c.rows);
      CAPTURE(c.cols);
      CAPTURE(int(c.kind));
      CAPTURE(to_string(dtype));
      check(c, dtype, in, expected);
    });
}

}  // namespace

TEST_CASE("layer_norm, rms_norm: rows of any width follow the formulas to rounding") {
  // One vector a lane, several vectors, two warps a row, four warps, more than registers hold; odd widths between.
  for (const std::int64_t cols : {1, 3, 8, 33, 192, 384, 385, 768, 1024})
    for (const Kind kind : kKinds) check_on_each_device({21, cols, kind});
  for (const std::int64_t cols : {1536, 2304, 4096, 5000})
    for (const Kind kind : {Kind::layer_norm, Kind::rms_norm}) check_on_each_device({19, cols, kind});
}

TEST_CASE("layer_norm, rms_norm: a single row follows the formulas") {
  for (const Kind kind : kKinds) check_on_each_device({1, 96, kind});
}

TEST_CASE("layer_norm, rms_norm: unaligned rows follow the formulas") {
  for (const Kind kind : kKinds) check_on_each_device({9, 96, kind, 1});
}

TEST_CASE("layer_norm, rms_norm: gradients that are not asked for stay as they are") {
  for (const Kind kind : kKinds)
    for (const std::int64_t cols : {96, 35}) {
      check_on_each_device({9, cols, kind, 0, false, true});
      check_on_each_device({9, cols, kind, 0, true, false});
    }
}

TEST_CASE("layer_norm: rows of several blocks follow the formulas") { check_on_each_device({600, 64}); }

}  // namespace normlab
