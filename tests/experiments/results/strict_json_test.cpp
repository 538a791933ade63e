#include "experiments/results/strict_json.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/error.h"

using namespace normlab;

namespace {

/// What is said of `text` by a reader that asks `work` of the object in it; "" where nothing is.
template <class Work>
std::string error_of(const std::string& text, const Work& work) {
  try {
    const nlohmann::json json = parse_strict_json(text, "f.json");
    ObjectReader object(json, "f.json");
    work(object);
    object.finish();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}
std::string error_of(const std::string& text) {
  return error_of(text, [](ObjectReader&) {});
}

}  // namespace

TEST_CASE("strict_json: what is no JSON is refused with its byte, and what JSON leaves open with its key") {
  CHECK(error_of("{}") == "");
  CHECK(error_of("{\"a\": }").starts_with("f.json: byte 6: not valid JSON: syntax error"));
  CHECK(error_of("").starts_with("f.json: byte 0: not valid JSON"));
  CHECK(error_of("{} x").starts_with("f.json: byte 3: not valid JSON"));
  CHECK(error_of(std::string("{}\0", 3)) == "f.json: byte 2: a NUL byte");
  CHECK(error_of("{\"a\": 4e842}").starts_with("f.json: not valid JSON: number overflow"));
  CHECK(error_of("{\"a\": 1, \"a\": 2}").starts_with("f.json: duplicate key"));
  CHECK(error_of("{\"b\": [{\"a\": 1, \"c\": {}, \"a\": 2}]}").starts_with("f.json: duplicate key"));
  CHECK(error_of(std::string(65, '[')) == "f.json: nested too deeply");
  CHECK(error_of("[1]") == "f.json: expected an object, found array");
}

TEST_CASE("strict_json: a missing, unknown or mistyped key is named") {
  const auto says = [](const std::string& text, const auto& work, const char* what) {
    const std::string error = error_of(text, work);
    CHECK_MESSAGE(error == what, "got: ", error, ", not: ", what);
  };
  says(
      "{\"x\": 1}", [](ObjectReader&) {}, "f.json: \"x\": unknown key");
  says(
      "{}", [](ObjectReader& o) { o.string("x"); }, "f.json: \"x\": this key is missing");
  says(
      "{\"x\": 1}", [](ObjectReader& o) { o.string("x"); }, "f.json: \"x\": expected a string, found number");
  says(
      "{\"x\": -1}", [](ObjectReader& o) { o.unsigned_integer("x"); },
      "f.json: \"x\": expected a non-negative integer, found -1");
  says(
      "{\"x\": 1.5}", [](ObjectReader& o) { o.integer("x"); }, "f.json: \"x\": expected an integer, found 1.5");
  says(
      "{\"x\": 18446744073709551615}", [](ObjectReader& o) { o.integer("x"); },
      "f.json: \"x\": expected an integer, found 18446744073709551615");
  says(
      "{\"x\": \"1\"}", [](ObjectReader& o) { o.number("x"); }, "f.json: \"x\": expected a number, found string");
  says(
      "{\"x\": 0}", [](ObjectReader& o) { o.boolean("x"); }, "f.json: \"x\": expected true or false, found number");
  says(
      "{\"x\": []}", [](ObjectReader& o) { o.strings("x"); }, "f.json: \"x\": expected an object, found array");
  says(
      "{\"x\": {\"y\": 1}}", [](ObjectReader& o) { o.strings("x"); },
      "f.json: \"x\": \"y\": expected a string, found number");
  says(
      "{\"a\": \"s\", \"b\": 7, \"c\": -7, \"d\": 0.5, \"e\": true, \"f\": {\"g\": \"h\"}}",
      [](ObjectReader& o) {
        CHECK(o.string("a") == "s");
        CHECK(o.unsigned_integer("b") == 7);
        CHECK(o.integer("c") == -7);
        CHECK(o.number("d") == 0.5);
        CHECK(o.boolean("e"));
        CHECK(o.strings("f") == std::map<std::string, std::string>{{"g", "h"}});
        CHECK(o.optional("z") == nullptr);
      },
      "");
}

TEST_CASE("strict_json: numbers that JSON has not go beside it and come back") {
  const std::map<std::string, double> values{{"a", 1.5}, {"b", -INFINITY}, {"c", INFINITY}, {"d", NAN}};
  nlohmann::ordered_json object = nlohmann::ordered_json::object(), nonfinite = nlohmann::ordered_json::object();
  put_numbers(object, values, nonfinite);
  CHECK(object.dump() == R"({"a":1.5,"b":null,"c":null,"d":null})");
  CHECK(nonfinite.dump() == R"({"b":"-inf","c":"inf","d":"nan"})");
  const nlohmann::json read = object, words = nonfinite;
  const auto back = take_numbers(read, &words, "f.json");
  CHECK(back.at("a") == 1.5);
  CHECK(back.at("b") == -INFINITY);
  CHECK(back.at("c") == INFINITY);
  CHECK(std::isnan(back.at("d")));
  CHECK_THROWS_AS(take_numbers(read, nullptr, "f.json"), InputError);
  CHECK_THROWS_AS(take_numbers({{"a", "1"}}, &words, "f.json"), InputError);
  CHECK_THROWS_AS(take_numbers({{"b", nullptr}}, &read, "f.json"), InputError);
  CHECK_THROWS_AS(take_numbers(1, &words, "f.json"), InputError);
}
