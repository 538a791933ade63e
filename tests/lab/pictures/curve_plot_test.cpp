#include "experiments/lab/pictures/curve_plot.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/lab/pictures/svg_reader.h"

using namespace normlab;

namespace {

RowCurves row(std::size_t number, const std::string& label, const std::vector<SeedCurve>& seeds) {
  return {number, label, seeds, seed_band(seeds)};
}

SeedCurve line(std::uint64_t seed, double slope, int steps = 5, TrialState state = TrialState::done) {
  SeedCurve curve{seed, state, {}};
  for (int k = 1; k <= steps; ++k) curve.values[100 * k] = slope * k;
  return curve;
}

/// One row of two seeds, the second of which diverged after step 200.
CurvePlot plot_with_divergence() {
  const MetricCurves curves{"train/loss", {row(0, "a", {line(0, 1.0), line(1, 2.0, 2, TrialState::diverged)})}};
  return curve_plot(curves, {0}, {std::nullopt}, "", 1);
}

}  // namespace

TEST_CASE("curve plot: a line and its band are where the ticks say") {
  MetricCurves curves{"eval/accuracy",
                      {row(0, "base", {line(0, 0.10), line(1, 0.12)}), row(1, "dpn", {line(0, 0.14), line(1, 0.16)})}};
  const CurvePlot plot = curve_plot(curves, {0, 1}, {0, 0}, "%", 100);
  REQUIRE(plot.panels.size() == 2);
  CHECK(plot.panels[0].baseline.empty());  // not beside itself
  const std::string svg = curve_panel(plot, 1, "id");
  // Ticks of the values stand left of the frame, those of the steps below it.
  const DrawnElement frame = drawn(svg, "svg", "p-frame").front();
  std::vector<std::pair<double, double>> values, steps;
  for (const DrawnElement& tick : drawn(svg, "text", "p-tick"))
    (tick.is("p-end") ? values : steps)
        .emplace_back(std::stod(tick.content), tick.is("p-end") ? tick.number("y") - 4 - frame.number("y")
                                                                : tick.number("x") - frame.number("x"));
  const auto place = [](const std::vector<std::pair<double, double>>& ticks, double value) {
    const auto &a = ticks.front(), &b = ticks.back();
    return a.second + (value - a.first) * (b.second - a.second) / (b.first - a.first);
  };
  const auto mean = path_numbers(drawn(svg, "path", "p-line").front().attributes.at("d"));
  REQUIRE(mean.size() == 10);
  for (int k = 1; k <= 5; ++k) {
    CHECK(std::abs(mean[std::size_t(2 * k - 2)] - place(steps, 100 * k)) < 0.02);
    CHECK(std::abs(mean[std::size_t(2 * k - 1)] - place(values, 15 * k)) < 0.02);
  }
  const auto band = path_numbers(drawn(svg, "path", "p-band").front().attributes.at("d"));
  REQUIRE(band.size() == 20);
  CHECK(std::abs(band[1] - place(values, 16)) < 0.02);                // above, forwards
  CHECK(std::abs(band[band.size() - 1] - place(values, 14)) < 0.02);  // below, backwards
  const auto base = path_numbers(drawn(svg, "path", "p-base").front().attributes.at("d"));
  CHECK(std::abs(base.back() - place(values, 55)) < 0.02);
}

TEST_CASE("curve plot: a line has a gap where a seed ends") {
  const CurvePlot plot = plot_with_divergence();
  const std::string svg = curve_panel(plot, 0, "id");
  const std::string path = drawn(svg, "path", "p-line").front().attributes.at("d");
  CHECK(occurrences(path, "M") == 2);
  CHECK(curve_text(plot, plot.panels[0]).find("from 1.5 at step 100 to 5 at step 500") != std::string::npos);
}

TEST_CASE("curve plot: a cross marks a seed that diverged") {
  const CurvePlot plot = plot_with_divergence();
  const std::string svg = curve_panel(plot, 0, "id");
  const auto crosses = drawn(svg, "path", "p-cross");
  REQUIRE(crosses.size() == 1);
  CHECK(svg.find("seed 1: diverged after step 200") != svg.npos);
  CHECK(curve_text(plot, plot.panels[0]).find("seed 1 diverged after step 200.") != std::string::npos);
}

TEST_CASE("curve plot: a loss that explodes does not flatten the others") {
  std::vector<RowCurves> rows;
  for (std::size_t r = 0; r < 10; ++r) rows.push_back(row(r, "row", {line(0, 0.1 + 0.01 * double(r))}));
  CHECK_FALSE(curve_plot({"train/loss", rows}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
                         std::vector<std::optional<std::size_t>>(10), "", 1)
                  .cut);
  rows[3].seeds[0].values[500] = 1e30;
  rows[3].band = seed_band(rows[3].seeds);
  const CurvePlot plot = curve_plot({"train/loss", rows}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
                                    std::vector<std::optional<std::size_t>>(10), "", 1);
  CHECK(plot.cut);
  CHECK(plot.values.high < 5);
}

TEST_CASE("curve plot: a long curve is thinned up to its last point") {
  std::vector<BandPoint> band;
  for (int k = 1; k <= 1003; ++k) band.push_back({double(k), 1, 1, 1, 1});
  const auto few = thinned(band, 100);
  CHECK(few.size() <= 100);
  CHECK(few.size() >= 50);
  CHECK(few.back().at == 1003);
  CHECK(few[1].at - few[0].at == few[2].at - few[1].at);
  CHECK(thinned(band, 2000).size() == 1003);
  MetricCurves curves{"train/loss", {row(0, "a", {line(0, 1.0, 1003)})}};
  CHECK(curve_plot(curves, {0}, {std::nullopt}, "", 1).every == 9);
}

TEST_CASE("curve plot: a row without values says so") {
  MetricCurves curves{"train/loss", {row(0, "empty", {}), row(1, "<one>", {line(0, 1.0, 1), line(1, 2.0, 1)})}};
  const CurvePlot plot = curve_plot(curves, {0, 1}, {std::nullopt, std::nullopt}, "", 1);
  CHECK(curve_panel(plot, 0, "id").find("no values yet") != std::string::npos);
}

TEST_CASE("curve plot: a row with one value has a point and a bar") {
  MetricCurves curves{"train/loss", {row(0, "empty", {}), row(1, "<one>", {line(0, 1.0, 1), line(1, 2.0, 1)})}};
  const CurvePlot plot = curve_plot(curves, {0, 1}, {std::nullopt, std::nullopt}, "", 1);
  const std::string one = curve_panel(plot, 1, "id");
  CHECK(drawn(one, "circle", "p-point").size() == 1);
  CHECK(drawn(one, "path", "p-bar").size() == 1);
  CHECK(one.find("<one>") == one.npos);
}

TEST_CASE("curve plot: a sheet has a panel for each of sixty rows") {
  std::vector<RowCurves> rows;
  std::vector<std::size_t> shown;
  for (std::size_t r = 0; r < 60; ++r) {
    rows.push_back(row(r, "row", {line(0, 1)}));
    shown.push_back(r);
  }
  const std::string sheet = curve_sheet(
      curve_plot({"train/loss", rows}, shown, std::vector<std::optional<std::size_t>>(60), "", 1), "id", "losses");
  CHECK(drawn(sheet, "svg", "p-frame").size() == 60);
  CHECK(drawn(sheet, "svg").front().number("height") >= 20 * kPanelHeight);
}
