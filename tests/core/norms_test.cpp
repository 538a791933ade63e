// The norm kernels over rows that end within a vector, and over images of more than one block: float and bf16 against
// double, and gradients that are added.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "core/arena.h"
#include "core/backend.h"
#include "tests/autograd/case_run.h"

namespace normlab {
namespace {

/// The rows of the table over [images, tokens, width], far from zero.
std::vector<OpCase> norms_of(std::int64_t images, std::int64_t tokens, std::int64_t width) {
  std::vector<OpCase> rows = norm_ops({.images = images, .tokens = tokens, .width = width});
  for (OpCase& row : rows) row.activations[0].mean = 3.0;
  for (OpCase& row : rows)
    for (OpInput& in : row.parameters)
      if (in.mean == 0.3) in.mean = in.std = 1.0;  // one for each channel
  return rows;
}

}  // namespace

TEST_CASE("norms: float and bf16 follow double to their precision") {
  for (const OpCase& row : norms_of(2, 600, 67))
    on_each_device([&] {
      CAPTURE(row.name);
      const CaseResults exact = run_case(current_device(), row, row.build, DType::f64);
      for (const DType dtype : {DType::f32, DType::bf16}) {
        CAPTURE(to_string(dtype));
        const CaseResults got = run_case(current_device(), row, row.build, dtype);
        const double rounding = dtype == DType::bf16 ? 1.0 / 256 : 2e-6;
        CHECK(difference(got[0], exact[0]) < rounding);
        CHECK(difference(got[1], exact[1]) < rounding);
        // Sums are taken in Acc<T>, before anything is rounded to bf16.
        for (std::size_t k = 2; k < got.size(); ++k) CHECK(difference(got[k], exact[k]) < 2e-6);
      }
    });
}

TEST_CASE("norms: an added gradient is the sum of the old value and the gradient") {
  for (const OpCase& row : norms_of(2, 600, 67))
    on_each_device([&] {
      CAPTURE(row.name);
      CaseResults once = run_case(current_device(), row, row.build, DType::f64);
      const CaseResults twice = run_case(
          current_device(), row, [&](const std::vector<Var>& v) { return add(row.build(v), row.build(v)); },
          DType::f64);
      for (std::size_t k = 1; k < once.size(); ++k) {
        for (double& number : once[k]) number *= 2;
        CHECK(difference(twice[k], once[k]) < 1e-12);
      }
    });
}

TEST_CASE("norms: long rows give what each of them gives alone") {
  constexpr std::int64_t kLongRows = 5;
  for (const OpCase& row : norms_of(kLongRows, 1, 1100)) {
    if (row.name.starts_with("batch_norm")) continue;
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16})
      on_each_device([&] {
        CAPTURE(row.name);
        CAPTURE(to_string(dtype));
        const CaseResults all = run_case(current_device(), row, row.build, dtype);
        CaseResults alone(all.size());
        for (std::size_t k = 2; k < all.size(); ++k) alone[k].resize(all[k].size());
        for (std::int64_t i = 0; i < kLongRows; ++i) {
          const CaseResults one = run_case(current_device(), row, row.build, dtype, {i, i + 1});
          for (const std::size_t k : {0, 1}) alone[k].insert(alone[k].end(), one[k].begin(), one[k].end());
          for (std::size_t k = 2; k < all.size(); ++k)
            for (std::size_t j = 0; j < one[k].size(); ++j) alone[k][j] += one[k][j];
        }
        CHECK(difference(alone[0], all[0]) < 1e-12);
        CHECK(difference(alone[1], all[1]) < 1e-12);
        for (std::size_t k = 2; k < all.size(); ++k)
          CHECK(difference(all[k], alone[k]) < (dtype == DType::f64 ? 1e-13 : 1e-5));
      });
  }
}

TEST_CASE("norms: batch norm computes statistics of values far from zero") {
  on_each_device([] {
    Arena arena(current_device().memory());
    SingleShard alone;
    constexpr std::int64_t rows = 1500, cols = 33;
    const BatchNormDims d{1, rows, cols, 0, 1, 0, 0.0, 1.0};
    const Tensor x = randn(arena, {rows, cols}, DType::f32, 7, 1.0, 5000.0), y = arena.empty({rows, cols}, DType::f32);
    const auto vector = [&] { return arena.empty({cols}, DType::f32); };
    const Tensor gamma = vector(), beta = vector(), mean = vector(), rstd = vector(), rm = vector(), rv = vector();
    for (const Tensor& t : {gamma, beta, rm, rv}) std::fill_n(t.data<float>(), cols, 1.0f);
    current_device().backend.batch_norm(d, alone, {x, gamma, beta, y, mean, rstd}, rm, rv);
    current_device().backend.synchronize();
    for (std::int64_t c = 0; c < cols; ++c) {
      double m = 0.0, v = 0.0;
      for (std::int64_t r = 0; r < rows; ++r) m += value(x, r * cols + c) / double(rows);
      for (std::int64_t r = 0; r < rows; ++r) v += std::pow(value(x, r * cols + c) - m, 2);
      CHECK(value(mean, c) == doctest::Approx(m).epsilon(1e-7));
      CHECK(value(rstd, c) == doctest::Approx(1 / std::sqrt(v / double(rows))).epsilon(1e-6));
      CHECK(value(rv, c) == doctest::Approx(v / double(rows - 1)).epsilon(1e-6));
    }
  });
}

namespace {
/// Everything that batch norm in groups of several blocks writes; the last group is smaller.
std::vector<double> batch_norm_in_groups(const TestDevice& device) {
  constexpr std::int64_t images = 5, rows_per_image = 150, rows = images * rows_per_image, cols = 37, groups = 3;
  constexpr BatchNormDims d{images, rows_per_image, cols, 0, images, 2, 1e-5, 0.1, 2 * images, images};
  Arena arena(device.memory());
  SingleShard alone;
  const auto filled = [&](const Shape& shape, double fill) {
    const Tensor t = arena.empty(shape, DType::f64);
    std::fill_n(t.data<double>(), t.size(), fill);
    return t;
  };
  const Tensor x = randn(arena, {rows, cols}, DType::f64, 1, 2.0, 30.0), dy = randn(arena, {rows, cols}, DType::f64, 2);
  const Tensor gamma = randn(arena, {cols}, DType::f64, 3, 1.0, 1.0), beta = randn(arena, {cols}, DType::f64, 4);
  const Tensor results[] = {filled({cols}, 0.5),       filled({cols}, 2.0),       filled({rows, cols}, 0),
                            filled({groups, cols}, 0), filled({groups, cols}, 0), filled({rows, cols}, 1),
                            filled({cols}, 1),         filled({cols}, 1)};
  const auto& [rm, rv, y, mean, rstd, dx, dgamma, dbeta] = results;
  device.backend.batch_norm(d, alone, {x, gamma, beta, y, mean, rstd}, rm, rv);
  device.backend.batch_norm_backward(
      d, alone, {dy, x, gamma, mean, rstd, {dx, Write::add}, {dgamma, Write::add}, {dbeta, Write::assign}});
  device.backend.synchronize();
  std::vector<double> values;
  for (const Tensor& t : results) values.insert(values.end(), t.data<double>(), t.data<double>() + t.size());
  return values;
}
}  // namespace

TEST_CASE("norms: batch norm in groups follows the CPU's to rounding") {
  const std::vector<double> expected = batch_norm_in_groups(devices_under_test()[0]);
  on_each_device([&] {
    const std::vector<double> got = batch_norm_in_groups(current_device());
    double most = 0.0;
    for (std::size_t i = 0; i < got.size(); ++i)
      most = std::max(most, std::abs(got[i] - expected[i]) / (1 + std::abs(expected[i])));
    CHECK(most < 1e-12);
  });
}

namespace {
/// Running mean and variance, [2] each, after parts of a step of five images of three rows. `statistics_batch` images
/// share statistics. by_all: all groups of the step move the running values.
std::vector<double> running_after(std::int64_t part, std::int64_t statistics_batch, bool by_all) {
  constexpr std::int64_t images = 5, rows = 3, cols = 2;
  Arena arena(current_device().memory());
  const auto of = [&](const Shape& shape, std::initializer_list<double> values = {}) {
    const Tensor t = arena.empty(shape, DType::f64);
    std::copy(values.begin(), values.end(), t.data<double>());
    return t;
  };
  const Tensor x = of({images * rows, cols}), y = of({images * rows, cols});
  for (std::int64_t i = 0; i < x.size(); ++i) x.data<double>()[i] = double(37 * i % 101) / 16 - 3;
  const Tensor gamma = of({cols}, {1, 1}), beta = of({cols}, {0, 0}), running_mean = of({cols}, {0.5, -0.25}),
               running_var = of({cols}, {2.0, 1.5}), mean = of({images, cols}), rstd = of({images, cols});
  SingleShard alone;
  for (std::int64_t begin = 0; begin < images; begin += part) {
    const std::int64_t n = std::min(part, images - begin);
    const BatchNormDims d{n, rows, cols, 0, n, statistics_batch, 1e-5, 0.1, by_all ? images : 0, begin};
    current_device().backend.batch_norm(d, alone, {x.slice(begin * rows, n * rows), gamma, beta, y, mean, rstd},
                                        running_mean, running_var);
  }
  current_device().backend.synchronize();
  return {value(running_mean, 0), value(running_mean, 1), value(running_var, 0), value(running_var, 1)};
}

bool near(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return std::abs(x - y) < 1e-14 * (1 + std::abs(y)); });
}
}  // namespace

// The numbers are those of torch.nn.BatchNorm1d (PyTorch 2.15, double): momentum 0.1, or for all groups the averages,
// weighted by images, of one of momentum 1 for each group. numpy gives the same.
TEST_CASE("norms: the groups of a step move the running values of a batch norm together") {
  on_each_device([] {
    const std::vector<double> groups{0.44166666666666665, -0.2125, 2.1929583333333333, 1.7113958333333334};
    CHECK(near(running_after(5, 2, true), groups));
    CHECK(near(running_after(2, 0, true), groups));  // parts are groups
    CHECK(near(running_after(4, 2, true), groups));
  });
}

TEST_CASE("norms: groups of all images have the running mean of the whole batch") {
  on_each_device([] {
    const std::vector<double> whole{0.44166666666666665, -0.2125, 2.154110863095238, 1.702232142857143};
    CHECK(near(running_after(5, 0, true), whole));
    CHECK(near(running_after(5, 0, false), whole));
    CHECK(running_after(5, 0, true) == running_after(5, 0, false));  // to the bit
  });
}

TEST_CASE("norms: the first group of each part moves the running values of a batch norm") {
  on_each_device([] {
    const std::vector<double> first{0.46458333333333335, -0.2947916666666667, 2.2851041666666667, 1.7049088541666668};
    CHECK(near(running_after(5, 2, false), first));
    const std::vector<double> of_parts{0.36162500000000003, -0.11919791666666665, 2.45511796875, 2.1759813802083334};
    CHECK(near(running_after(2, 0, false), of_parts));
    CHECK(near(running_after(2, 2, false), of_parts));
  });
}

TEST_CASE("norms: batch norm in groups has equal bits from run to run") {
  on_each_device([] {
    const std::vector<double> first = batch_norm_in_groups(current_device());
    CHECK(batch_norm_in_groups(current_device()) == first);
  });
}

TEST_CASE("norms: a device for whole batches refuses batch norm of a part") {
  on_each_device([] {
    if (!current_device().backend.whole_batch()) return;
    Arena arena(current_device().memory());
    SingleShard alone;
    const Tensor x = arena.empty({6, 4}, DType::f32), v = arena.empty({4}, DType::f32);
    std::string refusal;
    try {
      current_device().backend.batch_norm({2, 3, 4, 0, 4, 0, 1e-5, 0.1}, alone, {x, v, v, x, v, v}, v, v);
    } catch (const InputError& error) {
      refusal = error.what();
    }
    CHECK(refusal == "batch_norm: a GPU needs the whole batch in one shard, not 2 of 4 images in one of 1 shards");
  });
}

}  // namespace normlab
