#include "experiments/lab/descriptor/tested_claim.h"

#include <doctest/doctest.h>

#include "tests/lab/base/text.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

/// A descriptor with this claim; its tests begin in line 2.
std::string with_claim(const std::string& tests, const std::string& more = R"("scale": "twin",)") {
  return R"({"dataset": "shapes", "train": {"steps": 5}, "claim": {"source": "A", "says": "B.", )" + more +
         "\n \"tests\": [" + tests + "]}}";
}

}  // namespace

TEST_CASE("claim block: source, words and tests are read") {
  DescriptorFiles files;
  const TestedClaim claim =
      files
          .load(with_claim(
              R"({"kind": "probe", "of": "a/*", "over": "b", "where": "row = x", "last": 3, "any": true, "range": [null, 2]},
                 {"kind": "gain", "metric": "eval/loss", "chance": true, "outside": [-1, 1]})",
              R"("printed": "+2", "scale": "timing", "scale_note": "C.", "bench": ["norms --table dyt"], "repeat": 4,)"))
          .claim;
  CHECK(claim.source == "A");
  CHECK(claim.printed.words == "+2");
  CHECK(claim.scale == ClaimScale::timing);
  CHECK(claim.bench == std::vector<std::string>{"norms --table dyt"});
  CHECK(claim.repeat == 4);
  REQUIRE(claim.tests.size() == 2);
  const ClaimTest& probe = claim.tests[0];
  CHECK(probe.kind == ClaimTestKind::probe);
  CHECK(probe.of == "a/*");
  CHECK(probe.last == 3);
  CHECK(probe.any);
  CHECK_FALSE(probe.range.low.has_value());
  CHECK(probe.range.high == 2.0);
  CHECK(files.without_folder(probe.place) == "d.json:2:12: /claim/tests/0");
  CHECK(claim.tests[1].range.outside);
  CHECK(claim.tests[1].chance);
}

TEST_CASE("claim block: printed cells are pairs or numbers, and a statement may be short and in our words") {
  DescriptorFiles files;
  const auto claim = [&](const std::string& printed) {
    return files
        .load(with_claim(
            R"({"kind": "contrast", "where": "row = a", "against": "row = b", "margin": 0.5, "range": [0, null]})",
            R"("scale": "twin", "short": "B", "paraphrase": true, "reading": "C.", "printed": )" + printed + ","))
        .claim;
  };
  const TestedClaim difference = claim(
      R"({"as": "difference", "unit": "points", "where": "Table 6", "cells": {"B/32": [63.8, 61.2], "S": [64, 63.75]}})");
  CHECK(difference.brief == "B");
  CHECK(difference.paraphrase);
  CHECK(difference.reading == "C.");
  CHECK(difference.tests[0].margin == 0.5);
  REQUIRE(difference.printed.values.size() == 2);
  CHECK(difference.printed.values[0].first == "B/32");
  CHECK(difference.printed.values[0].second == doctest::Approx(-2.6));
  CHECK(difference.printed.decimals == 2);
  CHECK(claim(R"({"as": "ratio", "where": "T", "cells": {"a": [2, 3]}})").printed.values[0].second == 1.5);
  CHECK(claim(R"({"as": "value", "where": "T", "cells": {"a": 7}})").printed.values[0].second == 7);
  for (const auto& [printed, part] :
       {std::pair{R"({"as": "value", "where": "T", "cells": {"a": [1, 2]}})", "expected a number"},
        {R"({"as": "ratio", "where": "T", "cells": {"a": 3}})", "expected [baseline, value]"},
        {R"({"as": "ratio", "where": "T", "cells": {}})", "expected an object with one cell or more"},
        {R"({"as": "ratio", "where": "T", "cells": {"a": [0, 1]}})", "a ratio to 0"},
        {R"({"as": "value", "unit": 7, "where": "T", "cells": {"a": 1}})", "expected a non-empty string"},
        {R"({"as": "ratio", "cells": {"a": [1, 2]}})", "the key \"where\" is missing"},
        {R"(5)", "expected an object"}})
    CHECK_THROWS_WITH_AS(claim(printed), doctest::Contains(part), InputError);
}

TEST_CASE("claim block: it changes no trial") {
  DescriptorFiles files;
  const Experiment with = files.load(with_claim(R"({"kind": "gain", "range": [0, null]})"));
  CHECK(with.trials[0].id == files.load(R"({"dataset": "shapes", "train": {"steps": 5}})").trials[0].id);
}

TEST_CASE("claim block: every mistake is named with its place") {
  DescriptorFiles files;
  for (const auto& [tests, place, part] : {
           std::tuple{R"({"kind": "gian", "range": [0, null]})", "d.json:2:21: /claim/tests/0/kind",
                      "expected one of \"gain\", \"interaction\""},
           {R"({"kind": "timing", "of": "a", "over": "b", "range": [null, 1]}, {"kind": "gain", "range": [0, null]})",
            "d.json:2:11: /claim/tests", "tests of kind \"timing\" cannot be mixed with others"},
           {R"({"kind": "probe", "of": "a", "against_of": "b", "range": [null, 1]})",
            "d.json:2:41: /claim/tests/0/against_of", "so it needs \"against\""},
           {R"({"kind": "probe", "of": "a", "range": [null, 0]})", "d.json:2:12: /claim/tests/0",
            "a test of kind \"probe\" compares positive numbers, so its bounds must be above 0"},
           {R"({"range": [0, null]})", "d.json:2:12: /claim/tests/0", "the key \"kind\" is missing"},
           {R"({"kind": "gain", "rnage": [0, null], "range": [0, 1]})", "d.json:2:29: /claim/tests/0/rnage",
            "did you mean \"range\""},
           {R"({"kind": "gain"})", "d.json:2:12: /claim/tests/0", "needs either \"range\" or \"outside\""},
           {R"({"kind": "gain", "range": [null, null]})", "/claim/tests/0/range", "give a bound"},
           {R"({"kind": "gain", "range": [2, 1]})", "/claim/tests/0/range", "low bound is above the high one"},
           {R"({"kind": "gain", "range": 2})", "/claim/tests/0/range", "expected [low, high]"},
           {R"({"kind": "gain", "over": "depth", "range": [0, 1]})", "/claim/tests/0/over",
            "a test of kind \"gain\" does not read this key"},
           {R"({"kind": "slope", "range": [0, 1]})", "/claim/tests/0", "a test of kind \"slope\" needs \"over\""},
           {R"({"kind": "probe", "of": "a", "last": 0, "range": [0, 1]})", "/claim/tests/0/last",
            "expected a whole number above 0, got 0"},
           {R"({"kind": "probe", "of": "a", "last": 1, "first": 1, "range": [0, 1]})", "/claim/tests/0",
            "give \"first\" or \"last\", not both"},
           {R"({"kind": "gain", "any": 1, "range": [0, 1]})", "/claim/tests/0/any", "expected true or false, got 1"},
       }) {
    const std::string problems = files.problems(with_claim(tests));
    CAPTURE(problems);
    CHECK(has(problems, place));
    CHECK(has(problems, part));
  }
  CHECK(has(files.problems(with_claim("")), "expected a list of one object or more"));
  const std::string no_tests = R"({"dataset": "shapes", "train": {"steps": 5}, "claim": {"source": "A", "says": "B", )";
  CHECK(has(files.problems(no_tests + R"("scale": "twin"}})"), "a claim that is tested here needs \"tests\""));
  CHECK(files.problems(no_tests + R"("scale": "paper"}})").empty());
  CHECK(has(files.problems(no_tests + R"("scale": "paper", "repeat": 1}})"), "expected a whole number from 2 to 1000"));
  CHECK(has(files.problems(no_tests + R"("scale": "paper", "bench": "norms"}})"),
            "expected a list of one string or more"));
  CHECK(has(files.problems(
                with_claim(R"({"kind": "timing", "of": "a", "over": "b", "range": [0, 1]})", R"("scale": "timing",)")),
            "a claim of scale \"timing\" needs \"bench\""));
}
