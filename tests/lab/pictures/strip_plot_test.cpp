#include "experiments/lab/pictures/strip_plot.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/lab/pictures/svg_reader.h"

using namespace normlab;

namespace {

StripPlot example() {
  StripPlot plot;
  plot.title = "Gains";
  plot.axis = "gain [percentage points]";
  plot.strips = {{"variant=Ti/4",
                  "0 = pre_pre, 63.7 ±0.8 %",
                  {{"dpn",
                    {{"seed 0", 1.25}, {"seed 1", 2.5}, {"seed 2", -0.75}},
                    1.0,
                    {{-0.5, 3.0}},
                    false,
                    "+1.0 [-0.5, +3.0]",
                    ""},
                   {"sub_ln",
                    {{"seed 0", -5.0}, {"seed 1", -6.0}},
                    -5.5,
                    {{-6.5, -4.5}},
                    true,
                    "-5.5 ±1.0",
                    "1/3 diverged @1200"}}},
                 {"variant=S/4",
                  "0 = pre_pre",
                  {{"dpn", {{"seed 0", 3.5}}, 3.5, std::nullopt, false, "+3.5", ""},
                   {"post_post", {}, std::nullopt, std::nullopt, false, "", "3/3 missing"}}}};
  return plot;
}

/// One lane of one seed with gain 0.
StripPlot one_seed() {
  StripPlot plot;
  plot.axis = "gain";
  plot.strips = {{"", "0 = a", {{"b", {{"seed 0", 0.0}}, 0.0, std::nullopt, false, "0.0", ""}}}};
  return plot;
}

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

TEST_CASE("strip plot: values are where the ticks say") {
  for (const StripWidth width : {StripWidth::wide, StripWidth::narrow}) {
    const StripPlot plot = example();
    const std::string svg = strip_plot(plot, "id", width, false);
    const ReadScale x(svg);
    std::vector<double> dots, means;
    std::vector<std::pair<double, double>> bars;
    for (const PlotStrip& strip : plot.strips)
      for (const PlotLane& lane : strip.lanes) {
        for (const PlotDot& dot : lane.dots) dots.push_back(dot.value);
        if (lane.mean) means.push_back(*lane.mean);
        if (lane.interval) bars.push_back(*lane.interval);
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

TEST_CASE("strip plot: each mark and note is drawn once") {
  const std::string svg = strip_plot(example(), "id", StripWidth::wide, true);
  const auto clear = drawn(svg, "path", "p-clear");
  REQUIRE(clear.size() == 1);
  CHECK(occurrences(svg, "1/3 diverged @1200") == 1);
  CHECK(occurrences(svg, "3/3 missing") == 1);
  CHECK(occurrences(svg, ">variant=S/4<") == 1);
  CHECK(occurrences(svg, "<title>dpn, seed 1: +2.5</title>") == 1);
}

TEST_CASE("strip plot: all texts are inside the picture") {
  const std::string svg = strip_plot(example(), "id", StripWidth::wide, true);
  const double width = drawn(svg, "svg").front().number("width"), height = drawn(svg, "svg").front().number("height");
  for (const DrawnElement& text : drawn(svg, "text")) {
    CHECK(text.number("x") <= width);
    CHECK(text.number("y") <= height);
  }
}

TEST_CASE("strip plot: no text crosses the zero line or the grid") {
  StripPlot plot = example();
  plot.strips[0].lanes[0].note = "a note as long as the picture is wide: 1/3 diverged @1200, 2/3 running 43%, and more";
  for (const StripWidth width : {StripWidth::wide, StripWidth::narrow}) {
    const std::string svg = strip_plot(plot, "id", width, false);
    std::vector<DrawnElement> texts = drawn(svg, "text", "p-label"), lines = drawn(svg, "path", "p-grid");
    for (const DrawnElement& note : drawn(svg, "text", "p-note")) texts.push_back(note);
    for (const DrawnElement& zero : drawn(svg, "path", "p-zero")) lines.push_back(zero);
    REQUIRE(texts.size() == 11);
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

TEST_CASE("strip plot: a plot without strips has no dots") {
  StripPlot plot;
  plot.axis = "gain";
  CHECK(drawn(strip_plot(plot, "id", StripWidth::wide, false), "circle").empty());
}

TEST_CASE("strip plot: a strip without lanes says so") {
  StripPlot plot;
  plot.axis = "gain";
  plot.strips = {{"", "", {}}};
  CHECK(strip_plot(plot, "id", StripWidth::wide, false).find("no row to compare") != std::string::npos);
}

TEST_CASE("strip plot: one seed has a dot and no bar") {
  const std::string one = strip_plot(one_seed(), "id", StripWidth::narrow, false);
  CHECK(drawn(one, "circle").size() == 1);
  CHECK(drawn(one, "path", "p-bar").empty());
}

TEST_CASE("strip plot: labels are escaped") {
  StripPlot plot;
  plot.strips = {{"</text><script>",
                  "",
                  {{"\"><script>alert(1)</script>", {{"seed 0", 1}}, 1.0, std::nullopt, false, "1", "<b>"}}}};
  const std::string svg = strip_plot(plot, "id", StripWidth::wide, false);
  CHECK(svg.find("<script") == svg.npos);
  CHECK(svg.find("<b>") == svg.npos);
}
