#include "experiments/lab/descriptor/form.h"

#include <doctest/doctest.h>

#include "experiments/lab/descriptor/forms.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

/// Reads `json` as a T, writes it, and reads that again. Returns what was written, compact, after the problems.
template <class T>
std::string written(const std::string& json, bool everything = false) {
  Sources sources;
  Problems problems;
  PlacementRows rows;
  const T value = read_value<T>(parse_json(json, sources.add("a"), problems), rows, problems, ReadMode::canonical);
  const JsonNode node = Form<T>::write(value, {everything, ModelKind::vit});
  const std::string text = write_json(node, JsonStyle::compact);
  JsonNode again = parse_json(text, sources.add("b"), problems);
  CHECK(read_value<T>(again, rows, problems, ReadMode::canonical) == value);
  try {
    problems.throw_if_any_or_unused();
  } catch (const InputError& error) {
    return error.what();
  }
  return text;
}

/// The problems of `json` as a number for which a range says what is expected.
std::string problems_of(const std::string& json, Range range) {
  Sources sources;
  Problems problems;
  PlacementRows rows;
  std::int64_t out = 7;
  FieldReader(rows, problems).value(parse_json(json, sources.add("a"), problems), out, range);
  try {
    problems.throw_if_any();
  } catch (const InputError& error) {
    CHECK(out == 7);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("form: what is written in the short form is read back") {
  CHECK(written<NormSpec>("\"rms_norm\"") == "\"rms_norm\"");
  CHECK(written<NormSpec>(R"({"kind": "layer_norm", "eps": 0.5})") == R"({"eps":0.5,"kind":"layer_norm"})");
  CHECK(written<LayerScale>("\"channel\"") == "\"channel\"");
  CHECK(written<LayerScale>(R"({"kind": "scalar", "init": 0.25})") == R"({"init":0.25,"kind":"scalar"})");
  CHECK(written<DropoutRates>("0.125") == "0.125");
  CHECK(written<DropoutRates>(R"({"mlp": 0.125})") == R"({"mlp":0.125})");
  CHECK(written<InitConfig>("\"timm\"") == "\"timm\"");
  CHECK(written<InitConfig>(R"({"base": "timm", "head": "zero"})") == R"({"base":"timm","head":"zero"})");
  CHECK(written<InitGain>("\"deepnorm\"") == "\"deepnorm\"");
  CHECK(written<InitGain>("2") == "2.0");
  CHECK(written<ClassGroups>(R"({"b": ["dog"], "a": ["cat", "lynx"]})") == R"({"a":["cat","lynx"],"b":["dog"]})");
  CHECK(written<std::array<std::int64_t, 2>>("32") == "[32,32]");
  CHECK(written<std::vector<EvalMetric>>(R"(["per_class"])") == R"(["per_class"])");
}

TEST_CASE("form: a value is text as in a table") {
  CHECK(setting_text(true) == "true");
  CHECK(setting_text(1e-6) == "1e-06");
  CHECK(setting_text(Pool::gap) == "gap");
  CHECK(setting_text(InitGain{InitGainRule::sub_ln}) == "sub_ln");
  CHECK(setting_text(std::vector<std::string>{"a", "b"}) == "[a, b]");
  CHECK(setting_text(std::optional<std::int64_t>()).empty());
}

TEST_CASE("form: a range that says what it expects says so of any other value") {
  const Range few{.low = 2, .high = 9, .expected = "two to nine", .why = "one is none"};
  CHECK(problems_of("3", few).empty());
  CHECK(problems_of("1", few) == "a:1:1: expected two to nine, got 1; one is none");
  CHECK(problems_of("\"x\"", few) == "a:1:1: expected two to nine, got \"x\"; one is none");
}

TEST_CASE("form: a missing key does not hide the other problems of a block") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"claim": {"source": "A", "scale": "big", "tests": 3}})") ==
        "d.json:1:11: /claim: the key \"says\" is missing\n"
        "d.json:1:36: /claim/scale: expected one of \"twin\", \"timing\", \"paper\"; got \"big\"\n"
        "d.json:1:52: /claim/tests: expected a list of one object or more, got 3");
}
