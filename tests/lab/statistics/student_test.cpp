#include "experiments/lab/statistics/student.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "tests/lab/statistics/known_tests.h"
#include "tests/lab/statistics/relative_error.h"

using namespace normlab;

namespace {

std::map<std::uint64_t, double> by_seed(const std::vector<double>& values) {
  std::map<std::uint64_t, double> result;
  for (const double value : values) result[result.size()] = value;
  return result;
}

const std::vector<double> kBase{76.263, 75.829, 75.947, 76.535, 75.904};
const std::vector<double> kOther{76.657, 76.507, 76.196, 77.073, 76.612};

}  // namespace

TEST_CASE("student: quantiles of Student's t are SciPy's") {
  // SciPy 1.x, stats.t.ppf(0.975, freedom)
  const std::map<double, double> quantiles{{1, 12.706204736174751},  {2, 4.302652729749459},  {3, 3.182446305283703},
                                           {4, 2.77644510519778},    {5, 2.5705818356363244}, {9, 2.2621571627982195},
                                           {10, 2.2281388519862624}, {29, 2.04522964213273},  {99, 1.984216951586296}};
  for (const auto& entry : quantiles) {
    const double freedom = entry.first, expected = entry.second;
    CAPTURE(freedom);
    CHECK(relative_error(student_t_two_sided_quantile(0.05, freedom), expected) < 1e-12);
    CHECK(relative_error(1 - student_t_tail(expected, freedom), 0.975) < 1e-14);
  }
}

TEST_CASE("student: one and two degrees of freedom have their closed forms") {
  // One degree of freedom is Cauchy's distribution.
  for (const double t : {-30.0, -1.0, -1e-9, 0.0, 0.3, 2.0, 1e6}) {
    CHECK(student_t_tail(t, 1) == doctest::Approx(0.5 - std::atan(t) / M_PI).epsilon(1e-13));
    CHECK(student_t_tail(t, 2) == doctest::Approx(0.5 - t / (2 * std::sqrt(2 + t * t))).epsilon(1e-13));
  }
}

TEST_CASE("student: a far quantile of one degree of freedom is Cauchy's") {
  CHECK(relative_error(student_t_two_sided_quantile(2e-6, 1), std::tan(M_PI * (0.5 - 1e-6))) < 1e-9);
}

TEST_CASE("student: no values have no interval") { CHECK(!mean_interval({})); }

TEST_CASE("student: one value has a mean without a half width") {
  const auto one = mean_interval(std::vector<double>{76.053});
  CHECK(one->mean == 76.053);
  CHECK(one->n == 1);
  CHECK(!one->half_width);
}

TEST_CASE("student: the interval of a mean is SciPy's") {
  CHECK(relative_error(*mean_interval(std::vector<double>{75.909, 75.996})->half_width, 0.5527199060235323) < 1e-10);
  CHECK(relative_error(*mean_interval(std::vector<double>{76.086, 75.545, 76.045})->half_width, 0.7482452063921853) <
        1e-10);
  const auto five = mean_interval(kBase);
  CHECK(relative_error(five->mean, 76.09559999999999) < 1e-14);
  CHECK(relative_error(*five->half_width, 0.36779420651764694) < 1e-10);
}

TEST_CASE("student: the interval of further values is SciPy's") {
  // stats.t.ppf(0.975, 4) * s * sqrt(1 / further + 1 / 5)
  CHECK(relative_error(*prediction_interval(kBase)->half_width, 0.9009081363200584) < 1e-10);
  CHECK(relative_error(*prediction_interval(kBase, 2)->half_width, 0.6880799548147104) < 1e-10);
  CHECK(prediction_interval(kBase)->mean == mean_interval(kBase)->mean);
  CHECK(!prediction_interval({}));
  CHECK(!prediction_interval(std::vector<double>{76.053})->half_width);
}

TEST_CASE("student: equal values have a half width of 0") {
  CHECK(*mean_interval(std::vector<double>{3, 3, 3})->half_width == 0);
  int unequal_means = 0;
  for (int k = 1; k < 1000; ++k) {
    const std::vector<double> values(3, 100 * (k / 1000.0));
    unequal_means += mean(values) != values[0];
    CHECK(*mean_interval(values)->half_width == 0);
  }
  CHECK(unequal_means > 0);
}

TEST_CASE("student: the interval of paired differences is SciPy's") {
  const auto five = paired_difference(by_seed(kBase), by_seed(kOther));
  CHECK(relative_error(five->mean, 0.5133999999999986) < 1e-12);
  CHECK(relative_error(*five->half_width, 0.24023166203682275) < 1e-10);
}

TEST_CASE("student: differences take only the seeds that both rows have") {
  const auto two = paired_difference({{1, 10.0}, {2, 20.0}, {3, 30.0}}, {{3, 31.5}, {2, 20.5}, {9, 1.0}});
  CHECK(two->n == 2);
  CHECK(two->mean == 1.0);
  CHECK(!paired_difference({{1, 10.0}}, {{2, 20.0}}));
}

TEST_CASE("student: Welch's interval is SciPy's") {
  // SciPy 1.17.1, stats.ttest_ind(kBase, other, equal_var=False) and its confidence_interval(0.95)
  const std::vector<double> other{76.657, 76.507, 77.9};
  const WelchInterval welch = welch_interval(kBase, other);
  CHECK(relative_error(welch.difference, -0.9257333333333406) < 1e-12);
  CHECK(relative_error(welch.half_width, 1.7158686634038949) < 1e-10);
  CHECK(relative_error(welch.freedom, 2.3667883559586613) < 1e-10);
  CHECK(relative_error(*welch.p, 0.16222637288415317) < 1e-10);
  const WelchInterval swapped = welch_interval(other, kBase);
  CHECK(swapped.difference == -welch.difference);
  CHECK(swapped.half_width == welch.half_width);
}

TEST_CASE("student: Welch's interval of sides without spread has no p") {
  CHECK(!welch_interval(std::vector<double>{1, 1}, std::vector<double>{2, 2}).p);
  CHECK(welch_interval(std::vector<double>{1, 1}, std::vector<double>{2, 3}).freedom == 1);
}

TEST_CASE("student: small tails keep their digits") {
  CHECK(relative_error(student_t_two_sided(40, 10), 2.280857743086e-12) < 1e-8);
  CHECK(relative_error(student_t_two_sided_quantile(1e-10, 5), 180.149100848) < 1e-8);
}

TEST_CASE("student: the two-sided tail is symmetric") {
  CHECK(student_t_two_sided(-2.5, 7) == student_t_two_sided(2.5, 7));
}

TEST_CASE("student: the two-sided tail runs from 1 to 0") {
  CHECK(student_t_two_sided(0, 7) == 1);
  CHECK(student_t_two_sided(1e300, 3) == 0);
}

TEST_CASE("student: the factor of an effect size is in Hedges' table") {
  // Hedges, Journal of Educational Statistics 6 (1981), table 1: c(m) by degrees of freedom.
  const std::map<std::size_t, double> table{{2, 0.5642}, {3, 0.7236}, {4, 0.7979}, {5, 0.8408}, {10, 0.9228}};
  for (const auto& [freedom, factor] : table) {
    std::vector<double> differences;  // with mean 1
    for (std::size_t i = 0; i <= freedom; ++i) differences.push_back(double(i) - double(freedom) / 2 + 1);
    const double sd = sample_sd(differences);
    CHECK(*paired_effect_size(differences) * sd == doctest::Approx(factor).epsilon(1e-4));
  }
}

TEST_CASE("student: an effect size needs three differences with a spread") {
  CHECK(!paired_effect_size(std::vector<double>{1, 2}));
  CHECK(!paired_effect_size(std::vector<double>{2, 2, 2}));
  CHECK(*paired_effect_size(std::vector<double>{-1, -2, -3}) < 0);
}
