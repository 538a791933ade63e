
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "core/random.h"
#include "tests/nn/training/optimiser_step.h"

using namespace normlab;

namespace {

constexpr OptimizerName kAll[] = {OptimizerName::adamw,       OptimizerName::sgd,  OptimizerName::big_vision_adam,
                                  OptimizerName::momentum_hp, OptimizerName::lamb, OptimizerName::lion,
                                  OptimizerName::adam};

void fill_normal(const Tensor& t, std::uint64_t seed, double std) {
  const StreamKey key = stream_key(seed, "test", "optimizer");
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const double value = std * normal(key, static_cast<std::uint64_t>(i));
    if (t.dtype() == DType::f64)
      t.data<double>()[i] = value;
    else
      t.data<float>()[i] = static_cast<float>(value);
  }
}

std::vector<double> copy(const Tensor& t) { return {t.data<double>(), t.data<double>() + t.size()}; }

/// One parameter, tensor by tensor and formula by formula.
struct Reference {
  std::vector<double> p, m, v;
  UpdateFactors factors;
  bool decays;

  void step(const OptimizerSettings& s, const StepState& state, const std::vector<double>& gradient, double factor) {
    const double lr = state.lr * factors.lr, wd = decays ? s.weight_decay * factors.weight_decay : 0.0;
    const double t = double(state.step + 1), c1 = 1 - std::pow(s.beta1, t), c2 = 1 - std::pow(s.beta2, t);
    std::vector<double> r(p.size());
    double pp = 0, rr = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double l2 = s.name == OptimizerName::adam ? wd * p[i] : 0.0;
      const double g = gradient[i] * factor + l2, before = m[i];
      switch (s.name) {
        case OptimizerName::sgd:
          m[i] = s.momentum * m[i] + g + wd * p[i];
          r[i] = s.nesterov ? g + wd * p[i] + s.momentum * m[i] : m[i];
          break;
        case OptimizerName::momentum_hp:
          m[i] = s.momentum * m[i] + g;
          r[i] = s.nesterov ? g + s.momentum * m[i] : m[i];
          break;
        case OptimizerName::lion: {
          const double c = s.beta1 * before + (1 - s.beta1) * g;
          r[i] = c > 0 ? 1.0 : c < 0 ? -1.0 : 0.0;
          m[i] = s.beta2 * before + (1 - s.beta2) * g;
          break;
        }
        default:
          m[i] = s.beta1 * m[i] + (1 - s.beta1) * g;
          v[i] = s.beta2 * v[i] + (1 - s.beta2) * g * g;
          r[i] = m[i] / c1 / (std::sqrt(v[i] / c2) + s.eps);
      }
      if (s.name == OptimizerName::lamb) r[i] += wd * p[i];
      pp += p[i] * p[i];
      rr += r[i] * r[i];
    }
    const bool adapts = s.name == OptimizerName::lamb && wd > 0;
    const bool big_vision = s.name == OptimizerName::big_vision_adam || s.name == OptimizerName::momentum_hp;
    const bool decoupled = s.name == OptimizerName::adamw || s.name == OptimizerName::lion;
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (big_vision)
        p[i] -= state.schedule * wd * p[i];
      else if (decoupled)
        p[i] -= lr * wd * p[i];
      p[i] -= lr * (adapts ? std::sqrt(pp / rr) : 1.0) * r[i];
    }
  }
};

/// A network of three parameters, the first of more than one chunk, and what it should become.
struct Twin {
  Twin(const OptimizerSettings& settings, std::span<const UpdateFactors> factors, ClipForm form = ClipForm::torch) {
    set.add("a.weight", {150, 130}, {.decays = true});
    set.add("a.bias", {37});
    set.add("b.weight", {9, 50}, {.decays = true});
    set.allocate(DType::f64, 3);
    optimizer = std::make_unique<Optimizer>(current_device().backend, set, settings, factors, form);
    for (int i = 0; i < 3; ++i) {
      fill_normal(set.value(i), 1 + static_cast<std::uint64_t>(i), 0.1);
      const auto n = static_cast<std::size_t>(set.value(i).size());
      expected.push_back({copy(set.value(i)), std::vector<double>(n), std::vector<double>(n),
                          factors.empty() ? UpdateFactors{} : factors[static_cast<std::size_t>(i)],
                          set.parameters()[static_cast<std::size_t>(i)].decays});
    }
  }
  ParameterSet set{current_device().memory()};
  std::unique_ptr<Optimizer> optimizer;
  std::vector<Reference> expected;
};

/// Everything that a step may write.
std::vector<std::byte> bytes_of(Twin& twin) {
  std::vector<std::byte> bytes;
  const auto append = [&](const Tensor& t) {
    const auto* begin = static_cast<const std::byte*>(t.raw());
    bytes.insert(bytes.end(), begin, begin + t.bytes());
  };
  append(twin.set.flat_values());
  for (const Optimizer::Moment& moment : twin.optimizer->moments()) append(moment.flat);
  return bytes;
}

void fill_gradients(Twin& twin, int step) {
  for (std::int64_t lane = 0; lane < 3; ++lane)
    for (int i = 0; i < 3; ++i)
      fill_normal(twin.set.gradient(lane, i), static_cast<std::uint64_t>(100 * (step + 1) + 10 * i + lane), 1.0);
}

OptimizerSettings settings_of(OptimizerName name) {
  OptimizerSettings settings;
  settings.name = name;
  settings.nesterov = true;
  if (name == OptimizerName::lion) settings.beta2 = 0.99;
  return settings;
}

/// Calls `check` for each optimiser on each device after one step, with a function that takes another one.
void after_one_step(const std::function<void(Twin&, const std::function<void()>&, const StepState&)>& check) {
  on_each_device([&] {
    for (const OptimizerName name : kAll) {
      CAPTURE(static_cast<int>(name));
      OptimizerSettings settings = settings_of(name);
      settings.bf16_moment = true;
      Twin twin(settings, {});
      ShardPool pool(2);
      StepState state;
      state.lr = 0.01;
      fill_gradients(twin, 0);
      const auto step = [&] { step_on_device(*twin.optimizer, pool, state); };
      step();
      ++state.step;
      check(twin, step, state);
    }
  });
}

/// A step of LAMB with decay on two of three parameters, of which the last is zero.
struct LambStep {
  LambStep() {
    set.add("a.weight", {40, 500}, {.decays = true});  // two chunks
    set.add("a.bias", {5});
    set.add("zero.weight", {5}, {.decays = true});
    set.allocate(DType::f64, 1);
    OptimizerSettings settings;
    settings.name = OptimizerName::lamb;
    settings.weight_decay = 0.5;
    optimizer = std::make_unique<Optimizer>(current_device().backend, set, settings);
    std::fill_n(set.value(0).data<double>(), 20000, 3.0);
    std::fill_n(set.value(1).data<double>(), 5, 3.0);
    std::fill_n(set.gradient(0, 0).data<double>(), 20000, 2.0);
    std::fill_n(set.gradient(0, 1).data<double>(), 5, 2.0);
    std::fill_n(set.gradient(0, 2).data<double>(), 5, 2.0);
    ShardPool pool(1);
    StepState state;
    state.lr = 0.1;
    step_on_device(*optimizer, pool, state);
  }
  ParameterSet set{current_device().memory()};
  std::unique_ptr<Optimizer> optimizer;
};

}  // namespace

TEST_CASE("optimizer: each optimiser follows its formula") {
  on_each_device([] {
    const std::vector<UpdateFactors> factors{{0.5, 1.0}, {2.0, 1.0}, {1.0, 0.0}};
    for (const OptimizerName name : kAll)
      for (const bool with_factors : {false, true})
        for (const ClipForm form : {ClipForm::torch, ClipForm::optax}) {
          CAPTURE(static_cast<int>(name));
          CAPTURE(with_factors);
          OptimizerSettings settings = settings_of(name);
          Twin twin(settings, with_factors ? factors : std::vector<UpdateFactors>{}, form);
          ShardPool pool(2);
          StepState state;
          for (int step = 0; step < 4; ++step) {
            fill_gradients(twin, step);
            std::vector<std::vector<double>> gradients;
            double square = 0.0;
            for (int i = 0; i < 3; ++i) {
              std::vector<double> sum = copy(twin.set.gradient(0, i));
              for (std::int64_t lane = 1; lane < 3; ++lane)
                for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += twin.set.gradient(lane, i).data<double>()[k];
              for (const double g : sum) square += g * g;
              gradients.push_back(std::move(sum));
            }
            const double norm = std::sqrt(square);
            state.lr = 0.01;
            state.schedule = 0.3;
            state.clip_norm = step == 2 ? 0.0 : step == 3 ? 1e9 : 1.0;
            const double limit = state.clip_norm;
            const double torch = limit > 0 ? std::min(1.0, limit / (norm + 1e-6)) : 1.0;
            const double optax = limit > 0 && norm >= limit ? limit / norm : 1.0;
            for (std::size_t i = 0; i < 3; ++i)
              twin.expected[i].step(settings, state, gradients[i], form == ClipForm::torch ? torch : optax);
            step_on_device(*twin.optimizer, pool, state);
            ++state.step;
            CHECK(state.grad_norm == doctest::Approx(norm).epsilon(1e-12));
            double worst = 0.0;
            for (int i = 0; i < 3; ++i)
              for (std::size_t k = 0; k < twin.expected[static_cast<std::size_t>(i)].p.size(); ++k)
                worst = std::max(worst, std::abs(twin.expected[static_cast<std::size_t>(i)].p[k] -
                                                 twin.set.value(i).data<double>()[k]));
            CHECK(worst < 1e-12);
          }
        }
  });
}

TEST_CASE("optimizer: any number of threads gives the same bits") {
  on_each_device([] {
    for (const OptimizerName name : kAll)
      for (const bool narrow : {false, true}) {
        std::vector<std::byte> first;
        for (const int threads : {1, 2, 3}) {
          OptimizerSettings settings = settings_of(name);
          settings.bf16_moment = narrow;
          Twin twin(settings, {});
          ShardPool pool(threads);
          StepState state;
          state.lr = 0.01;
          state.clip_norm = 1.0;
          for (int step = 0; step < 3; ++step, ++state.step) {
            fill_gradients(twin, step);
            step_on_device(*twin.optimizer, pool, state);
          }
          if (threads == 1) first = bytes_of(twin);
          CHECK(bytes_of(twin) == first);
        }
      }
  });
}

TEST_CASE("optimizer: a gradient that is not finite changes nothing") {
  after_one_step([](Twin& twin, const std::function<void()>& step, const StepState& state) {
    const std::vector<std::byte> before = bytes_of(twin);
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      fill_gradients(twin, 1);
      twin.set.gradient(1, 2).data<double>()[449] = bad;
      step();
      CHECK(state.nonfinite == 1);
      CHECK(bytes_of(twin) == before);
    }
  });
}

TEST_CASE("optimizer: after a gradient that is not finite the next step counts") {
  after_one_step([](Twin& twin, const std::function<void()>& step, const StepState& state) {
    const std::vector<std::byte> before = bytes_of(twin);
    fill_gradients(twin, 1);
    twin.set.gradient(1, 2).data<double>()[449] = std::numeric_limits<double>::infinity();
    step();
    fill_gradients(twin, 1);
    step();
    CHECK(state.nonfinite == 0);
    CHECK(bytes_of(twin) != before);
  });
}

TEST_CASE("optimizer: parameters without values are stepped") {
  on_each_device([] {
    for (const OptimizerName name : kAll) {
      ParameterSet nothing(current_device().memory()), hollow(current_device().memory());
      nothing.allocate(DType::f32, 1);
      hollow.add("a.weight", {0, 3}, {.decays = true});
      hollow.add("b.weight", {2, 2}, {.decays = true});
      hollow.add("c.bias", {0});
      hollow.allocate(DType::f32, 1);
      ShardPool pool(1);
      for (ParameterSet* set : {&nothing, &hollow}) {
        Optimizer optimizer(current_device().backend, *set, settings_of(name));
        StepState state;
        state.lr = 0.1;
        step_on_device(optimizer, pool, state);
        CHECK(state.grad_norm == 0.0);
      }
    }
  });
}

TEST_CASE("optimizer: LAMB scales a step by |p| / |r|") {
  on_each_device([] {
    LambStep lamb;
    CHECK(lamb.set.value(0).data<double>()[19999] == doctest::Approx(3.0 - 0.1 * 3.0));  // |p| / |r| times r is 3
  });
}

TEST_CASE("optimizer: LAMB's ratio is 1 without decay") {
  on_each_device([] {
    LambStep lamb;
    CHECK(lamb.set.value(1).data<double>()[0] == doctest::Approx(3.0 - 0.1));
  });
}

TEST_CASE("optimizer: LAMB's ratio is 1 where a norm is zero") {
  on_each_device([] {
    LambStep lamb;
    CHECK(lamb.set.value(2).data<double>()[0] == doctest::Approx(-0.1));
  });
}

TEST_CASE("optimizer: Lion moves nothing where its direction is zero") {
  on_each_device([] {
    ParameterSet set(current_device().memory());
    set.add("a.bias", {3});
    set.allocate(DType::f32, 1);
    OptimizerSettings settings;
    settings.name = OptimizerName::lion;
    Optimizer optimizer(current_device().backend, set, settings);
    set.gradient(0, 0).data<float>()[0] = 1e-30f;
    set.gradient(0, 0).data<float>()[1] = -1e3f;
    ShardPool pool(1);
    StepState state;
    state.lr = 0.25;
    step_on_device(optimizer, pool, state);
    CHECK(set.value(0).data<float>()[0] == -0.25f);
    CHECK(set.value(0).data<float>()[1] == 0.25f);
    CHECK(set.value(0).data<float>()[2] == 0.0f);
  });
}

TEST_CASE("optimizer: moment_bytes is the bytes of all moments of a value") {
  OptimizerSettings s;
  CHECK(moment_bytes(s) == 8);
  CHECK(moment_bytes(s, DType::f64) == 16);
  s.bf16_moment = true;  // means nothing to AdamW
  CHECK(moment_bytes(s) == 8);
  s.name = OptimizerName::big_vision_adam;
  CHECK(moment_bytes(s) == 6);
  s.name = OptimizerName::momentum_hp;
  CHECK(moment_bytes(s) == 2);
  s.name = OptimizerName::lion;
  CHECK(moment_bytes(s) == 4);
  s.name = OptimizerName::lamb;
  CHECK(moment_bytes(s) == 8);
}

TEST_CASE("optimizer: factors for another number of parameters are refused") {
  ParameterSet set(current_device().memory());
  set.add("a.bias", {3});
  set.allocate(DType::f32, 1);
  CHECK_THROWS_WITH_AS(Optimizer(current_device().backend, set, {}, std::vector<UpdateFactors>(2)),
                       "optimizer: 2 factors for 1 parameters", InputError);
}
