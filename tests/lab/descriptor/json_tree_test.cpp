#include "experiments/lab/descriptor/json_tree.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "experiments/lab/descriptor/problems.h"

using namespace normlab;

namespace {

struct Parsed {
  Sources sources;
  Problems problems;
  JsonNode root;
};

Parsed parse(std::string_view text) {
  Parsed out;
  out.root = parse_json(text, out.sources.add("f.json"), out.problems);
  return out;
}

std::string error_of(std::string_view text) {
  try {
    Parsed out = parse(text);
    out.problems.throw_if_any();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

bool begins(const std::string& text, std::string_view start) { return text.substr(0, start.size()) == start; }

}  // namespace

TEST_CASE("json_tree: every key and value knows its first byte") {
  const Parsed p = parse(
      "{ // a comment, \"with\": [tokens]\n  \"a\" : -12, /* x */ "
      "\"b\":[1.5,/**/true,\n\"s\\\"},\"]\n,\"\xC3\xA4\":{}}");
  const auto at = [&](const Position& position) { return to_string(position); };
  REQUIRE(p.root.members.size() == 3);
  CHECK(at(p.root.at) == "f.json:1:1");
  CHECK(at(p.root.members[0].key_at) == "f.json:2:3");
  CHECK(at(p.root.members[0].value.at) == "f.json:2:9");
  CHECK(p.root.members[0].value.integer == -12);
  CHECK(at(p.root.members[1].key_at) == "f.json:2:22");
  const JsonNode& list = p.root.members[1].value;
  CHECK(at(list.at) == "f.json:2:26");
  REQUIRE(list.items.size() == 3);
  CHECK(at(list.items[0].at) == "f.json:2:27");
  CHECK(list.items[0].real == 1.5);
  CHECK(at(list.items[1].at) == "f.json:2:35");
  CHECK(at(list.items[2].at) == "f.json:3:1");
  CHECK(list.items[2].text == "s\"},");
  CHECK(at(p.root.members[2].key_at) == "f.json:4:2");
  CHECK(at(p.root.members[2].value.at) == "f.json:4:7");  // columns count bytes
}

TEST_CASE("json_tree: a number directly before a comment keeps the next position right") {
  const Parsed p = parse("[1/*x*/,2//y\n,3]");
  REQUIRE(p.root.items.size() == 3);
  CHECK(to_string(p.root.items[1].at) == "f.json:1:9");
  CHECK(to_string(p.root.items[2].at) == "f.json:2:2");
}

TEST_CASE("json_tree: a syntax error is placed at the first byte of its token") {
  CHECK(begins(error_of(""), "f.json:1:1: "));
  CHECK(begins(error_of("{\"a\": 1,\n  \"b\" 2}"), "f.json:2:7: "));
  CHECK(begins(error_of("[1,,2]"), "f.json:1:4: "));
  CHECK(begins(error_of("[1, 2"), "f.json:1:6: "));
  CHECK(begins(error_of("[1,]"), "f.json:1:4: "));
  CHECK(begins(error_of("{\"a\": nul}"), "f.json:1:7: "));
  CHECK(begins(error_of("{} {}"), "f.json:1:4: "));
  CHECK(error_of("{\"a\": 1e999}") == "f.json:1:7: this number is too large");
  CHECK(begins(error_of("[\"a\nb\"]"), "f.json:1:2: "));
  CHECK(begins(error_of("{ /* never closed"), "f.json:1:"));
  CHECK(error_of("[NaN]") != "");
}

TEST_CASE("json_tree: common slips are told in words") {
  CHECK(error_of("{\"a\": 1,\n}") == "f.json:2:1: the comma before } or ] is not allowed; remove it");
  CHECK(error_of("[1, 2, // two\n ]") == "f.json:2:2: the comma before } or ] is not allowed; remove it");
  CHECK(error_of("{\"a\": 1\n \"b\": 2}") == "f.json:2:2: a comma is missing before this");
  CHECK(error_of("[1 2]") == "f.json:1:4: a comma is missing before this");
  CHECK(error_of("[{} {}]") == "f.json:1:5: a comma is missing before this");
  CHECK(error_of("{\"a\" 1}") == "f.json:1:6: a colon is missing before this value");
  CHECK(error_of("{'a': 1}") == "f.json:1:2: strings and keys need double quotes");
  CHECK(error_of("{\"a\": 'b'}") == "f.json:1:7: strings and keys need double quotes");
  CHECK(error_of("{a: 1}") == "f.json:1:2: a key needs double quotes");
  CHECK(error_of("{\"a\": True}") == "f.json:1:7: a string needs double quotes; true, false and null are lower case");
  CHECK(error_of("{\"a\": \"b\n\"}") == "f.json:1:7: this string has no closing quote on its line");
  CHECK(error_of("{\"a\": [1,") == "f.json:1:10: the text ends with an unclosed { or [");
  CHECK(error_of("") == "f.json:1:1: a value is missing");
  CHECK(error_of("{\"a\": 1} // a comment\n") == "");
}

TEST_CASE("json_tree: bytes that are not JSON text are refused with their place") {
  CHECK(error_of("\xEF\xBB\xBF{}") == "f.json:1:1: begins with a byte order mark; save it as UTF-8 without one");
  CHECK(error_of("{\n// \xFF\n}") == "f.json:2:4: this is not valid UTF-8; save the file as UTF-8");
  for (const char* bad :
       {"[\"\xC0\xAF\"]", "[\"\xED\xA0\x80\"]", "[\"\xF4\x90\x80\x80\"]", "[\"\xE2\x82\"]", "[\"\x80\"]"})
    CHECK(error_of(bad) == "f.json:1:3: this is not valid UTF-8; save the file as UTF-8");
  CHECK(error_of(std::string_view("{}\0{", 4)) == "f.json:1:3: this is a NUL byte; remove it");
  CHECK(error_of("[\"\xE2\x82\xAC\xF0\x9F\x98\x80\"]") == "");
}

TEST_CASE("json_tree: a duplicate key is a problem with its pointer") {
  CHECK(error_of("{\"a\": 1, \"b/c\": [{\"x\": 1,\n \"x\": {\"y\": [2]}}], \"a\": 2}") ==
        "f.json:2:2: /b~1c/0/x: this key occurs twice; remove one\nf.json:2:21: /a: this key occurs twice; remove one");
  CHECK(error_of("{\"a\": {\"k\": 1}, \"b\": {\"k\": 1}}") == "");
}

TEST_CASE("json_tree: depth and length are limited") {
  const auto nested = [](std::size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  CHECK(error_of(nested(kMaxJsonDepth)) == "");
  CHECK(error_of(nested(kMaxJsonDepth + 1)) == "f.json:1:65: nested more than 64 levels deep");
  CHECK(error_of(nested(500'000)) == "f.json:1:65: nested more than 64 levels deep");
  CHECK(begins(error_of(std::string(kMaxJsonBytes + 1, ' ')), "f.json:1:1: 1048577 bytes"));
}

TEST_CASE("json_tree: a number keeps its kind") {
  const Parsed p = parse("[0, -1, 18446744073709551615, 18446744073709551616, 1.0, 1e3, -0]");
  const JsonKind kinds[] = {JsonKind::natural, JsonKind::integer, JsonKind::natural, JsonKind::real,
                            JsonKind::real,    JsonKind::real,    JsonKind::natural};
  REQUIRE(p.root.items.size() == 7);
  for (std::size_t i = 0; i < 7; ++i) CHECK(p.root.items[i].kind == kinds[i]);
  CHECK(p.root.items[2].natural == UINT64_MAX);
}

TEST_CASE("json_tree: the compact form sorts keys by code point") {
  const Parsed p =
      parse("{\"b\": [1.0, 0.1, 1e-7, 5e2], \"a\": {\"\xC3\xA4\": null, \"z\": \"\\u0041\\n\"}, \"A\": true}");
  CHECK(write_json(p.root, JsonStyle::compact) ==
        "{\"A\":true,\"a\":{\"z\":\"A\\n\",\"\xC3\xA4\":null},\"b\":[1.0,0.1,1e-07,500.0]}");
}

TEST_CASE("json_tree: a real number has its shortest digits") {
  CHECK(shortest_real(0.1 + 0.2) == "0.30000000000000004");
  CHECK(shortest_real(1e22) == "1e+22");
}

TEST_CASE("json_tree: equal values have one text") {
  const Parsed p = parse("[500, 5e2, 500.0, -0.0, -0, 0.5]");
  for (int i = 0; i < 3; ++i) CHECK(value_text(p.root.items[std::size_t(i)]) == "500");
  CHECK(value_text(p.root.items[3]) == "0");
  CHECK(value_text(p.root.items[4]) == "0");
  CHECK(value_text(p.root.items[5]) == "0.5");
  CHECK(value_text(parse("[1e300]").root) == "[1e+300]");
}
