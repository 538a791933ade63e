#include "experiments/lab/pictures/chart.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/lab/pictures/svg_reader.h"

using namespace normlab;

namespace {

std::vector<BandPoint> points(const std::vector<double>& values) {
  std::vector<BandPoint> out;
  for (std::size_t i = 0; i < values.size(); ++i)
    out.push_back({double(i), values[i], values[i] - 0.5, values[i] + 0.5, 3});
  return out;
}

Chart two_lines() {
  Chart chart;
  chart.name = "two";
  chart.title = "Two lines";
  chart.caption = "A test.";
  chart.across_name = "step";
  chart.panels.push_back({"heading", "loss", {{"a, <b>", points({1, 2, 4}), 0}, {"c|d", points({4, 3, 8}), 1}}});
  return chart;
}

/// The places of the numbers in a picture, from the ticks at the left.
double value_at(const std::string& svg, double y) {
  std::vector<std::pair<double, double>> ticks;  // y, value
  for (const DrawnElement& tick : drawn(svg, "text", "p-tick"))
    if (tick.is("p-end")) ticks.emplace_back(tick.number("y") - 4, std::stod(tick.content));
  const auto &a = ticks.front(), &b = ticks.back();
  return a.second + (y - a.first) * (b.second - a.second) / (b.first - a.first);
}

}  // namespace

TEST_CASE("chart: lines are where the ticks say") {
  Chart chart = two_lines();
  set_chart_axes(chart, ChartScale::linear, ChartScale::linear);
  const std::string svg = chart_panel(chart, 0, "id");
  const auto first = path_numbers(drawn(svg, "path", "p-many").front().attributes.at("d"));
  REQUIRE(first.size() == 6);
  const double expected[] = {1, 2, 4};
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(value_at(svg, first[2 * i + 1]) == doctest::Approx(expected[i]).epsilon(0.01));
  CHECK(first[2] - first[0] == doctest::Approx(first[4] - first[2]).epsilon(0.01));
}

TEST_CASE("chart: a logarithmic axis has equal steps for equal ratios and spans six powers of ten") {
  Chart chart = two_lines();
  chart.panels[0].series = {{"a", points({1, 100, 1e4, 1e-20}), 0}};
  set_chart_axes(chart, ChartScale::linear, ChartScale::logarithmic);
  const auto line = path_numbers(drawn(chart_panel(chart, 0, "id"), "path", "p-many").front().attributes.at("d"));
  CHECK(line[1] - line[3] == doctest::Approx(line[3] - line[5]).epsilon(0.01));
  CHECK(std::pow(10, chart.panels[0].values.low) > 1e-3);
  set_chart_axes(chart, ChartScale::linear, ChartScale::automatic);
  CHECK(chart.panels[0].values.logarithmic);
  chart.panels[0].series = {{"a", points({1, 2, 20}), 0}};
  set_chart_axes(chart, ChartScale::linear, ChartScale::automatic);
  CHECK(!chart.panels[0].values.logarithmic);
}

TEST_CASE("chart: panels of one quantity share its axis, others do not") {
  Chart chart = two_lines();
  chart.panels.push_back({"more", "loss", {{"e", points({100}), 0}}});
  chart.panels.push_back({"share", "share", {{"e", points({0.5}), 0}}});
  set_chart_axes(chart, ChartScale::linear, ChartScale::linear);
  CHECK(chart.panels[0].values.high == chart.panels[1].values.high);
  CHECK(chart.panels[2].values.high < 2);
}

TEST_CASE("chart: a second axis has its own scale") {
  Chart chart = two_lines();
  chart.panels[0].right_name = "accuracy";
  chart.panels[0].series[1].right = true;
  set_chart_axes(chart, ChartScale::linear, ChartScale::linear);
  CHECK(chart.panels[0].values.high == 4);
  CHECK(chart.panels[0].right.high == 8);
}

TEST_CASE("chart: its numbers are complete in CSV and escaped everywhere") {
  Chart chart = two_lines();
  set_chart_axes(chart, ChartScale::linear, ChartScale::linear);
  CHECK(chart_csv(chart) ==
        "panel,row,step,value,lowest,highest,n\n"
        "heading,\"a, <b>\",0,1,0.5,1.5,3\nheading,\"a, <b>\",1,2,1.5,2.5,3\nheading,\"a, <b>\",2,4,3.5,4.5,3\n"
        "heading,c|d,0,4,3.5,4.5,3\nheading,c|d,1,3,2.5,3.5,3\nheading,c|d,2,8,7.5,8.5,3\n");
  CHECK(chart_markdown(chart, 10).find("| heading | c\\|d | 2 | 8 | 7.5 | 8.5 | 3 |") != std::string::npos);
  const std::string html = chart_html(chart, 2);
  CHECK(html.find("<b>") == std::string::npos);
  CHECK(html.find("a, &lt;b&gt;") != std::string::npos);
  chart.categories = {"embed", "0 attn", "0 mlp"};
  CHECK(chart_csv(chart).find("heading,c|d,0 attn,3,") != std::string::npos);
}

TEST_CASE("chart: a panel without a picture is among the numbers alone") {
  Chart chart = two_lines();
  chart.panels[0].drawn = false;
  set_chart_axes(chart, ChartScale::linear, ChartScale::linear);
  CHECK(chart_files(chart).empty());
  CHECK(chart_csv(chart).find("heading") != std::string::npos);
}

TEST_CASE("chart: many panels become several files below the largest size") {
  Chart chart = two_lines();
  for (int p = 0; p < 600; ++p) chart.panels.push_back(chart.panels.front());
  set_chart_axes(chart, ChartScale::linear, ChartScale::linear);
  const std::vector<PictureFile> files = chart_files(chart);
  REQUIRE(files.size() > 1);
  CHECK(files[0].name == "two.svg");
  CHECK(files[1].name == "two-2.svg");
  std::size_t headings = 0;
  for (const PictureFile& file : files) {
    CHECK(file.svg.size() < 300'000);
    headings += occurrences(file.svg, ">heading<");
  }
  CHECK(headings == 601);
}

TEST_CASE("chart: pixels go from the least value to the greatest") {
  Chart chart = two_lines();
  chart.panels = {{"gain", "", {}}};
  chart.panels[0].pixels = {{"R", 2, {0, 1, 2, 3}}, {"G", 2, {3, 3, 3, 0}}};
  set_chart_axes(chart, ChartScale::linear, ChartScale::linear);
  const std::string svg = chart_panel(chart, 0, "id");
  double lightest = 1, darkest = 0;
  std::size_t squares = 0;
  for (const DrawnElement& pixel : drawn(svg, "path", "p-pixel")) {
    lightest = std::min(lightest, pixel.number("fill-opacity"));
    darkest = std::max(darkest, pixel.number("fill-opacity"));
    squares += occurrences(pixel.attributes.at("d"), "M");
  }
  CHECK(squares == 8);
  CHECK(lightest < 0.05);
  CHECK(darkest == 1);
  CHECK(chart_csv(chart).find("gain,G,y1 x1,0,0,0,1") != std::string::npos);
}
