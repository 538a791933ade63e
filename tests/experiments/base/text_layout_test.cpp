#include "experiments/base/text_layout.h"

#include <doctest/doctest.h>

using namespace normlab;

TEST_CASE("text layout: text is shortened in the middle, by characters") {
  CHECK(shorten_middle("abcdef", 6) == "abcdef");
  CHECK(shorten_middle("abcdefg", 6) == "abc…fg");
  CHECK(shorten_middle("äöüßäöüß", 5) == "äö…üß");
  CHECK(shorten_middle("abc", 1) == "…");
  CHECK(shorten_middle("abc", 0) == "");
}

TEST_CASE("text layout: lines break at spaces, and inside words that are too long") {
  using Lines = std::vector<std::string>;
  CHECK(wrapped("", 5) == Lines{""});
  CHECK(wrapped("a bc  def\ng", 5) == Lines{"a bc", "def g"});
  CHECK(wrapped("ab cdefghijk l", 4) == Lines{"ab", "cdef", "ghij", "k l"});
  CHECK(wrapped("±±±±±", 2) == Lines{"±±", "±±", "±"});
  CHECK(joined({"a", "b"}, ", ") == "a, b");
  CHECK(joined({}, ", ") == "");
}

TEST_CASE("text layout: long lines are broken between words, further in than they begin, and short ones stay") {
  CHECK(broken_lines("", 5) == "");
  CHECK(broken_lines("a  b\n\n  c\n", 5) == "a  b\n\n  c\n");
  CHECK(broken_lines("ab cd ef", 5) == "ab cd\n  ef");
  CHECK(broken_lines("ab  cd ef gh\n", 6) == "ab  cd\n  ef\n  gh\n");
  CHECK(broken_lines("  ab cd ef\nx\n", 7) == "  ab cd\n    ef\nx\n");
  CHECK(broken_lines("longer than it", 4) == "longer\n  than\n  it");
  CHECK(broken_lines("longest", 4) == "longest");
  CHECK(broken_lines("±± ±±", 5) == "±± ±±");
}
