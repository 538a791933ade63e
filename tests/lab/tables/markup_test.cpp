#include "experiments/lab/tables/markup.h"

#include <doctest/doctest.h>

using namespace normlab;

TEST_CASE("markup: characters with a meaning in HTML and XML become entities") {
  CHECK(escaped("a & b < c > d \"e\" 'f'") == "a &amp; b &lt; c &gt; d &quot;e&quot; &#39;f&#39;");
  CHECK(escaped("</script><svg onload=x>") == "&lt;/script&gt;&lt;svg onload=x&gt;");
  CHECK(escaped("") == "");
  CHECK(escaped("±0.3 „µ“ 中 🙂\t\n") == "±0.3 „µ“ 中 🙂\t\n");
}

TEST_CASE("markup: each byte that XML cannot hold becomes a replacement character") {
  const std::string bad = "\xEF\xBF\xBD";
  CHECK(escaped(std::string_view("a\0b", 3)) == "a" + bad + "b");
  CHECK(escaped("\x1b[31m\x7f") == bad + "[31m" + bad);
  CHECK(escaped("\xff\xfe") == bad + bad);                      // no UTF-8 at all
  CHECK(escaped("\xc0\xaf") == bad + bad);                      // "/" in two bytes
  CHECK(escaped("\xe0\x80\xaf") == bad + bad + bad);            // and in three
  CHECK(escaped("\xed\xa0\x80") == bad + bad + bad);            // half of a surrogate pair
  CHECK(escaped("\xef\xbf\xbf") == bad + bad + bad);            // U+FFFF
  CHECK(escaped("\xf4\x90\x80\x80") == bad + bad + bad + bad);  // beyond U+10FFFF
  CHECK(escaped("\xc2\x9b") == bad + bad);                      // a control character of Latin 1
  CHECK(escaped("x\xe4\xb8") == "x" + bad + bad);               // cut off
  CHECK(escaped("\xe4<") == bad + "&lt;");                      // a lead byte swallows nothing
}

TEST_CASE("markup: a cell of a Markdown table stays in its cell, without emphasis or tags") {
  CHECK(markdown_cell("a|b\\|c") == "a\\|b\\\\\\|c");
  CHECK(markdown_cell("blocks.*.mlp and *.attn") == "blocks.\\*.mlp and \\*.attn");
  CHECK(markdown_cell("<img>") == "\\<img>");
  CHECK(markdown_cell("two\nlines\r") == "two lines ");
}

TEST_CASE("markup: names for files and ids are plain") {
  CHECK(plain_name("eval/accuracy") == "eval-accuracy");
  CHECK(plain_name("../../etc/passwd") == "etc-passwd");
  CHECK(plain_name("afsm.channel/blocks.0.attn") == "afsm-channel-blocks-0-attn");
  CHECK(plain_name("µ") == "unnamed");
  CHECK(plain_name("") == "unnamed");
}
