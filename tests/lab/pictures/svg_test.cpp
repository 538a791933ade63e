#include "experiments/lab/pictures/page.h"

#include <doctest/doctest.h>

#include <limits>

#include "tests/lab/pictures/svg_reader.h"

using namespace normlab;

TEST_CASE("svg: numbers are short and never minus zero") {
  CHECK(svg_number(12) == "12");
  CHECK(svg_number(12.345) == "12.35");
  CHECK(svg_number(-0.001) == "0");
  CHECK(svg_number(100) == "100");
  CHECK(svg_number(0.5) == "0.5");
  CHECK(svg_number(std::numeric_limits<double>::quiet_NaN()) == "0");
}

TEST_CASE("svg: texts and attributes of nested elements are escaped") {
  SvgWriter svg;
  svg.open("g", {{"class", "a\"b"}});
  svg.element("circle", {{"cx", 1.5}, {"class", ""}});
  svg.element("rect", {{"x", 2.0}}, "<hover>");
  svg.text("text", "a<b & c", {{"x", 3.0}});
  svg.close();
  CHECK(svg.take() ==
        "<g class=\"a&quot;b\">\n<circle cx=\"1.5\"/>\n<rect x=\"2\"><title>&lt;hover&gt;</title></rect>\n"
        "<text x=\"3\">a&lt;b &amp; c</text>\n</g>\n");
  CHECK(svg.take().empty());
}

TEST_CASE("svg: a text is cut to its room") {
  CHECK(fitted("short", 200, 12) == "short");
  const std::string cut = fitted(std::string(100, 'x'), 100, 12);
  CHECK(cut.find("…") != cut.npos);
  CHECK(text_width(cut, 12) <= 100);
}

TEST_CASE("svg: every style has a colour for light and for dark screens, and marks have no other") {
  const std::string style(picture_style());
  const std::string dark = style.substr(style.find("@media"));
  for (int s = 0; s < 8; ++s) {
    const std::string rule = ".p-s" + std::to_string(s) + "{color:#";
    CHECK(occurrences(style, rule) == 2);
    CHECK(occurrences(dark, rule) == 1);
  }
  for (const char* mark : {"p-bar", "p-many", "p-cross", "p-dot", "p-mark"}) {
    CAPTURE(mark);
    CHECK(dark.find(mark) == dark.npos);  // it would hide the colour of a verdict
  }
}
