#include "experiments/lab/pictures/chart.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>

using namespace normlab;

namespace {

/// Calls `check` with random ranges, numbers of ticks and their axes.
template <class Check>
void for_random_axes(const Check& check) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> exponent(-5, 6), where(-1, 1);
  for (int round = 0; round < 2000; ++round) {
    const double width = std::pow(10.0, exponent(random)), middle = width * 20 * where(random);
    const double low = middle - width / 2, high = middle + width / 2;
    const std::size_t wanted = 2 + std::size_t(round) % 8;
    CAPTURE(low);
    CAPTURE(high);
    CAPTURE(wanted);
    check(make_axis(low, high, wanted), low, high, wanted);
  }
}

}  // namespace

TEST_CASE("axis: an axis covers its range with less than a step on each side") {
  for_random_axes([](const PlotAxis& axis, double low, double high, std::size_t) {
    const double width = high - low;
    CHECK(axis.low <= low + 1e-6 * width);
    CHECK(axis.high >= high - 1e-6 * width);
    CHECK(axis.low > low - 1.001 * axis.step);
    CHECK(axis.high < high + 1.001 * axis.step);
  });
}

TEST_CASE("axis: the number of ticks is near the one that is wanted") {
  for_random_axes([](const PlotAxis& axis, double, double, std::size_t wanted) {
    CHECK(axis.ticks.size() >= 2);
    CHECK(axis.ticks.size() <= 2 * wanted + 3);
  });
}

TEST_CASE("axis: ticks are one round step apart") {
  for_random_axes([](const PlotAxis& axis, double, double, std::size_t) {
    const double leading = axis.step / std::pow(10.0, std::floor(std::log10(axis.step) + 1e-9));
    CHECK((std::abs(leading - 1) < 1e-6 || std::abs(leading - 2) < 1e-6 || std::abs(leading - 5) < 1e-6));
    for (std::size_t i = 1; i < axis.ticks.size(); ++i)
      CHECK(axis.ticks[i] - axis.ticks[i - 1] == doctest::Approx(axis.step).epsilon(1e-6));
  });
}

TEST_CASE("axis: each tick has its own name") {
  for_random_axes([](const PlotAxis& axis, double, double, std::size_t) {
    std::set<std::string> names;
    for (const double tick : axis.ticks) names.insert(tick_label(tick, axis.step));
    CHECK(names.size() == axis.ticks.size());
  });
}

TEST_CASE("axis: known ranges have the expected ticks") {
  const PlotAxis gains = make_axis(-6.3, 1.7, 7);
  CHECK(gains.low == -7);
  CHECK(gains.high == 2);
  CHECK(gains.step == 1);
  const PlotAxis steps = make_axis(0, 3900, 4);
  CHECK(steps.ticks == std::vector<double>{0, 1000, 2000, 3000, 4000});
}

TEST_CASE("axis: a range without a width or of no numbers has an axis") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& range : {std::pair{0.0, 0.0},
                            {5.0, 5.0},
                            {-3e-9, -3e-9},
                            {nan, nan},
                            {-inf, inf},
                            {2.0, nan},
                            {7.0, 3.0},
                            {1e300, 1e300},
                            {-1.7e308, 1.7e308},
                            {1.0, 1.0 + 1e-16}}) {
    const double low = range.first, high = range.second;
    CAPTURE(low);
    CAPTURE(high);
    const PlotAxis axis = make_axis(low, high, 4);
    CHECK(axis.low < axis.high);
    CHECK(axis.ticks.size() >= 2);
    CHECK(axis.ticks.size() <= 12);
    CHECK(std::isfinite(axis.pixel(axis.low, 0, 100)));
  }
}

TEST_CASE("axis: the name of a tick has the digits of the step") {
  CHECK(tick_label(0.25, 0.05) == "0.25");
  CHECK(tick_label(1, 0.5) == "1.0");
  CHECK(tick_label(-2, 1) == "\u22122");
  CHECK(tick_label(2, 1, true) == "+2");
  CHECK(tick_label(0, 1, true) == "0");
  CHECK(tick_label(1e-17, 0.5) == "0");  // what sums of steps leave of zero
  CHECK(tick_label(20000, 5000) == "20,000");
  CHECK(tick_label(-12500, 500) == "\u221212,500");
  CHECK(tick_label(9500, 500) == "9,500");
  CHECK(tick_label(999, 1) == "999");
  CHECK(tick_label(1.5e6, 500000) == "1.5M");
  CHECK(tick_label(1e-5, 1e-5) == "10⁻⁵");
  CHECK(tick_label(2e7, 1e7) == "20M");
}

TEST_CASE("axis: numbers are as people write them") {
  for (const auto& [value, text] : std::vector<std::pair<double, const char*>>{{0, "0"},
                                                                               {0.001, "0.001"},
                                                                               {0.25, "0.25"},
                                                                               {-2000, "−2,000"},
                                                                               {-0.0078125, "−0.00781"},
                                                                               {999.6, "1,000"},
                                                                               {12345.6, "12,346"},
                                                                               {1e-5, "10⁻⁵"},
                                                                               {3e-5, "3×10⁻⁵"},
                                                                               {9.996e-5, "10⁻⁴"},
                                                                               {-1.25e30, "−1.25×10³⁰"},
                                                                               {1e6, "10⁶"},
                                                                               {1e300, "10³⁰⁰"}})
    CHECK(number_label(value) == text);
  CHECK(number_label(2, true) == "+2");
  CHECK(number_label(-2, true) == "−2");
  CHECK(number_label(-std::numeric_limits<double>::infinity()) == "−∞");
}

TEST_CASE("axis: few extreme values do not set the ends, many do") {
  const std::vector<double> most{-3, -2, -1, -1, 0, 0, 1, 1, 2, 4};
  const auto with = [&](std::vector<double> more) {
    more.insert(more.end(), most.begin(), most.end());
    return central_range(more, 0.25, 3);
  };
  CHECK(with({-155, 101}) == std::pair(-3.0, 4.0));
  CHECK(with({}) == std::pair(-3.0, 4.0));
  CHECK(with({5}) == std::pair(-3.0, 5.0));
  CHECK(with({9}) == std::pair(-3.0, 9.0));  // far, but without it the range would not be halved
  CHECK(with({100, 101, 102, 103, 104}) == std::pair(-3.0, 104.0));
  CHECK(central_range({1, 1, 1, 1, 1, 7}, 0.25, 3) == std::pair(1.0, 7.0));
  CHECK(central_range({5}, 0.25, 3) == std::pair(5.0, 5.0));
}

TEST_CASE("axis: limits are exact, with round ticks between them") {
  Chart chart{"gain", "A test", "", "step"};
  chart.panels = {{"", "loss", {{"a", {{0, 1, 1, 1, 1}, {4000, 2, 2, 2, 1}}}}}};
  set_chart_axes(chart, ChartScale::linear, ChartScale::linear);
  set_limits(chart, 150, 2150);
  CHECK(chart.across.low == 150);
  CHECK(chart.across.high == 2150);
  CHECK(chart.across.ticks == std::vector<double>{500, 1000, 1500, 2000});
  set_chart_axes(chart, ChartScale::logarithmic, ChartScale::linear);
  CHECK_THROWS_WITH(set_limits(chart, 0, 10), "--xlim: gain has a logarithmic axis across, whose limits are above 0");
  set_limits(chart, 0.01, 10);
  CHECK(chart.across.low == doctest::Approx(-2));
  CHECK(chart.across.ticks.size() == 4);
  chart.categories = {"embed", "head"};
  CHECK(!set_limits(chart, 1, 2));
  CHECK(chart.across.low == doctest::Approx(-2));
}

TEST_CASE("axis: a logarithmic axis has powers of ten, and digits between them if it is short") {
  const auto labels = [](const PlotAxis& axis) {
    std::string text;
    for (const double tick : axis.ticks) text += axis.label(tick) + " ";
    return text;
  };
  const PlotAxis wide = make_log_axis(3e-4, 0.3);
  CHECK(labels(wide) == "0.001 0.01 0.1 ");
  CHECK(wide.place(0.01) == doctest::Approx(-2));
  CHECK(wide.low < std::log10(3e-4));
  CHECK(wide.high > std::log10(0.3));
  CHECK(labels(make_log_axis(1, 100)) == "1 10 100 ");
  CHECK(labels(make_log_axis(1e-3, 1e-2)) == "0.001 0.003 0.01 ");
  CHECK(labels(make_log_axis(1e-3, 6e-3)) == "0.001 0.002 0.005 ");
  const PlotAxis one = make_log_axis(0.01, 0.01);
  CHECK(one.low < one.high);
  CHECK(labels(one) == "0.01 ");
}

TEST_CASE("axis: a scale maps the ends of the axis to those of the picture") {
  const PlotAxis y{.low = 10, .high = 20, .ticks = {}};
  CHECK(y.pixel(10, 150, 50) == 150);
  CHECK(y.pixel(20, 150, 50) == 50);
  CHECK(y.pixel(12.5, 150, 50) == 125);
}
