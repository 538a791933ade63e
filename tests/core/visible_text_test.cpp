#include "core/visible_text.h"

#include <doctest/doctest.h>

using namespace normlab;

TEST_CASE("visible text: text without commands to a terminal stays") {
  CHECK(visible("plain \"text\" \\ ±0.4 …\nnext") == "plain \"text\" \\ ±0.4 …\nnext");
  CHECK(visible("日本 \U0001F600") == "日本 \U0001F600");
}

TEST_CASE("visible text: control characters are spelt out") {
  CHECK(visible("\x1b]0;title\a") == "\\x1b]0;title\\x07");
  CHECK(visible("100%\rfake\ttab") == "100%\\rfake\\ttab");
  CHECK(visible(std::string_view("a\0b\x7f", 4)) == "a\\x00b\\x7f");
  CHECK(visible("\u009b31m\u0085") == "\\u009b31m\\u0085");  // C1 controls
}

TEST_CASE("visible text: characters that change the writing direction or end lines are spelt out") {
  CHECK(visible("\u202egnp\u2066\u2028\u200f") == "\\u202egnp\\u2066\\u2028\\u200f");
}

TEST_CASE("visible text: bytes that are not UTF-8 are spelt out") {
  CHECK(visible("\x9b"
                "31m \xc3( \xff") == "\\x9b31m \\xc3( \\xff");
  CHECK(visible("\xed\xa0\x80 \xc0\xaf \xe2\x80") == "\\xed\\xa0\\x80 \\xc0\\xaf \\xe2\\x80");
}

TEST_CASE("visible text: a line feed is spelt out within a line") { CHECK(visible_line("a\nb") == "a\\nb"); }

TEST_CASE("visible text: text that is visible already stays") {
  CHECK(visible(visible("\x1b\n")) == visible("\x1b\n"));
}

TEST_CASE("visible text: no byte that a terminal acts on is left") {
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

TEST_CASE("visible text: quotes and backslashes within quotes are escaped") {
  CHECK(in_quotes("a \"b\" \\ c\n") == "\"a \\\"b\\\" \\\\ c\\n\"");
}

TEST_CASE("visible text: 200 characters are shown whole") {
  CHECK(shown(std::string(200, 'x')) == std::string(200, 'x'));
}

TEST_CASE("visible text: a longer text loses its middle and gets its length") {
  const std::string longer = shown("begin" + std::string(1'000'000, 'x') + "end");
  CHECK(longer == "begin" + std::string(128, 'x') + "…" + std::string(63, 'x') + "end (1000008 characters)");
}

TEST_CASE("visible text: characters are counted before they are spelt out") {
  std::string head = "\"é", tail;
  for (int i = 0; i < 132; ++i) head += "\\x1b";
  for (int i = 0; i < 66; ++i) tail += "\\x1b";
  CHECK(in_quotes(std::string("é") + std::string(300, '\x1b')) == head + "…" + tail + "\" (301 characters)");
}

TEST_CASE("visible text: a long line of a message loses its middle, the lines around it do not") {
  const std::string line(kMostInLine, 'x'), around = "before\n";
  CHECK(with_short_lines(around + line + "\n\nafter") == around + line + "\n\nafter");
  const std::string cut = with_short_lines(around + "begin" + std::string(1'000'000, 'x') + "end\nafter\n");
  CHECK(cut.starts_with("before\nbeginxx"));
  CHECK(cut.ends_with("xxend (1000008 characters)\nafter\n"));
  CHECK(cut.find("x…x") != std::string::npos);
  CHECK(cut.size() < kMostInLine + 60);
  std::string wide;
  for (std::size_t i = 0; i < kMostInLine; ++i) wide += "é";
  CHECK(with_short_lines(wide) == wide);
  CHECK(with_short_lines(wide + "é").ends_with("é (2001 characters)"));
}
