#include "experiments/lab/data/shard_names.h"

#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

using Names = std::vector<std::string>;

TEST_CASE("shard_names: a plain name is itself") { CHECK(expand_shard_names("a.tar") == Names{"a.tar"}); }

TEST_CASE("shard_names: a range is every number with its leading zeros") {
  CHECK(expand_shard_names("x-{08..11}.tar") == Names{"x-08.tar", "x-09.tar", "x-10.tar", "x-11.tar"});
  CHECK(expand_shard_names("x-{8..11}.tar") == Names{"x-8.tar", "x-9.tar", "x-10.tar", "x-11.tar"});
}

TEST_CASE("shard_names: a list keeps its order") {
  CHECK(expand_shard_names("b,a-{0..1},c") == Names{"b", "a-0", "a-1", "c"});
}

TEST_CASE("shard_names: several braces are multiplied") {
  CHECK(expand_shard_names("{p,q}/{0..1}") == Names{"p/0", "p/1", "q/0", "q/1"});
}

TEST_CASE("shard_names: up to 100000 names are expanded") {
  const Names some = expand_shard_names("pets-train-{0000..0146}.tar"), most = expand_shard_names("{00000..99999}");
  CHECK(some.size() == 147);
  CHECK(some.back() == "pets-train-0146.tar");
  CHECK(most.size() == 100000);
  CHECK(most.back() == "99999");
}

TEST_CASE("shard_names: names without a meaning are refused") {
  const auto said = [](const std::string& text) { return input_error([&] { expand_shard_names(text); }); };
  for (const auto& row : {std::pair{"", "a name is empty"},
                          {"a,,b", "a name is empty"},
                          {"a,", "a name is empty"},
                          {"{0..1", "a brace is not closed"},
                          {"0..1}", "byte 4: a closing brace"},
                          {"{{0..1}}", "byte 1: a brace inside a brace"},
                          {"{}", "an empty word"},
                          {"{a,}", "an empty word"},
                          {"{..3}", "\"\" is not a number"},
                          {"{a..c}", "\"a\" is not a number"},
                          {"{-1..3}", "\"-1\" is not a number"},
                          {"{0..9999999999999}", "is not a number of up to 12 digits"},
                          {"{3..1}", "{3..1} counts down"},
                          {"{08..9}", "the same length"},
                          {"{8..010}", "the same length"},
                          {"{0..100000}", "more than 100000 names"},
                          {"{0..999}{0..999}", "more than 100000 names"},
                          {"{00000..99999},a", "more than 100000 names"},
                          {"/etc/x.tar", "is outside the folder of the data set"},
                          {"../x.tar", "is outside the folder of the data set"},
                          {"a,a", "\"a\" occurs twice"}}) {
    const auto text = row.first, what = row.second;
    CAPTURE(text);
    CHECK_SAYS(said(text), what);
  }
}
