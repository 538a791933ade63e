// "external": numbers of other programs.
#include "experiments/lab/descriptor/external_numbers.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

const char* const kTimm = R"({"external": [{"label": "timm", "file": "timm.csv"}]})";

}  // namespace

TEST_CASE("external: values are read beside the descriptor, by RFC 4180") {
  DescriptorFiles files;
  files.write(
      "timm.csv",
      "\xef\xbb\xbfrow,seed,metric,value\r\npre_pre,3,eval/accuracy,0.81\r\n\r\n\"a, \"\"b\"\"\",4,eval/loss,0.5");
  const Experiment e = files.load(kTimm);
  REQUIRE(e.external.size() == 1);
  CHECK(e.external[0].label == "timm");
  REQUIRE(e.external[0].values.size() == 2);
  CHECK(e.external[0].values[0].seed == 3);
  CHECK(e.external[0].values[0].value == 0.81);
  CHECK(e.external[0].values[1].row == "a, \"b\"");
  CHECK(e.external[0].values[1].metric == "eval/loss");
}

TEST_CASE("external: no id changes, and the descriptor of an archive needs no file") {
  DescriptorFiles files;
  files.write("timm.csv", "row,seed,metric,value\npre_pre,0,eval/accuracy,0.5\n");
  const Experiment e = files.load(kTimm), plain = files.load("{}");
  CHECK(e.trials[0].id == plain.trials[0].id);
  std::filesystem::remove(files.folder() / "timm.csv");
  const Experiment again = load_experiment(e.whole, "archive.jsonl", "d", {}, kMaxTrials, nullptr);
  REQUIRE(again.external.size() == 1);
  CHECK(again.external[0].values[0].value == 0.5);
  CHECK(again.external[0].file == "timm.csv");
}

TEST_CASE("external: a path is relative to its file, and is not inherited") {
  DescriptorFiles files;
  files.write("sub/timm.csv", "row,seed,metric,value\npre_pre,0,eval/accuracy,0.5\n");
  files.write("sub/base.json", kTimm);
  CHECK(load_experiment(files.folder() / "sub/base.json").external.size() == 1);
  CHECK(files.load(R"({"extends": "sub/base.json"})").external.empty());
}

TEST_CASE("external: errors of the file have its lines and columns") {
  DescriptorFiles files;
  const auto problems = [&](const std::string& text) {
    files.write("timm.csv", text);
    return files.problems(kTimm);
  };
  const std::string head = "row,seed,metric,value\n";
  CHECK(problems(head + "a,0,eval/accuracy,0.5\na,1,eval/accuracy,81.2\n") ==
        "timm.csv:3:19: expected a share from 0 to 1, as results have it, got 81.2; divide percent by 100");
  CHECK(problems(head + "a,x,eval/loss,1\nb,0,eval/loss,1e\nc,0,eval/loss,nan\n") ==
        "timm.csv:2:3: expected a seed, an integer from 0 to 2^64 - 1, got \"x\"\n"
        "timm.csv:3:15: expected a finite number, got \"1e\"\n"
        "timm.csv:4:15: expected a finite number, got \"nan\"");
  CHECK(problems(head + "a,18446744073709551616,eval/loss,1\nb,0,eval/loss,1e400\nc,0,eval/loss,-1e-400\n") ==
        "timm.csv:2:3: expected a seed, an integer from 0 to 2^64 - 1, got \"18446744073709551616\"\n"
        "timm.csv:3:15: expected a finite number, got \"1e400\"\n"
        "timm.csv:4:15: expected a finite number, got \"-1e-400\"");
  CHECK(problems(head + "a,0,eval/loss\n\"a,0,eval/loss,1\n") ==
        "timm.csv:2:1: expected four cells, row,seed,metric,value, got 3\n"
        "timm.csv:3:1: a quotation mark is not closed in this line");
  CHECK(problems(head + "a,0,eval/loss,1\na,0,eval/loss,2\n") ==
        "timm.csv:3:1: \"a\", seed 0, has a value of eval/loss above");
  CHECK(problems(head + ",0,eval/loss,1\n") == "timm.csv:2:1: is empty");
  CHECK(problems(head) == "timm.csv:1:1: expected the heading row,seed,metric,value and numbers below it");
  CHECK(problems("") == "timm.csv:1:1: expected the heading row,seed,metric,value and numbers below it");
  CHECK(problems("row,sead,metric,value\n") ==
        "timm.csv:1:1: expected the heading row,seed,metric,value, got \"row,sead,metric,value\"");
}

TEST_CASE("external: errors of the descriptor have their pointers") {
  DescriptorFiles files;
  const auto has = [&](const std::string& external, const std::string& what) {
    const std::string found = files.problems(concat("{\"external\": ", external, "}"));
    CHECK_MESSAGE(found.find(what) != found.npos, found);
  };
  has(R"([{"label": "timm", "file": "none.csv"}])", "d.json:1:41: /external/0/file: ");
  has(R"([{"label": "timm"}])", "/external/0: the key \"file\" is missing");
  has(R"({"label": "timm"})", "/external: expected a list");
  has("[]", "/external: expected a list of one object or more");
  has(R"([{"label": "", "file": "a.csv"}])", "/external/0/label: expected a non-empty string");
  has(R"([{"label": "a", "fil": "a.csv"}])", "did you mean \"file\"?");
  const std::string text = R"("file": "a.csv", "text": "row,seed,metric,value\na,0,x,1\n")";
  has(concat("[{\"label\": \"a\", ", text, "}, {\"label\": \"a\", ", text, "}]"),
      "/external/1/label: \"a\" is given twice");
  has(concat(R"([{"label": "a", "file": "a.csv", "text": ")", std::string(300'000, 'x'), "\"}]"),
      "/external/0/file: the files are longer than 262144 bytes, their limit");
}
