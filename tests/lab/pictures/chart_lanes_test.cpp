// Charts of lanes: gains over a baseline, and values.
#include "experiments/lab/pictures/chart.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "experiments/lab/pictures/page.h"
#include "tests/lab/pictures/svg_reader.h"

using namespace normlab;

namespace {

Chart gains(const std::vector<ChartPanel>& strips) {
  Chart chart{"id", "Gains", "A test.", "gain [percentage points]", ChartKind::gains};
  chart.panels = strips;
  set_chart_axes(chart, ChartScale::linear, ChartScale::linear);
  return chart;
}

ChartPanel strip(const std::string& heading, const std::string& zero, const std::vector<ChartLane>& lanes) {
  ChartPanel panel{heading, zero};
  panel.lanes = lanes;
  return panel;
}

Chart example(const std::string& note = "1/3 diverged @1200") {
  return gains({strip("variant=Ti/4", "0 = pre_pre, 63.7 ±0.8 %",
                      {{.label = "dpn",
                        .row = "Ti/4, dpn",
                        .dots = {{"seed 0", 1.25}, {"seed 1", 2.5}, {"seed 2", -0.75}},
                        .point = BandPoint{0, 1.0, -0.5, 3.0, 3},
                        .bar = true,
                        .numbers = "+1.0 [-0.5, +3.0]"},
                       {.label = "sub_ln",
                        .row = "Ti/4, sub_ln",
                        .dots = {{"seed 0", -5.0}, {"seed 1", -6.0}},
                        .point = BandPoint{1, -5.5, -6.5, -4.5, 2},
                        .bar = true,
                        .clear = true,
                        .numbers = "-5.5 ±1.0",
                        .note = note}}),
                strip("variant=S/4", "0 = pre_pre",
                      {{.label = "dpn",
                        .row = "S/4, dpn",
                        .dots = {{"seed 0", 3.5}},
                        .point = BandPoint{2, 3.5, 3.5, 3.5, 1},
                        .numbers = "+3.5"},
                       {.label = "post_post", .row = "S/4, post_post", .note = "3/3 missing"}})});
}

std::string picture(const Chart& chart, ChartForm form) { return chart_picture(chart, chart.panels, "id", form); }

/// Where a value lies, by the ticks that a reader sees: a line through the first and the last of them.
class ReadScale {
 public:
  explicit ReadScale(const std::string& svg) {
    for (const DrawnElement& tick : drawn(svg, "text", "p-tick")) {
      std::string words = tick.content;
      if (words.rfind("\u2212", 0) == 0) words = "-" + words.substr(std::string("\u2212").size());
      ticks_.emplace_back(std::stod(words), tick.number("x"));
    }
    std::sort(ticks_.begin(), ticks_.end());
  }
  double operator()(double value) const {
    const auto &first = ticks_.front(), &last = ticks_.back();
    return first.second + (value - first.first) * (last.second - first.second) / (last.first - first.first);
  }

 private:
  std::vector<std::pair<double, double>> ticks_;
};

}  // namespace

TEST_CASE("chart lanes: values are where the ticks say") {
  for (const ChartForm form : {ChartForm::page, ChartForm::narrow}) {
    const Chart chart = example();
    const std::string svg = picture(chart, form);
    const ReadScale x(svg);
    std::vector<double> dots, means;
    std::vector<std::pair<double, double>> bars;
    for (const ChartPanel& panel : chart.panels)
      for (const ChartLane& lane : panel.lanes) {
        for (const ChartDot& dot : lane.dots) dots.push_back(dot.value);
        if (lane.point) means.push_back(lane.point->mean);
        if (lane.bar) bars.emplace_back(lane.point->low, lane.point->high);
      }
    const auto circles = drawn(svg, "circle", "p-dot");
    REQUIRE(circles.size() == dots.size());
    for (std::size_t i = 0; i < dots.size(); ++i) CHECK(std::abs(circles[i].number("cx") - x(dots[i])) < 0.02);
    const auto diamonds = drawn(svg, "path", "p-mean");
    REQUIRE(diamonds.size() == means.size());
    for (std::size_t i = 0; i < means.size(); ++i)
      CHECK(std::abs(path_numbers(diamonds[i].attributes.at("d"))[0] - x(means[i])) < 0.02);
    const auto lines = drawn(svg, "path", "p-bar");
    REQUIRE(lines.size() == bars.size());
    for (std::size_t i = 0; i < bars.size(); ++i) {
      const auto numbers = path_numbers(lines[i].attributes.at("d"));
      const auto [low, high] = std::minmax({numbers[0], numbers[5]});
      CHECK(std::abs(low - x(bars[i].first)) < 0.02);
      CHECK(std::abs(high - x(bars[i].second)) < 0.02);
    }
    const auto zeros = drawn(svg, "path", "p-zero");
    REQUIRE(zeros.size() == 2);  // one a strip
    for (const DrawnElement& zero : zeros) CHECK(std::abs(path_numbers(zero.attributes.at("d")).front() - x(0)) < 0.02);
    // Dots of one lane stand at one height, those of the next one lower.
    CHECK(circles[0].number("cy") == circles[1].number("cy"));
    CHECK(circles[3].number("cy") > circles[2].number("cy"));
  }
}

TEST_CASE("chart lanes: each mark and note is drawn once") {
  const std::string svg = picture(example(), ChartForm::file);
  const auto clear = drawn(svg, "path", "p-clear");
  REQUIRE(clear.size() == 1);
  CHECK(occurrences(svg, ">1/3 diverged @1200<") == 1);
  CHECK(occurrences(svg, ">3/3 missing<") == 1);
  CHECK(occurrences(svg, ">variant=S/4<") == 1);
  CHECK(occurrences(svg, "<title>dpn, seed 1: +2.5</title>") == 1);
}

TEST_CASE("chart lanes: all texts are inside the picture") {
  const std::string svg = picture(example(), ChartForm::file);
  const double width = drawn(svg, "svg").front().number("width"), height = drawn(svg, "svg").front().number("height");
  for (const DrawnElement& text : drawn(svg, "text")) {
    CHECK(text.number("x") <= width);
    CHECK(text.number("y") <= height);
  }
}

TEST_CASE("chart lanes: no text crosses the zero line or the grid") {
  const Chart chart = example("a note as long as the picture is wide: 1/3 diverged @1200, 2/3 running 43%, and more");
  for (const ChartForm form : {ChartForm::page, ChartForm::narrow}) {
    const std::string svg = picture(chart, form);
    std::vector<DrawnElement> texts = drawn(svg, "text", "p-label"), lines = drawn(svg, "path", "p-grid");
    for (const DrawnElement& note : drawn(svg, "text", "p-note")) texts.push_back(note);
    for (const DrawnElement& zero : drawn(svg, "path", "p-zero")) lines.push_back(zero);
    REQUIRE(texts.size() == 10);
    REQUIRE(lines.size() >= 8);
    for (const DrawnElement& text : texts) {
      const double wide = text_width(text.content, 12), y = text.number("y");
      const double left = text.is("p-end") ? text.number("x") - wide : text.number("x");
      for (const DrawnElement& line : lines) {
        const std::vector<double> numbers = path_numbers(line.attributes.at("d"));  // x, top and height of each piece
        for (std::size_t i = 0; i + 2 < numbers.size(); i += 3) {
          CAPTURE(text.content);
          const bool beside = numbers[i] < left || numbers[i] > left + wide;
          CHECK((beside || numbers[i + 1] > y || numbers[i + 1] + numbers[i + 2] < y - 8));
        }
      }
    }
  }
}

TEST_CASE("chart lanes: what leaves the axis ends in an arrow with its number, and stretches no other lane") {
  std::vector<ChartLane> lanes;
  for (int i = 0; i < 8; ++i)
    lanes.push_back({.label = concat("row ", i),
                     .row = concat("row ", i),
                     .dots = {{"seed 0", 0.5 * i - 2}},
                     .point = BandPoint{double(i), 0.5 * i - 2, 0.5 * i - 3, 0.5 * i - 1, 3},
                     .bar = true});
  lanes[1].point->low = -155;
  lanes[1].point->high = 101;
  lanes[6] = {.label = "far",
              .row = "far",
              .dots = {{"seed 0", -35}},
              .point = BandPoint{6, -35, -36, -34, 3},
              .bar = true,
              .clear = true};
  const Chart chart = gains({strip("", "0 = a", lanes)});
  CHECK(chart.cut);
  CHECK(caption_of(chart) == "A test. Arrows: beyond the axis, at the number beside them.");
  for (const ChartForm form : {ChartForm::page, ChartForm::narrow}) {
    const std::string svg = picture(chart, form);
    const ReadScale x(svg);
    CHECK(x(2) - x(-2) > (form == ChartForm::page ? 130 : 90));
    for (const char* number : {">−155<", ">+101<", ">−35<"}) CHECK(occurrences(svg, number) == 1);
    CHECK(occurrences(svg, ">−36<") == 0);
    CHECK(drawn(svg, "circle", "p-dot").size() == 7);
    CHECK(drawn(svg, "path", "p-mean").size() == 7);
    std::size_t arrows = 0;
    for (const DrawnElement& arrow : drawn(svg, "path", "p-clear")) arrows += !arrow.is("p-mean");
    CHECK(arrows == 3);
    for (const DrawnElement& bar : drawn(svg, "path", "p-bar")) {
      const std::vector<double> numbers = path_numbers(bar.attributes.at("d"));  // without caps: left, height, right
      CHECK(numbers.front() >= x(-5));
      CHECK((numbers.size() == 3 ? numbers[2] : numbers[5]) <= x(5));
    }
    // The numbers of arrows are beside the axis.
    const auto ticks = drawn(svg, "text", "p-tick");
    for (const DrawnElement& text : drawn(svg, "text", "p-soft"))
      if (text.content == "−155" || text.content == "−35") CHECK(text.number("x") <= ticks.front().number("x"));
  }
}

TEST_CASE("chart lanes: a chart without lanes has no dots, a strip without lanes says so") {
  CHECK(drawn(picture(gains({}), ChartForm::page), "circle").empty());
  CHECK(picture(gains({strip("", "", {})}), ChartForm::page).find("no row to compare") != std::string::npos);
}

TEST_CASE("chart lanes: a lane without an interval has dots and no bar") {
  const Chart chart = gains({strip("", "0 = a", {{"b", "b", {{"seed 0", 0.0}}, BandPoint{0, 0, 0, 0, 1}}})});
  const std::string one = picture(chart, ChartForm::narrow);
  CHECK(drawn(one, "circle").size() == 1);
  CHECK(drawn(one, "path", "p-bar").empty());
}

TEST_CASE("chart lanes: labels are escaped") {
  const std::string evil = "\"><script>alert(1)</script>";
  const Chart chart = gains({strip("</text><script>", "", {{evil, evil, {{"seed 0", 1}}}})});
  for (const std::string& text : {picture(chart, ChartForm::page), chart_html(chart, 20)})
    CHECK(text.find("<script") == text.npos);
}

TEST_CASE("chart lanes: the numbers are those of the table, in its order, and the seeds") {
  Chart chart = example();
  chart.quantity = "eval/accuracy";
  std::swap(chart.panels[0], chart.panels[1]);
  CHECK(chart_csv(chart) ==
        "panel,row,quantity,value,lowest,highest,n\n"
        "eval/accuracy,\"Ti/4, dpn\",gain,1,-0.5,3,3\neval/accuracy,\"Ti/4, sub_ln\",gain,-5.5,-6.5,-4.5,2\n"
        "eval/accuracy,\"S/4, dpn\",gain,3.5,3.5,3.5,1\n");
  CHECK(chart_html(chart, 20).find("<th scope=\"row\">variant=Ti/4, sub_ln</th><td>-5.5 ±1.0</td>"
                                   "<td>seed 0: -5; seed 1: -6; 1/3 diverged @1200</td>") != std::string::npos);
}
