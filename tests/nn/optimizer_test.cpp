#include "nn/optimizer.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/random.h"

using namespace normlab;

namespace {
void fill_normal(const Tensor& t, std::uint64_t seed, double std) {
  const StreamKey key = stream_key(seed, "test", "optimizer");
  for (std::int64_t i = 0; i < t.size(); ++i) t.data<double>()[i] = std * normal(key, static_cast<std::uint64_t>(i));
}
}  // namespace

TEST_CASE("optimizer: AdamW and SGD follow PyTorch's formulas over lanes and blocks, decay on matrices only") {
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::sgd})
    for (const int threads : {1, 3}) {
      ParameterSet set;
      const int weight = set.add("a.weight", {150, 130}), bias = set.add("a.bias", {37});  // more than one block
      set.allocate(DType::f64, 3);
      OptimizerSettings settings;
      settings.kind = kind;
      settings.sgd = {0.9, 0.05, true};
      Optimizer optimizer(cpu_backend(), set, settings);
      ShardPool pool(threads);
      fill_normal(set.value(weight), 1, 0.1);
      fill_normal(set.value(bias), 2, 0.1);
      StepState state;
      std::vector<double> p(37), m(37), v(37), w(19500), wm(19500), wv(19500);
      std::copy_n(set.value(bias).data<double>(), 37, p.begin());
      std::copy_n(set.value(weight).data<double>(), 19500, w.begin());
      for (int step = 0; step < 4; ++step) {
        std::vector<double> g(37), wg(19500);
        for (std::int64_t lane = 0; lane < 3; ++lane) {
          fill_normal(set.gradient(lane, weight), 100 + static_cast<std::uint64_t>(10 * step + lane), 1.0);
          fill_normal(set.gradient(lane, bias), 200 + static_cast<std::uint64_t>(10 * step + lane), 1.0);
          for (std::size_t i = 0; i < 37; ++i) g[i] += set.gradient(lane, bias).data<double>()[i];
          for (std::size_t i = 0; i < 19500; ++i) wg[i] += set.gradient(lane, weight).data<double>()[i];
        }
        double square = 0.0;
        for (const double x : g) square += x * x;
        for (const double x : wg) square += x * x;
        state.lr = 0.01;
        state.clip_norm = step == 2 ? 0.0 : 1.0;
        const double factor = step == 2 ? 1.0 : std::min(1.0, 1.0 / (std::sqrt(square) + 1e-6));
        optimizer.step(pool, state);
        ++state.step;
        CHECK(state.grad_norm == doctest::Approx(std::sqrt(square)).epsilon(1e-12));
        const auto update = [&](std::vector<double>& x, std::vector<double>& first, std::vector<double>& second,
                                const std::vector<double>& grad, double decay) {
          for (std::size_t i = 0; i < x.size(); ++i) {
            double gi = grad[i] * factor;
            if (kind == OptimizerKind::adamw) {
              first[i] = 0.9 * first[i] + 0.1 * gi;
              second[i] = 0.999 * second[i] + 0.001 * gi * gi;
              const double t = step + 1;
              x[i] -= 0.01 * decay * x[i];
              x[i] -=
                  0.01 * (first[i] / (1 - std::pow(0.9, t))) / (std::sqrt(second[i] / (1 - std::pow(0.999, t))) + 1e-8);
            } else {
              gi += decay * x[i];
              first[i] = 0.9 * first[i] + gi;
              x[i] -= 0.01 * (gi + 0.9 * first[i]);
            }
          }
        };
        update(p, m, v, g, 0.0);
        update(w, wm, wv, wg, 0.05);
        double worst = 0.0;
        for (std::size_t i = 0; i < 37; ++i)
          worst = std::max(worst, std::abs(p[i] - set.value(bias).data<double>()[i]));
        for (std::size_t i = 0; i < 19500; ++i)
          worst = std::max(worst, std::abs(w[i] - set.value(weight).data<double>()[i]));
        CHECK(worst < 1e-12);
      }
    }
}

TEST_CASE("learning_rate: warms up from above zero and ends where it should") {
  using K = ScheduleKind;
  CHECK(learning_rate(K::cosine, 1.0, 0.0, 0, 100, 4) == doctest::Approx(0.2));
  CHECK(learning_rate(K::cosine, 1.0, 0.0, 3, 100, 4) == doctest::Approx(0.8));
  CHECK(learning_rate(K::cosine, 1.0, 0.0, 4, 100, 4) == doctest::Approx(1.0));
  CHECK(learning_rate(K::cosine, 1.0, 0.0, 52, 100, 4) == doctest::Approx(0.5));
  CHECK(learning_rate(K::cosine, 1.0, 0.1, 100, 100, 4) == doctest::Approx(0.1));
  CHECK(learning_rate(K::linear, 1.0, 0.1, 55, 100, 10) == doctest::Approx(0.55));
  CHECK(learning_rate(K::constant, 0.3, 0.1, 99, 100, 0) == doctest::Approx(0.3));
  CHECK(learning_rate(K::cosine, 1.0, 0.0, 5, 3, 10) ==
        doctest::Approx(6.0 / 11));  // a training that ends within its warm-up
}
