#include "experiments/statistics/joint_t.h"

#include <doctest/doctest.h>

#include <cmath>

#include "experiments/statistics/student.h"
#include "tests/experiments/statistics/known_tests.h"

using namespace normlab;

namespace {

const double kHalf = std::sqrt(0.5);
double relative_error(double value, double expected) { return std::abs(value - expected) / std::abs(expected); }

}  // namespace

TEST_CASE("joint_t: critical values are those of Dunnett's table") {
  // Dunnett, Biometrics 20 (1964), table 2 (two-sided, 95%): k = 2 on 5 degrees 3.03, k = 9 on 20 degrees 2.95.
  CHECK(joint_t_critical(SharedNoise::common(2, kHalf), 5, 0.95) == doctest::Approx(3.03).epsilon(0.002));
  CHECK(joint_t_critical(SharedNoise::common(9, kHalf), 20, 0.95) == doctest::Approx(2.95).epsilon(0.002));
}

TEST_CASE("joint_t: the critical value of one variable is Student's") {
  for (const double freedom : {1.0, 4.0, 96.0}) {
    CAPTURE(freedom);
    CHECK(relative_error(joint_t_critical(SharedNoise::common(1, kHalf), freedom, 0.95),
                         student_t_two_sided_quantile(0.05, freedom)) < 1e-12);
  }
}

TEST_CASE("joint_t: a critical value has its probability, within Bonferroni's bounds") {
  for (const double freedom : {1.0, 4.0, 96.0}) {
    CAPTURE(freedom);
    for (const std::size_t k : {2, 25, 2000}) {
      CAPTURE(k);
      const SharedNoise noise = SharedNoise::common(k, kHalf);
      const double critical = joint_t_critical(noise, freedom, 0.95);
      CHECK(relative_error(joint_t_probability(noise, freedom, critical), 0.95) < 1e-10);
      CHECK(critical > student_t_two_sided_quantile(0.05, freedom));
      CHECK(critical < student_t_two_sided_quantile(0.05 / double(k), freedom));
    }
  }
}

TEST_CASE("joint_t: probabilities multiply without shared noise and on many degrees") {
  const double one = 1 - student_t_two_sided(2.5, 1e6);
  CHECK(relative_error(joint_t_probability(SharedNoise::common(7, 0), 1e6, 2.5), std::pow(one, 7)) < 1e-6);
}

TEST_CASE("joint_t: no variables give probability 1, a critical value of 0 gives 0") {
  CHECK(joint_t_probability(SharedNoise{}, 5, 1) == 1);
  CHECK(joint_t_probability(SharedNoise::common(3, kHalf), 5, 0) == 0);
}

TEST_CASE("joint_t: the order of unequal loads does not matter") {
  const SharedNoise some{{{.load = 0.3, .count = 2}, {.load = 0.8, .count = 1}}};
  const SharedNoise other{{{.load = 0.8, .count = 1}, {.load = 0.3, .count = 1}, {.load = 0.3, .count = 1}}};
  CHECK(joint_t_probability(some, 9, 2.2) == joint_t_probability(other, 9, 2.2));
}

TEST_CASE("joint_t: the probability of unequal loads is SciPy's") {
  const SharedNoise some{{{.load = 0.3, .count = 2}, {.load = 0.8, .count = 1}}};
  // SciPy 1.17, multivariate_t with correlations 0.09, 0.24, 0.24 on 9 degrees; its error is below 1e-5.
  CHECK(joint_t_probability(some, 9, 2.2) == doctest::Approx(0.85621).epsilon(3e-5));
}

TEST_CASE("joint_t: the nearest common factor recovers the loads from their products") {
  const double loads[] = {0.9, 0.4, 0.6};
  std::vector<std::vector<double>> products(3, std::vector<double>(3));
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) products[i][j] = loads[i] * loads[j];
  const SharedNoise found = nearest_shared_noise(products, {1, 1, 1});
  for (int i = 0; i < 3; ++i) CHECK(found.rows[i].load == doctest::Approx(loads[i]).epsilon(1e-8));
}

TEST_CASE("joint_t: a counted variable equals the same variable written out") {
  const SharedNoise lines = nearest_shared_noise({{0.5, 0.3}, {0.3, 0.5}}, {2, 1});
  const SharedNoise apart = nearest_shared_noise({{1, 0.5, 0.3}, {0.5, 1, 0.3}, {0.3, 0.3, 1}}, {1, 1, 1});
  CHECK(lines.rows[0].load == doctest::Approx(apart.rows[0].load).epsilon(1e-8));
  CHECK(lines.rows[1].load == doctest::Approx(apart.rows[2].load).epsilon(1e-8));
  CHECK(lines.size() == 3);
}

TEST_CASE("joint_t: the best of equal rows by chance is the largest of normals") {
  // The noise of the baseline moves all rows alike, so this is the largest of k independent normals.
  const auto best = [](std::size_t k) { return expected_best({{SharedNoise::common(k, kHalf), {1.0}}}) / kHalf; };
  CHECK(best(1) == 0);
  CHECK(best(2) == doctest::Approx(1 / std::sqrt(M_PI)).epsilon(1e-10));
  CHECK(best(3) == doctest::Approx(1.5 / std::sqrt(M_PI)).epsilon(1e-10));
  CHECK(best(10) == doctest::Approx(1.5387527308).epsilon(1e-9));  // tables of order statistics
}

TEST_CASE("joint_t: rows of two strips are independent in the best by chance") {
  const ChanceGroup one{SharedNoise::common(1, kHalf), {1.0}};
  CHECK(expected_best({one, one}) == doctest::Approx(1 / std::sqrt(M_PI)).epsilon(1e-10));
}

TEST_CASE("joint_t: the best by chance of a noisy and an almost exact row") {
  // The exact row gains 0, so this is E max(0, X).
  const ChanceGroup unequal{SharedNoise{{{.load = 0, .count = 1}, {.load = 0, .count = 1}}}, {1.0, 1e-3}};
  CHECK(expected_best({unequal}) == doctest::Approx(1 / std::sqrt(2 * M_PI)).epsilon(1e-3));
}

TEST_CASE("joint_t: the best of no rows is 0") { CHECK(expected_best({}) == 0); }
