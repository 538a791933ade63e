#include "nn/training/schedule.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/error.h"

using namespace normlab;

namespace {
struct Training {
  ScheduleSettings settings;
  double lr;
  std::int64_t total, warmup;
  Schedule schedule() const { return {settings, lr, total, warmup}; }
};
Training make(ScheduleName name, double lr, double final_lr, std::int64_t total, std::int64_t warmup) {
  return {{.name = name, .final_lr = final_lr}, lr, total, warmup};
}
Training compound(const char* factors) {
  Training t = make(ScheduleName::compound, 0.4, 0.1, 100, 0);
  t.settings.factors = factors;
  return t;
}
Training rsqrt() {
  Training t = make(ScheduleName::rsqrt, 2.0, 0.5, 1000, 10);
  t.settings.timescale = 10;
  t.settings.shift = 30;
  t.settings.cooldown_steps = 100;
  t.settings.warmup = Warmup::line;
  return t;
}
double rate(const Training& t, std::int64_t step) { return t.schedule().rate(step); }
}  // namespace

TEST_CASE("schedule: a lifted warm-up starts above zero") {
  const Training t = make(ScheduleName::cosine, 1.0, 0.0, 100, 4);
  CHECK(rate(t, 0) == doctest::Approx(0.2));
  CHECK(rate(t, 3) == doctest::Approx(0.8));
  CHECK(rate(t, 4) == doctest::Approx(1.0));
}

TEST_CASE("schedule: a training can end within its warm-up") {
  CHECK(rate(make(ScheduleName::cosine, 1.0, 0.0, 3, 10), 5) == doctest::Approx(6.0 / 11));
}

TEST_CASE("schedule: each form leads from the peak to the last rate") {
  using K = ScheduleName;
  CHECK(rate(make(K::cosine, 1.0, 0.0, 100, 4), 52) == doctest::Approx(0.5));
  CHECK(rate(make(K::cosine, 1.0, 0.1, 100, 4), 100) == doctest::Approx(0.1));
  CHECK(rate(make(K::linear, 1.0, 0.1, 100, 10), 55) == doctest::Approx(0.55));
  CHECK(rate(make(K::constant, 0.3, 0.1, 100, 0), 99) == doctest::Approx(0.3));
  CHECK(rate(make(K::polynomial, 1.0, 0.2, 100, 0), 50) == doctest::Approx(0.6));
}

// Earlier trainings had these bits.
TEST_CASE("schedule: linear and cosine with a lifted warm-up keep their bits") {
  const double lr = 0.0123, end = 1e-5;
  for (std::int64_t step = 0; step < 400; ++step) {
    const double done = double(step - 20) / 380.0;
    const double warm = lr * double(step + 1) / double(21);
    CHECK(make(ScheduleName::cosine, lr, end, 400, 20).schedule().rate(step) ==
          (step < 20 ? warm : end + (lr - end) * 0.5 * (1 + std::cos(M_PI * done))));
    CHECK(make(ScheduleName::linear, lr, end, 400, 20).schedule().rate(step) ==
          (step < 20 ? warm : lr + (end - lr) * done));
  }
}

TEST_CASE("schedule: a line leads from warmup_from to the peak") {
  Training t = make(ScheduleName::cosine, 1e-3, 5e-6, 300, 20);  // Swin's, in steps
  t.settings.warmup = Warmup::line;
  t.settings.warmup_from = 5e-7;
  CHECK(t.schedule().rate(0) == 5e-7);
  CHECK(t.schedule().rate(10) == doctest::Approx((5e-7 + 1e-3) / 2));
  CHECK(t.schedule().rate(20) == doctest::Approx(1e-3));
  CHECK(t.schedule().rate(300) == doctest::Approx(5e-6));
}

TEST_CASE("schedule: a decay that begins at step 0 goes on during the warm-up") {
  Training t = make(ScheduleName::cosine, 1.0, 0.0, 300, 20);
  t.settings.warmup = Warmup::line;
  t.settings.decay_from = DecayFrom::start;
  CHECK(t.schedule().rate(10) == doctest::Approx(0.5));
  CHECK(t.schedule().rate(20) == doctest::Approx(0.5 * (1 + std::cos(M_PI * 20 / 300))));
  CHECK(t.schedule().rate(150) == doctest::Approx(0.5));
}

TEST_CASE("schedule: rsqrt is shifted after its warm-up") {
  CHECK(rate(rsqrt(), 0) == 0.0);
  CHECK(rate(rsqrt(), 5) == doctest::Approx(0.5));
  CHECK(rate(rsqrt(), 10) == doctest::Approx(1.0));
  CHECK(rate(rsqrt(), 60) == doctest::Approx(2.0 / 3.0));
}

TEST_CASE("schedule: rsqrt does not fall below the last rate before its cool-down") {
  CHECK(rate(rsqrt(), 899) == doctest::Approx(0.5));
}

TEST_CASE("schedule: rsqrt cools down to zero") {
  CHECK(rate(rsqrt(), 950) == doctest::Approx(0.25));
  CHECK(rate(rsqrt(), 1000) == 0.0);
}

TEST_CASE("schedule: the value is the rate over its peak") {
  CHECK(rsqrt().schedule().value(950) == doctest::Approx(0.125));
}

TEST_CASE("schedule: a peak of zero has the values of any other") {
  Training t = make(ScheduleName::cosine, 0.0, 0.0, 100, 0);
  CHECK(t.schedule().rate(50) == 0.0);
  CHECK(t.schedule().value(50) == doctest::Approx(0.5));
}

// The factors of a compound schedule, multiplied as in Scenic.
TEST_CASE("schedule: a polynomial is multiplied by a linear warm-up") {
  Training t = compound("constant * polynomial*linear_warmup");
  t.settings.power = 0.9;
  t.warmup = 20;
  t.settings.warmup = Warmup::line;
  CHECK(rate(t, 0) == 0.0);
  CHECK(rate(t, 10) == doctest::Approx(0.4 * (0.75 * std::pow(0.9, 0.9) + 0.25) * 0.5));
  CHECK(rate(t, 50) == doctest::Approx(0.4 * (0.75 * std::pow(0.5, 0.9) + 0.25)));
  CHECK(rate(t, 100) == doctest::Approx(0.1));
}

TEST_CASE("schedule: rsqrt_decay divides by the root of the step") {
  Training t = compound("constant * rsqrt_decay");
  t.settings.timescale = 25;
  CHECK(rate(t, 75) == doctest::Approx(0.4 * 5 / 10));
}

TEST_CASE("schedule: decay_every multiplies by its factor again and again") {
  Training t = compound("constant*decay_every");
  t.settings.decay_every = 30;
  t.settings.decay_factor = 0.1;
  CHECK(rate(t, 29) == doctest::Approx(0.4));
  CHECK(rate(t, 60) == doctest::Approx(0.004));
}

TEST_CASE("schedule: the rate falls at milestones") {
  // MultiStepLR(milestones=[100, 150], gamma=0.1) counts epochs from 0.
  const ScheduleSettings settings{.name = ScheduleName::milestones, .milestones = {100, 150}, .decay_factor = 0.1};
  const Schedule schedule(settings, 3e-4, 180 * 7, 0, 7);
  CHECK(schedule.rate(0) == 3e-4);
  CHECK(schedule.rate(100 * 7 - 1) == 3e-4);
  CHECK(schedule.rate(100 * 7) == doctest::Approx(3e-5));
  CHECK(schedule.rate(150 * 7 - 1) == doctest::Approx(3e-5));
  CHECK(schedule.rate(150 * 7) == doctest::Approx(3e-6));
  CHECK(schedule.value(150 * 7) == doctest::Approx(0.01));
  CHECK(Schedule(settings, 3e-4, 180 * 7, 14, 7).rate(0) == doctest::Approx(3e-4 / 15));
}

TEST_CASE("schedule: cosine_decay is multiplied by a linear cool-down") {
  Training t = compound("constant * cosine_decay * linear_cooldown");
  t.settings.cooldown_steps = 50;
  CHECK(rate(t, 50) == doctest::Approx(0.25));
  CHECK(rate(t, 75) == doctest::Approx(0.5 * (0.1 + 0.3 * 0.5 * (1 + std::cos(0.75 * M_PI)))));
}

TEST_CASE("schedule: linear_decay leads to the last rate") {
  const Training t = compound("constant * linear_decay");
  CHECK(rate(t, 0) == doctest::Approx(0.4));
  CHECK(rate(t, 50) == doctest::Approx(0.25));
  CHECK(rate(t, 100) == doctest::Approx(0.1));
}

TEST_CASE("schedule: an unknown factor is refused") {
  CHECK(problem_of_factors("constant * cosine") == "unknown factor \"cosine\"");
  CHECK(problem_of_factors("constant * ") == "unknown factor \"\"");
  CHECK(problem_of_factors("") == "unknown factor \"\"");
}

TEST_CASE("schedule: a factor that occurs twice is refused") {
  CHECK(problem_of_factors("constant * polynomial * constant") == "the factor constant occurs twice");
}

TEST_CASE("schedule: factors without the constant are refused") {
  CHECK(problem_of_factors("polynomial") ==
        "the factor constant, which is lr, is missing, so lr would have no effect; add it");
  CHECK(!problem_of_factors("polynomial*constant").has_value());
  CHECK_THROWS_WITH_AS(compound("polynomial").schedule(),
                       "schedule: the factor constant, which is lr, is missing, so lr would have no effect; add it",
                       InputError);
}

TEST_CASE("schedule: a cool-down without steps is refused") {
  CHECK_THROWS_WITH_AS(compound("constant * linear_cooldown").schedule(),
                       "schedule: linear_cooldown needs at least one step", InputError);
}
