// The norm kernels over rows that end within a vector, and over images of more than one block: float and bf16 against
// double, and gradients that are added.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "autograd/grad_check.h"
#include "core/arena.h"
#include "core/backend.h"
#include "tests/devices.h"

namespace normlab {
namespace {

constexpr std::int64_t kImages = 2, kRowsPerImage = 600, kRows = kImages * kRowsPerImage, kCols = 67;

double value(const Tensor& t, std::int64_t i) {
  return t.dtype() == DType::f64   ? t.data<double>()[i]
         : t.dtype() == DType::f32 ? double(t.data<float>()[i])
                                   : double(float(t.data<bf16>()[i]));
}

Tensor cast(Arena& arena, const Tensor& from, DType dtype) {
  const Tensor to = arena.empty(from.shape(), dtype);
  for (std::int64_t i = 0; i < to.size(); ++i) {
    if (dtype == DType::f64)
      to.data<double>()[i] = value(from, i);
    else if (dtype == DType::f32)
      to.data<float>()[i] = float(value(from, i));
    else
      to.data<bf16>()[i] = bf16(value(from, i));
  }
  return to;
}

/// Results of a kind's kernels for the same numbers in any type; Write::add adds gradients to ones.
struct Result {
  Tensor y, dx, dgamma, dbeta, dalpha, dshift, mean, rstd;
};

/// The rows from `first` to `end` of [rows, cols] numbers.
struct Part {
  std::int64_t rows = kRows, cols = kCols, first = 0, end = kRows;
};

/// Holds the results of run() on the current device until it is reset.
Arena& results_arena() {
  const TestDevice& device = current_device();  // made before the arenas, which are given back first
  static std::map<std::string, Arena> arenas;
  return arenas.try_emplace(device.name, device.memory()).first->second;
}

Result run(const char* kind, DType dtype, Write write, const Part& part = {}) {
  Arena& arena = results_arena();
  Backend& b = current_device().backend;
  SingleShard alone;
  const std::string name = kind;
  const DType acc = acc_of(dtype);
  // All types get numbers that bf16 can hold, so that only the kernels differ.
  const auto drawn = [&](const Shape& shape, std::uint64_t seed, double mean, DType to) {
    return cast(arena, cast(arena, randn(arena, shape, DType::f64, seed, 1.0, mean), DType::bf16), to);
  };
  const auto filled = [&](const Shape& shape, DType to, double fill) {
    const Tensor t = arena.empty(shape, DType::f64);
    std::fill_n(t.data<double>(), t.size(), fill);
    return cast(arena, t, to);
  };
  const std::int64_t cols = part.cols, rows = part.end - part.first;
  const Tensor x = drawn({part.rows, cols}, 1, 3.0, dtype).slice(part.first, rows);
  const Tensor dy = drawn({part.rows, cols}, 2, 0.0, dtype).slice(part.first, rows);
  const Tensor gamma = drawn({cols}, 3, 1.0, acc), beta = drawn({cols}, 4, 0.0, acc), alpha = filled({1}, acc, 0.25);
  const Tensor running_mean = filled({cols}, acc, 0.5), running_var = filled({cols}, acc, 2.0);
  Result r{filled({rows, cols}, dtype, 0),
           filled({rows, cols}, dtype, 1),
           filled({cols}, acc, 1),
           filled({cols}, acc, 1),
           filled({1}, acc, 1),
           filled({1}, acc, 1),
           filled({rows}, acc, 0),
           filled({rows}, acc, 0)};
  const Gradient dx{r.dx, write}, dgamma{r.dgamma, write}, dbeta{r.dbeta, write}, dalpha{r.dalpha, write};
  const NormDims d{rows, cols, 1e-6};
  const BatchNormDims bd{kImages, kRowsPerImage, kCols, 0, kImages, 0, 1e-5, 0.1};
  if (name == "layer_norm") {
    b.layer_norm(d, {x, gamma, beta, r.y, r.mean, r.rstd});
    b.layer_norm_backward(d, {dy, x, gamma, r.mean, r.rstd, dx, dgamma, dbeta});
  } else if (name == "layer_norm_fixed") {
    b.layer_norm(d, {x, {}, {}, r.y, r.mean, r.rstd});
    b.layer_norm_backward(d, {dy, x, {}, r.mean, r.rstd, dx});
  } else if (name == "rms_norm") {
    b.rms_norm(d, {x, gamma, {}, r.y, {}, r.rstd});
    b.rms_norm_backward(d, {dy, x, gamma, {}, r.rstd, dx, dgamma});
  } else if (name == "affine") {
    b.affine(x, gamma, beta, r.y);
    b.affine_backward(dy, x, gamma, dx, dgamma, dbeta);
  } else if (name == "l2") {
    NormDims sum = d;
    sum.sum = true;
    b.rms_norm(sum, {x, gamma, {}, r.y, {}, r.rstd});
    b.rms_norm_backward(sum, {dy, x, gamma, {}, r.rstd, dx, dgamma});
  } else if (name == "seednorm") {
    const Tensor by_channel = drawn({cols}, 5, 1.0, acc), gates = filled({rows}, acc, 0);
    const Tensor few = drawn({cols}, 6, 0.0, acc);  // x . beta, small enough for tanh to have a slope
    for (std::int64_t c = 0; c < cols; ++c)
      acc == DType::f64 ? few.data<double>()[c] /= 64 : few.data<float>()[c] /= 64;
    b.seednorm(d, {.x = x, .gamma = gamma, .beta = few, .y = r.y, .rstd = r.rstd}, by_channel, gates);
    r.dalpha = filled({cols}, acc, 1);
    b.seednorm_backward(d,
                        {.dy = dy, .x = x, .gamma = gamma, .rstd = r.rstd, .dx = dx, .dgamma = dgamma, .dbeta = dbeta},
                        by_channel, few, gates, {r.dalpha, write});
  } else if (name == "bhyt") {
    b.bhyt(d, 0.5, {.x = x, .gamma = gamma, .y = r.y, .rstd = r.rstd}, alpha);
    b.bhyt_backward(d, 0.5, {.dy = dy, .x = x, .gamma = gamma, .rstd = r.rstd, .dx = dx, .dgamma = dgamma}, alpha,
                    dalpha);
  } else if (PointwisePhi phi{}; name == "dyisru" || find_word(name, phi)) {
    if (name == "dyisru") phi = PointwisePhi::dyisru;
    const Tensor shift = phi == PointwisePhi::tanh || name == "dyisru" ? Tensor() : filled({1}, acc, -0.5);
    const Gradient dshift = shift ? Gradient{r.dshift, write} : Gradient{};
    b.pointwise_norm(phi, x, alpha, shift, gamma, beta, r.y);
    b.pointwise_norm_backward(phi, {dy, x, gamma, {}, {}, dx, dgamma, dbeta}, alpha, shift, dalpha, dshift);
  } else if (name == "batch_norm") {
    b.batch_norm(bd, alone, {x, gamma, beta, r.y, r.mean, r.rstd}, running_mean, running_var);
    b.batch_norm_backward(bd, alone, {dy, x, gamma, r.mean, r.rstd, dx, dgamma, dbeta});
  } else {
    b.batch_norm_frozen(d, x, gamma, beta, running_mean, running_var, r.y);
    b.batch_norm_frozen_backward(d, {dy, x, gamma, {}, {}, dx, dgamma, dbeta}, running_mean, running_var);
  }
  b.synchronize();
  return r;
}

/// The largest difference, over the largest value.
double difference(const Tensor& a, const Tensor& b) {
  double most = 0.0, scale = 1e-30;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(value(a, i) - value(b, i)));
    scale = std::max(scale, std::abs(value(b, i)));
  }
  return most / scale;
}

constexpr const char* kKinds[] = {
    "layer_norm", "layer_norm_fixed", "rms_norm", "affine", "tanh",     "erf",  "isru",       "softsign",
    "atan",       "hardtanh",         "dyisru",   "l2",     "seednorm", "bhyt", "batch_norm", "batch_norm_frozen"};

}  // namespace

TEST_CASE("norms: float and bf16 follow double to their precision") {
  for (const char* kind : kKinds)
    on_each_device([&] {
      results_arena().reset();
      CAPTURE(kind);
      const Result exact = run(kind, DType::f64, Write::assign);
      for (const DType dtype : {DType::f32, DType::bf16}) {
        CAPTURE(to_string(dtype));
        const Result r = run(kind, dtype, Write::assign);
        const double rounding = dtype == DType::bf16 ? 1.0 / 256 : 2e-6;
        CHECK(difference(r.y, exact.y) < rounding);
        CHECK(difference(r.dx, exact.dx) < rounding);
        // Sums are taken in Acc<T>, before anything is rounded to bf16.
        CHECK(difference(r.dgamma, exact.dgamma) < 2e-6);
        CHECK(difference(r.dbeta, exact.dbeta) < 2e-6);
        CHECK(difference(r.dalpha, exact.dalpha) < 2e-6);
        CHECK(difference(r.dshift, exact.dshift) < 2e-6);
        CHECK(difference(r.mean, exact.mean) < 2e-6);
        CHECK(difference(r.rstd, exact.rstd) < 2e-6);
      }
    });
}

TEST_CASE("norms: an added gradient is the sum of the old value and the gradient") {
  for (const char* kind : kKinds)
    on_each_device([&] {
      results_arena().reset();
      CAPTURE(kind);
      const Result assigned = run(kind, DType::f64, Write::assign), added = run(kind, DType::f64, Write::add);
      for (const auto part : {&Result::dx, &Result::dgamma, &Result::dbeta, &Result::dalpha, &Result::dshift}) {
        double most = 0.0, moved = 0.0;
        for (std::int64_t i = 0; i < (added.*part).size(); ++i) {
          const double a = value(added.*part, i), g = value(assigned.*part, i);
          moved = std::max(moved, std::abs(a - 1));
          most = std::max(most, std::abs(a - (g + 1)));
        }
        if (moved > 0) CHECK(most < 1e-12);  // 0: this kind has no such parameter
      }
    });
}

TEST_CASE("norms: long rows give what each of them gives alone") {
  constexpr std::int64_t kLongRows = 5, kLongCols = 1100;
  for (const char* kind : kKinds) {
    if (std::string(kind).starts_with("batch_norm")) continue;
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16})
      on_each_device([&] {
        results_arena().reset();
        CAPTURE(kind);
        CAPTURE(to_string(dtype));
        const Result all = run(kind, dtype, Write::assign, {kLongRows, kLongCols, 0, kLongRows});
        std::vector<Result> alone;
        for (std::int64_t row = 0; row < kLongRows; ++row) {
          alone.push_back(run(kind, dtype, Write::assign, {kLongRows, kLongCols, row, row + 1}));
          CHECK(difference(alone.back().y, all.y.slice(row, 1)) < 1e-12);
          CHECK(difference(alone.back().dx, all.dx.slice(row, 1)) < 1e-12);
        }
        for (const auto part : {&Result::dgamma, &Result::dbeta, &Result::dalpha, &Result::dshift}) {
          double most = 0, largest = 0;
          for (std::int64_t i = 0; i < (all.*part).size(); ++i) {
            double sum = 0;
            for (const Result& one : alone) sum += value(one.*part, i);
            most = std::max(most, std::abs(value(all.*part, i) - sum));
            largest = std::max(largest, std::abs(sum));
          }
          if (largest != kLongRows)
            CHECK(most < (dtype == DType::f64 ? 1e-13 : 1e-5) * largest);  // else untouched ones
        }
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
