#include "experiments/lab/base/text_layout.h"

#include <doctest/doctest.h>

using namespace normlab;

TEST_CASE("text layout: text is shortened by characters in its middle") {
  CHECK(shorten_middle("abcdef", 6) == "abcdef");
  CHECK(shorten_middle("abcdefg", 6) == "abc…fg");
  CHECK(shorten_middle("äöüßäöüß", 5) == "äö…üß");
  CHECK(shorten_middle("abc", 1) == "…");
  CHECK(shorten_middle("abc", 0) == "");
}

using Lines = std::vector<std::string>;

TEST_CASE("text layout: wrapped lines break at spaces") {
  CHECK(wrapped("", 5) == Lines{""});
  CHECK(wrapped("a bc  def\ng", 5) == Lines{"a bc", "def g"});
}

TEST_CASE("text layout: wrapped lines break inside words that are too long") {
  CHECK(wrapped("ab cdefghijk l", 4) == Lines{"ab", "cdef", "ghij", "k l"});
  CHECK(wrapped("attn.pre.momentum", 12) == Lines{"attn.pre.", "momentum"});
  CHECK(wrapped("a.bcdefghijk", 8) == Lines{"a.bcdefg", "hijk"});  // not a line of two letters
  CHECK(wrapped("±±±±±", 2) == Lines{"±±", "±±", "±"});
}

TEST_CASE("text layout: a share of work is rounded down to whole percent") {
  CHECK(percent_done(0.266) == "26%");
  CHECK(percent_done(0.999) == "99%");
  CHECK(percent_done(29 / 100.0) == "29%");
  CHECK(percent_done(1) == "100%");
}

TEST_CASE("text layout: joined texts have the separator between them") {
  CHECK(joined({"a", "b"}, ", ") == "a, b");
  CHECK(joined({}, ", ") == "");
}

TEST_CASE("text layout: lines that are short enough stay") {
  CHECK(broken_lines("", 5) == "");
  CHECK(broken_lines("a  b\n\n  c\n", 5) == "a  b\n\n  c\n");
}

TEST_CASE("text layout: parts of a broken line are indented further") {
  CHECK(broken_lines("ab cd ef", 5) == "ab cd\n  ef");
  CHECK(broken_lines("ab  cd ef gh\n", 6) == "ab  cd\n  ef\n  gh\n");
  CHECK(broken_lines("  ab cd ef\nx\n", 7) == "  ab cd\n    ef\nx\n");
  CHECK(broken_lines("longer than it", 4) == "longer\n  than\n  it");
  CHECK(broken_lines("longest", 4) == "longest");
  CHECK(broken_lines("±± ±±", 5) == "±± ±±");
}
