#include "core/visible_text.h"

#include <doctest/doctest.h>

using namespace normlab;

TEST_CASE("visible text: what a terminal acts on is spelt out, the rest stays") {
  CHECK(visible("plain \"text\" \\ ±0.4 …\nnext") == "plain \"text\" \\ ±0.4 …\nnext");
  CHECK(visible("\x1b]0;title\a") == "\\x1b]0;title\\x07");
  CHECK(visible("100%\rfake\ttab") == "100%\\rfake\\ttab");
  CHECK(visible(std::string_view("a\0b\x7f", 4)) == "a\\x00b\\x7f");
  CHECK(visible("\u009b31m\u0085") == "\\u009b31m\\u0085");  // C1 controls
  CHECK(visible("\u202egnp\u2066\u2028\u200f") == "\\u202egnp\\u2066\\u2028\\u200f");
  CHECK(visible("\x9b"
                "31m \xc3( \xff") == "\\x9b31m \\xc3( \\xff");  // bytes that are not UTF-8
  CHECK(visible("\xed\xa0\x80 \xc0\xaf \xe2\x80") == "\\xed\\xa0\\x80 \\xc0\\xaf \\xe2\\x80");
  CHECK(visible("日本 \U0001F600") == "日本 \U0001F600");
  CHECK(visible_line("a\nb") == "a\\nb");
  CHECK(visible(visible("\x1b\n")) == visible("\x1b\n"));
}

TEST_CASE("visible text: no byte that a terminal acts on is left, whatever the text") {
  std::uint32_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (int k = 0; k < 12; ++k) {
      state = state * 1664525u + 1013904223u;
      text += static_cast<char>(state >> 24);
    }
    const std::string line = visible_line(text);
    for (std::string_view rest = line; !rest.empty();) {
      const Character c = first_character(rest);
      REQUIRE(c.bytes > 0);
      REQUIRE((c.code >= 0x20 && (c.code < 0x7F || c.code >= 0xA0)));
      rest.remove_prefix(c.bytes);
    }
  }
}

TEST_CASE("visible text: a message shows at most 200 characters of input, and says how long it is") {
  CHECK(in_quotes("a \"b\" \\ c\n") == "\"a \\\"b\\\" \\\\ c\\n\"");
  CHECK(shown(std::string(200, 'x')) == std::string(200, 'x'));
  const std::string longer = shown("begin" + std::string(1'000'000, 'x') + "end");
  CHECK(longer.size() < 240);
  CHECK(longer.starts_with("beginxxx"));
  CHECK(longer.ends_with("xxxend (1000008 characters)"));
  CHECK(longer.find("…") != std::string::npos);
  const std::string wide = in_quotes(std::string("é") + std::string(300, '\x1b'));  // counted before they are spelt out
  CHECK(wide.starts_with("\"é\\x1b"));
  CHECK(wide.ends_with("\\x1b\" (301 characters)"));
}
