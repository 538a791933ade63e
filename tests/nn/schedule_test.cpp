#include "nn/schedule.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/error.h"

using namespace normlab;

namespace {
ScheduleSettings make(ScheduleName name, double lr, double final_lr, std::int64_t total, std::int64_t warmup) {
  return {.name = name, .lr = lr, .final_lr = final_lr, .total = total, .warmup = warmup};
}
ScheduleSettings compound(const char* factors) {
  ScheduleSettings s = make(ScheduleName::compound, 0.4, 0.1, 100, 0);
  s.factors = factors;
  return s;
}
}  // namespace

TEST_CASE("schedule: a lifted warm-up starts above zero, and each ends where it should") {
  using K = ScheduleName;
  const auto rate = [](const ScheduleSettings& s, std::int64_t step) { return Schedule(s).rate(step); };
  CHECK(rate(make(K::cosine, 1.0, 0.0, 100, 4), 0) == doctest::Approx(0.2));
  CHECK(rate(make(K::cosine, 1.0, 0.0, 100, 4), 3) == doctest::Approx(0.8));
  CHECK(rate(make(K::cosine, 1.0, 0.0, 100, 4), 4) == doctest::Approx(1.0));
  CHECK(rate(make(K::cosine, 1.0, 0.0, 100, 4), 52) == doctest::Approx(0.5));
  CHECK(rate(make(K::cosine, 1.0, 0.1, 100, 4), 100) == doctest::Approx(0.1));
  CHECK(rate(make(K::linear, 1.0, 0.1, 100, 10), 55) == doctest::Approx(0.55));
  CHECK(rate(make(K::constant, 0.3, 0.1, 100, 0), 99) == doctest::Approx(0.3));
  CHECK(rate(make(K::polynomial, 1.0, 0.2, 100, 0), 50) == doctest::Approx(0.6));
  CHECK(rate(make(K::cosine, 1.0, 0.0, 3, 10), 5) ==
        doctest::Approx(6.0 / 11));  // a training that ends within its warm-up
}

// The bits of trainings that were: what was computed then, spelled out.
TEST_CASE("schedule: lifted warm-up, linear and cosine keep their bits") {
  const double lr = 0.0123, end = 1e-5;
  for (std::int64_t step = 0; step < 400; ++step) {
    const double done = double(step - 20) / 380.0;
    const double warm = lr * double(step + 1) / double(21);
    CHECK(Schedule(make(ScheduleName::cosine, lr, end, 400, 20)).rate(step) ==
          (step < 20 ? warm : end + (lr - end) * 0.5 * (1 + std::cos(M_PI * done))));
    CHECK(Schedule(make(ScheduleName::linear, lr, end, 400, 20)).rate(step) ==
          (step < 20 ? warm : lr + (end - lr) * done));
  }
}

TEST_CASE("schedule: a line leads from warmup_from to the peak") {
  ScheduleSettings s = make(ScheduleName::cosine, 1e-3, 5e-6, 300, 20);  // Swin's, in steps
  s.warmup_form = Warmup::line;
  s.warmup_from = 5e-7;
  CHECK(Schedule(s).rate(0) == 5e-7);
  CHECK(Schedule(s).rate(10) == doctest::Approx((5e-7 + 1e-3) / 2));
  CHECK(Schedule(s).rate(20) == doctest::Approx(1e-3));
  CHECK(Schedule(s).rate(300) == doctest::Approx(5e-6));
}

TEST_CASE("schedule: counted from step 0, the way down has begun when the warm-up ends") {
  ScheduleSettings s = make(ScheduleName::cosine, 1.0, 0.0, 300, 20);
  s.warmup_form = Warmup::line;
  s.decay_from = DecayFrom::start;
  CHECK(Schedule(s).rate(10) == doctest::Approx(0.5));
  CHECK(Schedule(s).rate(20) == doctest::Approx(0.5 * (1 + std::cos(M_PI * 20 / 300))));
  CHECK(Schedule(s).rate(150) == doctest::Approx(0.5));
}

TEST_CASE("schedule: rsqrt begins at its value with the shift, stays above the least rate, and cools down to zero") {
  ScheduleSettings s = make(ScheduleName::rsqrt, 2.0, 0.5, 1000, 10);
  s.timescale = 10;
  s.shift = 30;
  s.cooldown = 100;
  s.warmup_form = Warmup::line;
  CHECK(Schedule(s).rate(0) == 0.0);
  CHECK(Schedule(s).rate(5) == doctest::Approx(0.5));
  CHECK(Schedule(s).rate(10) == doctest::Approx(1.0));
  CHECK(Schedule(s).rate(60) == doctest::Approx(2.0 / 3.0));
  CHECK(Schedule(s).rate(899) == doctest::Approx(0.5));
  CHECK(Schedule(s).rate(950) == doctest::Approx(0.25));
  CHECK(Schedule(s).rate(1000) == 0.0);
  CHECK(Schedule(s).value(950) == doctest::Approx(0.125));
}

TEST_CASE("schedule: the value is the rate over its peak, for a peak of zero as for any other") {
  ScheduleSettings s = make(ScheduleName::cosine, 0.0, 0.0, 100, 0);
  CHECK(Schedule(s).rate(50) == 0.0);
  CHECK(Schedule(s).value(50) == doctest::Approx(0.5));
}

TEST_CASE("schedule: factors of a compound one are multiplied as in Scenic") {
  const auto rate = [](const ScheduleSettings& s, std::int64_t step) { return Schedule(s).rate(step); };
  ScheduleSettings s = compound("constant * polynomial*linear_warmup");
  s.power = 0.9;
  s.warmup = 20;
  s.warmup_form = Warmup::line;
  CHECK(rate(s, 0) == 0.0);
  CHECK(rate(s, 10) == doctest::Approx(0.4 * (0.75 * std::pow(0.9, 0.9) + 0.25) * 0.5));
  CHECK(rate(s, 50) == doctest::Approx(0.4 * (0.75 * std::pow(0.5, 0.9) + 0.25)));
  CHECK(rate(s, 100) == doctest::Approx(0.1));
  s = compound("constant * rsqrt_decay");
  s.timescale = 25;
  CHECK(rate(s, 75) == doctest::Approx(0.4 * 5 / 10));
  s = compound("constant*decay_every");
  s.decay_every = 30;
  s.decay_factor = 0.1;
  CHECK(rate(s, 29) == doctest::Approx(0.4));
  CHECK(rate(s, 60) == doctest::Approx(0.004));
  s = compound("constant * cosine_decay * linear_cooldown");
  s.cooldown = 50;
  CHECK(rate(s, 50) == doctest::Approx(0.25));
  CHECK(rate(s, 75) == doctest::Approx(0.5 * (0.1 + 0.3 * 0.5 * (1 + std::cos(0.75 * M_PI)))));
  s = compound("constant * linear_decay");
  CHECK(rate(s, 0) == doctest::Approx(0.4));
  CHECK(rate(s, 50) == doctest::Approx(0.25));
  CHECK(rate(s, 100) == doctest::Approx(0.1));
}

TEST_CASE("schedule: unknown, double and missing factors are told") {
  CHECK(problem_of_factors("constant * cosine") == "unknown factor \"cosine\"");
  CHECK(problem_of_factors("constant * ") == "unknown factor \"\"");
  CHECK(problem_of_factors("") == "unknown factor \"\"");
  CHECK(problem_of_factors("constant * polynomial * constant") == "the factor constant comes up twice");
  CHECK(problem_of_factors("polynomial") == "without the factor constant, which is lr, lr would have no effect");
  CHECK(!problem_of_factors("polynomial*constant").has_value());
  CHECK_THROWS_AS(Schedule{compound("polynomial")}, InputError);
  CHECK_THROWS_AS(Schedule{compound("constant * linear_cooldown")}, InputError);
}
