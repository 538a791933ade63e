#include "experiments/lab/pictures/chart.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "experiments/lab/pictures/page.h"
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
  Chart chart{"two", "Two lines", "A test.", "step"};
  chart.panels.push_back({"heading", "loss", {{"a, <b>", points({1, 2, 4}), 0}, {"c|d", points({4, 3, 8}), 1}}});
  return chart;
}

std::string first_panel(const Chart& chart) {
  return chart_picture(chart, std::span(chart.panels).first(1), "id", ChartForm::page);
}

/// The value at a height of a picture, from the ticks at the left.
double value_at(const std::string& svg, double y) {
  std::vector<std::pair<double, double>> ticks;  // y, value
  for (const DrawnElement& tick : drawn(svg, "text", "p-tick"))
    if (tick.is("p-end")) ticks.emplace_back(tick.number("y") - 4, std::stod(tick.content));
  const auto &a = ticks.front(), &b = ticks.back();
  return a.second + (y - a.first) * (b.second - a.second) / (b.first - a.first);
}

/// A panel of one row: two seeds that end at step 200, then one.
Chart one_row() {
  Chart chart{"row", "train/loss by step", "A test.", "step", ChartKind::small};
  ChartSeries band{
      "dpn", {{100, 1.5, 1, 2, 2}, {200, 3, 2, 4, 2}, {300, 4, 4, 4, 1}, {400, 5, 5, 5, 1}}, 1, ChartLook::band};
  band.crosses = {{200, 1e30, "seed 1: diverged after step 200"}};
  ChartPanel panel{"dpn", "", {{"pre_pre", points({1, 2, 3}), 0, ChartLook::base}, band}};
  panel.corner = "2 seeds";
  panel.row = 3;
  chart.panels = {panel};
  set_chart_axes(chart, ChartScale::linear, ChartScale::central);
  return chart;
}

}  // namespace

TEST_CASE("chart: lines are where the ticks say") {
  Chart chart = two_lines();
  set_chart_axes(chart, ChartScale::linear, ChartScale::linear);
  const std::string svg = first_panel(chart);
  const auto first = path_numbers(drawn(svg, "path", "p-many").front().attributes.at("d"));
  REQUIRE(first.size() == 6);
  const double expected[] = {1, 2, 4};
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(value_at(svg, first[2 * i + 1]) == doctest::Approx(expected[i]).epsilon(0.01));
  CHECK(first[2] - first[0] == doctest::Approx(first[4] - first[2]).epsilon(0.01));
}

TEST_CASE("chart: a logarithmic axis has equal steps for equal ratios and spans ten powers of ten") {
  Chart chart = two_lines();
  chart.panels[0].series = {{"a", points({1, 100, 1e4, 1e-20}), 0}};
  set_chart_axes(chart, ChartScale::linear, ChartScale::logarithmic);
  const auto line = path_numbers(drawn(first_panel(chart), "path", "p-many").front().attributes.at("d"));
  CHECK(line[1] - line[3] == doctest::Approx(line[3] - line[5]).epsilon(0.01));
  CHECK(std::pow(10, chart.panels[0].values.low) > 1e-3);
  chart.panels[0].series[0].points[3].mean = 1e-5;
  set_chart_axes(chart, ChartScale::linear, ChartScale::logarithmic);
  CHECK(std::pow(10, chart.panels[0].values.low) < 1e-5);
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
  const std::string svg = first_panel(chart);
  double lightest = 1, darkest = 0;
  std::size_t squares = 0;
  for (const DrawnElement& pixel : drawn(svg, "path", "p-pixel")) {
    lightest = std::min(lightest, pixel.number("fill-opacity"));
    darkest = std::max(darkest, pixel.number("fill-opacity"));
    squares += occurrences(pixel.attributes.at("d"), "M");
  }
  CHECK(squares == 8);
  CHECK(drawn(svg, "rect", "p-level").size() == 16);  // the scale, between its ends
  CHECK(occurrences(svg, ">0</text>") == 1);
  CHECK(occurrences(svg, ">3</text>") == 1);
  CHECK(lightest < 0.05);
  CHECK(darkest == 1);
  CHECK(chart_csv(chart).find("gain,G,y1 x1,0,0,0,1") != std::string::npos);
}

TEST_CASE("chart: a band is where the ticks say, and breaks where a seed ends") {
  const std::string svg = first_panel(one_row());
  const std::string line = drawn(svg, "path", "p-s1")[1].attributes.at("d");
  CHECK(occurrences(line, "M") == 2);
  const auto at = path_numbers(line), band = path_numbers(drawn(svg, "path", "p-band").at(0).attributes.at("d"));
  const double expected[] = {1.5, 3, 4, 5}, edges[] = {2, 4, 2, 1};  // forwards above, backwards below
  REQUIRE(at.size() == 8);
  REQUIRE(band.size() == 8);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(value_at(svg, at[2 * i + 1]) == doctest::Approx(expected[i]).epsilon(0.01));
    CHECK(value_at(svg, band[2 * i + 1]) == doctest::Approx(edges[i]).epsilon(0.01));
  }
  CHECK(value_at(svg, path_numbers(drawn(svg, "path", "p-base").at(0).attributes.at("d"))[5]) ==
        doctest::Approx(3).epsilon(0.01));
}

TEST_CASE("chart: a panel of one row has its words, its number in the plan and a cross inside the frame") {
  const Chart chart = one_row();
  const std::string html = chart_html(chart, 20);
  CHECK(html.find("<div class=\"panel\" data-row=\"3\">") != std::string::npos);
  CHECK(html.find(">2 seeds</text>") != std::string::npos);
  CHECK(html.find("<title id=\"row-0-title\">dpn: train/loss by step</title>") != std::string::npos);
  CHECK(html.find("dpn: from 1.5 at step 100 to 5 at step 400. dpn, seed 1: diverged after step 200.") !=
        std::string::npos);
  CHECK(html.find("<tr><th scope=\"row\">dpn</th><td>200</td><td>3</td><td>2</td><td>4</td><td>2</td></tr>") !=
        std::string::npos);
  CHECK(occurrences(html, "<th scope=\"row\">pre_pre") == 0);  // the baseline has its own panel
  const std::string svg = first_panel(chart);
  CHECK(path_numbers(drawn(svg, "path", "p-cross").at(0).attributes.at("d"))[1] >=
        drawn(svg, "svg", "p-frame").at(0).number("y"));
}

TEST_CASE("chart: a value that explodes does not flatten the others") {
  Chart chart = two_lines();
  for (int i = 0; i < 10; ++i) chart.panels[0].series.push_back({"more", points({1, 2, 3, 4}), 0});
  set_chart_axes(chart, ChartScale::linear, ChartScale::central);
  CHECK_FALSE(chart.cut);
  chart.panels[0].series[0].points[1].mean = 1e30;
  set_chart_axes(chart, ChartScale::linear, ChartScale::central);
  CHECK(chart.cut);
  CHECK(chart.panels[0].values.high < 20);
}

TEST_CASE("chart: dots beyond the sides end in an arrow with their place") {
  Chart chart = two_lines();
  chart.panels[0].series = {{"a", points({1, 2, 4}), 1, ChartLook::dots}};
  chart.panels[0].series[0].points.push_back({4000, 3, 3, 3, 1});
  chart.panels[0].series[0].points.push_back({-2000, 3, 3, 3, 1});
  set_chart_axes(chart, ChartScale::linear, ChartScale::linear);
  chart.panels[0].across = make_axis(0, 4, 4);
  const std::string svg = first_panel(chart);
  CHECK(drawn(svg, "path", "p-clear").size() == 2);
  CHECK(occurrences(svg, ">4,000</text>") == 1);
  CHECK(occurrences(svg, ">−2,000</text>") == 1);
}

TEST_CASE("chart: a long line is thinned up to its last point") {
  std::vector<BandPoint> band;
  for (int k = 1; k <= 1003; ++k) band.push_back({double(k), 1, 1, 1, 1});
  const auto few = thinned(band, 100);
  CHECK(few.size() <= 100);
  CHECK(few.size() >= 50);
  CHECK(few.back().at == 1003);
  CHECK(few[1].at - few[0].at == few[2].at - few[1].at);
  CHECK(thinned(band, 2000).size() == 1003);
}

TEST_CASE("chart: a panel without values says so, one value has a point and a bar") {
  Chart chart = one_row();
  chart.panels[0].series = {{"empty", {}, 1, ChartLook::band}};
  CHECK(first_panel(chart).find("no values yet") != std::string::npos);
  chart.panels[0].series = {{"<one>", {{100, 1.5, 1, 2, 2}}, 1, ChartLook::band}};
  set_chart_axes(chart, ChartScale::linear, ChartScale::central);
  const std::string one = first_panel(chart);
  CHECK(drawn(one, "circle", "p-point").size() == 1);
  CHECK(drawn(one, "path", "p-bar").size() == 1);
  CHECK(one.find("<one>") == one.npos);
}

TEST_CASE("chart: small panels stand three beside each other, on pages of print") {
  Chart chart = one_row();
  for (int p = 0; p < 59; ++p) chart.panels.push_back(chart.panels.front());
  std::size_t panels = 0;
  const std::vector<PictureFile> files = chart_files(chart);
  CHECK(files.size() > 3);
  for (const PictureFile& file : files) {
    const DrawnElement page = drawn(file.svg, "svg").front();
    CHECK(page.number("height") <= kChartHeight);
    CHECK(page.number("height") == doctest::Approx(file.height));
    CHECK(page.number("width") == 3 * 312 - 12);
    panels += drawn(file.svg, "svg", "p-frame").size();
  }
  CHECK(panels == 60);
}

TEST_CASE("chart: a file has the width that is asked for, and all its texts inside") {
  Chart chart = one_row();
  for (int p = 0; p < 4; ++p) chart.panels.push_back(chart.panels.front());
  const auto columns = [&](double width) {
    chart.width = width;
    const std::string svg = chart_files(chart).at(0).svg;
    CHECK(drawn(svg, "svg").front().number("width") == doctest::Approx(width));
    std::set<std::string> lefts;
    for (const DrawnElement& group : drawn(svg, "g"))
      lefts.insert(group.attributes.at("transform").substr(0, group.attributes.at("transform").find(' ')));
    const double panel = (width + 12) / double(lefts.size()) - 12;
    for (const DrawnElement& text : drawn(svg, "text", "p-tick")) CHECK(text.number("x") < panel);
    return lefts.size();
  };
  CHECK(columns(240) == 1);
  CHECK(columns(404) == 2);
  CHECK(columns(624) == 3);
}

TEST_CASE("chart: ticks of a narrow panel do not run into each other") {
  Chart chart = one_row();
  chart.panels[0].series[1].points = {{0, 1, 1, 1, 1}, {40'000, 2, 2, 2, 1}};
  set_chart_axes(chart, ChartScale::linear, ChartScale::central);
  chart.width = 240;
  double end = -100;
  for (const DrawnElement& tick : drawn(chart_files(chart).at(0).svg, "text", "p-tick")) {
    if (!tick.is("p-mid")) continue;
    const double half = text_width(tick.content, 11) / 2;
    CHECK(tick.number("x") - half > end);
    end = tick.number("x") + half;
  }
  CHECK(end > 0);
}

TEST_CASE("chart: without titles the quantity stands at its axis") {
  Chart chart = one_row();
  for (ChartPanel& panel : chart.panels) panel.values_name = "train/loss";
  CHECK(occurrences(chart_files(chart).at(0).svg, ">train/loss by step</text>") == 1);
  CHECK(occurrences(chart_files(chart).at(0).svg, ">train/loss</text>") == 0);
  chart.titles = false;
  CHECK(occurrences(chart_files(chart).at(0).svg, ">train/loss by step</text>") == 0);
  CHECK(occurrences(chart_files(chart).at(0).svg, ">train/loss</text>") == 1);
}

TEST_CASE("chart: a heading that begins with the values' name is not followed by it") {
  Chart chart = two_lines();
  set_chart_axes(chart, ChartScale::linear, ChartScale::linear);
  CHECK(occurrences(first_panel(chart), ">loss</text>") == 1);
  chart.panels[0].heading = "loss, step 3";
  CHECK(occurrences(first_panel(chart), ">loss</text>") == 0);
  chart.panels[0].heading = "";
  chart.panels[0].part = "1 of 2";
  CHECK(occurrences(first_panel(chart), ">1 of 2</text>") == 1);
  CHECK(occurrences(first_panel(chart), ">loss</text>") == 1);
  CHECK(chart_csv(chart).find("\nloss,\"a, <b>\",0,1,") != std::string::npos);
}

TEST_CASE("chart: a line that leaves the frame ends in an arrow with its furthest number") {
  Chart chart = two_lines();
  for (int i = 0; i < 12; ++i) chart.panels[0].series.push_back({"more", points({1, 2, 3, 4}), 0});
  chart.panels[0].series[0].points[1].mean = 1e30;
  chart.panels[0].series[0].points[2].mean = 2e30;
  set_chart_axes(chart, ChartScale::linear, ChartScale::central);
  const std::string svg = first_panel(chart);
  CHECK(drawn(svg, "path", "p-clear").size() == 1);
  CHECK(occurrences(svg, ">2×10³⁰</text>") == 1);
  for (double value : {0.0, 1e-12}) {
    chart.panels[0].series[0].points[1].mean = value;
    chart.panels[0].series[0].points[2].mean = 1;
    set_chart_axes(chart, ChartScale::linear, ChartScale::logarithmic);
    CHECK(chart.cut);
    const std::string log = first_panel(chart);
    CHECK(drawn(log, "path", "p-clear").size() == 1);
    const auto numbers = drawn(log, "text", "p-label");
    REQUIRE(numbers.size() == 1);
    CHECK(numbers[0].content == (value == 0 ? "0" : "10⁻¹²"));
  }
  chart.panels[0].series[0].points[1].mean = 1e30;  // a gradient that explodes
  set_chart_axes(chart, ChartScale::linear, ChartScale::logarithmic);
  CHECK(std::pow(10, chart.panels[0].values.high) < 100);
  CHECK(occurrences(first_panel(chart), ">10³⁰</text>") == 1);
}

TEST_CASE("chart: a picture points to its title and description, a file has its own style") {
  Chart chart = two_lines();
  set_chart_axes(chart, ChartScale::linear, ChartScale::linear);
  const std::string svg = first_panel(chart), file = chart_files(chart).at(0).svg;
  CHECK(drawn(svg, "svg").front().attributes.at("role") == "img");
  CHECK(drawn(svg, "svg").front().attributes.at("aria-labelledby") == "id-title id-text");
  CHECK(drawn(svg, "title").front().attributes.at("id") == "id-title");
  CHECK(drawn(svg, "title").front().content == "heading: Two lines");
  CHECK(drawn(svg, "desc").front().attributes.at("id") == "id-text");
  CHECK(drawn(svg, "desc").front().content == "heading. a, &lt;b&gt;: from 1 to 4. c|d: from 4 to 8.");
  CHECK(svg.find("<style") == svg.npos);  // it is the page's
  CHECK(file.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(drawn(file, "desc").front().content.starts_with("A test. heading."));
  CHECK(occurrences(file, "<style>") == 1);
}
