// A residual sum and its norm in one pass against the operations that it is made of: the same bits on the CPU, on other
// devices the same to rounding.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "autograd/grad_check.h"
#include "core/arena.h"
#include "core/backend.h"
#include "tests/devices.h"

namespace normlab {
namespace {

struct Case {
  std::int64_t images, rows_per_image, cols;
  bool rms, drops;
  Write write;  // of both gradients
};

/// What comes out, in the order sum, y, dsum, dx, dgamma, dbeta.
using Results = std::vector<std::vector<double>>;

Results run(const Case& c, DType dtype, bool fused) {
  Backend& b = current_device().backend;
  Arena arena(current_device().memory());
  const DType acc = acc_of(dtype);
  const std::int64_t rows = c.images * c.rows_per_image;
  const Shape all{c.images, c.rows_per_image, c.cols};
  const auto drawn = [&](std::uint64_t seed) { return randn(arena, all, dtype, seed, 1.0, 0.5); };
  const Tensor x = drawn(1), residual = drawn(2), dy = drawn(3), sum = drawn(4), y = drawn(5);
  const Tensor dsum = drawn(6), dx = drawn(7);
  const auto parameter = [&](std::uint64_t seed) { return randn(arena, {c.cols}, acc, seed, 1.0, 1.0); };
  const Tensor gamma = parameter(8), beta = c.rms ? Tensor() : parameter(9);
  const Tensor dgamma = parameter(10), dbeta = parameter(11);
  const Tensor rstd = arena.empty({rows}, acc), mean = c.rms ? Tensor() : arena.empty({rows}, acc);
  const Tensor keep = c.drops ? arena.empty({c.images}, DType::u8) : Tensor();
  for (std::int64_t i = 0; i < keep.size() && c.drops; ++i) keep.data<std::uint8_t>()[i] = i % 3 != 1;
  constexpr double kRate = 0.3;
  const NormDims d{rows, c.cols, 1e-4};
  const std::int64_t group = c.rows_per_image * c.cols;
  const Gradient to_sum{dsum, c.write}, to_x{dx, c.write}, to_gamma{dgamma, Write::add}, to_beta{dbeta, Write::assign};
  if (fused) {
    const RowMask mask{keep, c.rows_per_image, kRate};
    b.norm_of_sum(d, mask, x, residual, {sum, gamma, beta, y, mean, rstd});
    b.norm_of_sum_backward(d, mask, {dy, sum, gamma, mean, rstd, to_sum, to_gamma, c.rms ? Gradient() : to_beta}, to_x);
  } else {
    if (c.drops)
      b.dropout_add(group, kRate, x, keep, residual, sum);
    else
      b.add(residual, x, sum);
    if (c.rms) {
      b.rms_norm(d, {sum, gamma, {}, y, {}, rstd});
      b.rms_norm_backward(d, {dy, sum, gamma, {}, rstd, to_sum, to_gamma});
    } else {
      b.layer_norm(d, {sum, gamma, beta, y, mean, rstd});
      b.layer_norm_backward(d, {dy, sum, gamma, mean, rstd, to_sum, to_gamma, to_beta});
    }
    if (c.drops)
      b.dropout_backward(group, kRate, dsum, keep, to_x);
    else
      b.copy_gradient(dsum, to_x);
  }
  b.synchronize();
  Results results;
  for (const Tensor& t : {sum, y, dsum, dx, dgamma, dbeta}) {
    std::vector<double>& values = results.emplace_back();
    for (std::int64_t i = 0; i < t.size(); ++i)
      values.push_back(t.dtype() == DType::f64   ? t.data<double>()[i]
                       : t.dtype() == DType::f32 ? double(t.data<float>()[i])
                                                 : double(float(t.data<bf16>()[i])));
  }
  return results;
}

void check(const Case& c, DType dtype) {
  CAPTURE(c.cols);
  CAPTURE(c.rms);
  CAPTURE(c.drops);
  CAPTURE(int(c.write));
  CAPTURE(to_string(dtype));
  const Results fused = run(c, dtype, true), composed = run(c, dtype, false);
  if (&current_device() == &devices_under_test()[0]) {
    CHECK(fused == composed);
    return;
  }
  const double rounding = dtype == DType::bf16 ? 1.0 / 64 : dtype == DType::f32 ? 2e-5 : 1e-13;
  for (std::size_t k = 0; k < fused.size(); ++k) {
    double most = 0.0;
    for (std::size_t i = 0; i < fused[k].size(); ++i)
      most = std::max(most, std::abs(fused[k][i] - composed[k][i]) / (1 + std::abs(composed[k][i])));
    CAPTURE(k);
    CHECK(most < rounding);
  }
}

}  // namespace

TEST_CASE("norm_of_sum: one pass gives what sum, norm and their gradients give one by one") {
  on_each_device([] {
    for (const std::int64_t cols : {5, 33, 96, 1536, 4104})  // the last one is read again on a GPU
      for (const bool rms : {false, true})
        for (const bool drops : {false, true})
          for (const DType dtype : {DType::f64, DType::f32, DType::bf16})
            check({4, cols > 100 ? 3 : 7, cols, rms, drops, drops == rms ? Write::add : Write::assign}, dtype);
  });
}

}  // namespace normlab
