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
