#include "experiments/lab/descriptor/printed_numbers.h"

#include <doctest/doctest.h>

#include "tests/lab/base/text.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

/// A descriptor with one row, whose block begins in line 2 and whose list of numbers in line 3.
std::string with_numbers(
    const std::string& numbers,
    const std::string& more = R"("repository": "a/b", "commit": "0123abc", "file": "README.md",)") {
  return concat("{\"dataset\": \"shapes\", \"train\": {\"steps\": 5},\n \"printed\": {", more,
                "\n \"numbers\": ", numbers, "}}");
}
const std::string kNumber = R"([{"value": 92.30, "evaluation": "unstated"}])";

}  // namespace

TEST_CASE("printed block: source, numbers and differences are read") {
  DescriptorFiles files;
  const PrintedNumbers printed =
      files
          .load(with_numbers(
              R"([{"value": 92.30, "evaluation": "unstated"}, {"where": "row = x", "value": 86, "evaluation": "best",
                  "rerun": {"values": [85.5, 86.25], "evaluation": "last", "how": "Its code."}}])",
              R"("repository": "a/b", "commit": "0123abc", "file": "README.md", "differs": ["A.", "B."],
                 "images": "other", "images_note": "JPEGs",)"))
          .printed;
  CHECK(printed.repository == "a/b");
  CHECK(printed.commit == "0123abc");
  CHECK(printed.file == "README.md");
  CHECK(printed.differs == std::vector<std::string>{"A.", "B."});
  CHECK(printed.images == PrintedImages::other);
  CHECK(printed.images_note == "JPEGs");
  REQUIRE(printed.numbers.size() == 2);
  CHECK(printed.numbers[0].value.value == 92.3);
  CHECK(printed.numbers[0].value.decimals == 2);  // as written
  CHECK(printed.numbers[0].evaluation == PrintedEvaluation::unstated);
  CHECK_FALSE(printed.numbers[0].rerun.has_value());
  CHECK(printed.numbers[1].where == "row = x");
  CHECK(printed.numbers[1].value.decimals == 0);
  REQUIRE(printed.numbers[1].rerun.has_value());
  CHECK(printed.numbers[1].rerun->values[1].value == 86.25);
  CHECK(printed.numbers[1].rerun->how == "Its code.");
  CHECK(has(printed.numbers[1].place, "/printed/numbers/1"));
}

TEST_CASE("printed block: it changes no trial") {
  DescriptorFiles files;
  CHECK(files.load(with_numbers(kNumber)).trials[0].id ==
        files.load(R"({"dataset": "shapes", "train": {"steps": 5}})").trials[0].id);
}

TEST_CASE("printed block: a descriptor that extends another does not inherit it") {
  DescriptorFiles files;
  files.write("base.json", with_numbers(kNumber));
  CHECK(files.load(R"({"extends": "base.json", "sweep": {"train.steps": [5, 6]}})").printed.empty());
  CHECK(
      has(files.problems(R"({"extends": "base.json", "printed": {"numbers": [{"value": 91, "evaluation": "last"}]}})"),
          "the key \"repository\" is missing"));
  CHECK_FALSE(files.load(with_numbers(kNumber), {R"(sweep={"train.steps": [5, 6]})"}).printed.empty());
}

TEST_CASE("printed block: every mistake is named with its place") {
  DescriptorFiles files;
  const auto number = [](const std::string& value, const std::string& more = "") {
    return concat("[{\"evaluation\": \"last\", ", more, "\"value\": ", value, "}]");
  };
  const auto rerun = [&](const std::string& members) { return number("92.3", "\"rerun\": {" + members + "}, "); };
  const std::string file = R"("file": "README.md",)", source = R"("repository": "a/b", "commit": "0123abc",)" + file;
  for (const auto& [descriptor, place, part] : {
           std::tuple{with_numbers(number("0.923")), "d.json:3:46: /printed/numbers/0/value",
                      "expected a percentage from 1 to 100, such as 86.3, got 0.923"},
           {with_numbers(number("101")), "/printed/numbers/0/value", "expected a percentage from 1 to 100"},
           {with_numbers(number("\"92.3\"")), "/printed/numbers/0/value", "expected a percentage from 1 to 100"},
           {with_numbers(R"([{"evaluation": "final", "value": 92}])"), "/printed/numbers/0/evaluation",
            R"(expected one of "last", "best", "best_minival", "unstated")"},
           {with_numbers(R"([{"value": 92}])"), "d.json:3:14: /printed/numbers/0", "the key \"evaluation\" is missing"},
           {with_numbers(R"([{"evaluation": "last"}])"), "/printed/numbers/0", "the key \"value\" is missing"},
           {with_numbers(number("92", R"("were": "row = a", )")), "/printed/numbers/0/were", "did you mean \"where\""},
           {with_numbers("[]"), "/printed/numbers", "expected a list of one object or more"},
           {with_numbers("92.3"), "/printed/numbers", "expected a list of one object or more"},
           {with_numbers(rerun(R"("values": [], "evaluation": "last", "how": "A.")")), "/rerun/values",
            "expected a list of one percentage or more"},
           {with_numbers(rerun(R"("values": [0.9], "evaluation": "last", "how": "A.")")), "/rerun/values",
            "each from 1 to 100"},
           {with_numbers(rerun(R"("values": [90], "evaluation": "last")")), "/printed/numbers/0/rerun",
            "the key \"how\" is missing"},
           {with_numbers(rerun(R"("values": [90], "how": "A.")")), "/printed/numbers/0/rerun",
            "the key \"evaluation\" is missing"},
           {with_numbers(kNumber, R"("repository": "a/b", "commit": "v1.0",)" + file), "/printed/commit",
            "expected a commit, 7 to 40 hexadecimal digits, got"},
           {with_numbers(kNumber, R"("repository": "a/b", "commit": 1234567,)" + file), "/printed/commit",
            "expected a commit"},
           {with_numbers(kNumber, R"("commit": "0123abc",)" + file), "/printed", "the key \"repository\" is missing"},
           {with_numbers(kNumber, R"("repository": "a/b", "commit": "0123abc",)"), "/printed",
            "the key \"file\" is missing"},
           {with_numbers(kNumber, source + R"("differs": "A.",)"), "/printed/differs",
            "expected a list of one sentence or more"},
           {with_numbers(kNumber, source + R"("differs": [""],)"), "/printed/differs",
            "expected a list of one sentence or more"},
           {with_numbers(kNumber, source + R"("images": "other",)"), "/printed/images", "needs \"images_note\""},
           {with_numbers(kNumber, source + R"("images": "jpeg",)"), "/printed/images",
            R"(expected one of "same", "other")"},
           {with_numbers(kNumber, source + R"("images_note": "A.",)"), "/printed/images_note",
            R"(write "images": "other" beside it)"},
           {concat(R"({"sweep": {"train.optimizer.lr": [0.1, 0.2]}, )", with_numbers(kNumber).substr(1)),
            "/printed/numbers/0", "needs \"where\", which selects one of the 2 rows"},
       }) {
    const std::string problems = files.problems(descriptor);
    CAPTURE(problems);
    CHECK(has(problems, place));
    CHECK(has(problems, part));
  }
  CHECK(files.problems(with_numbers(kNumber)).empty());
}
