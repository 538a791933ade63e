#include "experiments/lab/trials/metrics_log.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "core/error.h"
#include "tests/lab/base/temporary_folder.h"

using namespace normlab;

TEST_CASE("metrics: a log is read as it was written") {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  {
    MetricsLog log(path);
    log.append({.step = 1, .progress = 0.5, .values = {{"train/loss", 2.25}}});
    CHECK(log.bytes() == std::string("{\"step\":1,\"progress\":0.5,\"train/loss\":2.25}\n").size());
    log.append(
        {.step = 2,
         .progress = 1,
         .values = {{"a", std::numeric_limits<double>::quiet_NaN()}, {"b", -std::numeric_limits<double>::infinity()}}});
    log.sync();
    CHECK(log.bytes() == std::filesystem::file_size(path));
  }
  // JSON has no word for numbers that are not finite.
  CHECK(read_file(path) ==
        "{\"step\":1,\"progress\":0.5,\"train/loss\":2.25}\n"
        "{\"step\":2,\"progress\":1.0,\"a\":null,\"b\":null,\"nonfinite\":{\"a\":\"nan\",\"b\":\"-inf\"}}\n");
  const auto lines = read_metrics(path);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == MetricsLine{.step = 1, .progress = 0.5, .values = {{"train/loss", 2.25}}});
  CHECK(std::isnan(lines[1].values.at("a")));
  CHECK(lines[1].values.at("b") == -std::numeric_limits<double>::infinity());
  CHECK(last_metrics_line(path)->step == 2);
}

TEST_CASE("metrics: a log without lines has no last one") {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  CHECK(!last_metrics_line(path));
  const MetricsLog log(path);
  CHECK(!last_metrics_line(path));
}

TEST_CASE("metrics: the last whole line is found whatever its length") {
  const TemporaryFolder folder;
  for (const std::size_t size : {10, 4000, 4096, 5000, 70'000, 1'100'000})
    for (const bool alone : {true, false}) {
      CAPTURE(size);
      const auto path = folder / ("metrics-" + std::to_string(size) + (alone ? "a" : "b"));
      MetricsLog log(path);
      if (!alone) log.append({.step = 1, .progress = 0.5, .values = {{std::string(size, 'x'), 1.0}}});
      log.append({.step = 2, .progress = 1, .values = {{std::string(size, 'y'), 2.0}}});
      CHECK(last_metrics_line(path)->values.at(std::string(size, 'y')) == 2.0);
      std::ofstream(path, std::ios::app) << "{\"step\":3,";
      CHECK(last_metrics_line(path)->step == 2);
    }
}

TEST_CASE("metrics: a value that no training measures is refused with its place") {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  const auto refusal = [&](const std::string& line) {
    std::ofstream(path) << "{\"step\":5,\"progress\":0.5}\n" << line << "\n";
    try {
      read_metrics(path);
      return std::string();
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  CHECK(refusal("{\"step\":5,\"progress\":0.5,\"eval/accuracy\":1,\"eval/loss\":0}") == "");
  const std::string where = path.string() + ":2: line from byte 26: ";
  CHECK(refusal("{\"step\":4,\"progress\":0.5}") == where + "step 4 comes after step 5");
  CHECK(refusal("{\"step\":6,\"progress\":1.5}") == where + "\"progress\": 1.5 is outside 0 to 1");
  CHECK(refusal("{\"step\":6,\"progress\":1,\"eval/accuracy\":1.25}") ==
        where + "\"eval/accuracy\": 1.25 is not an accuracy, which is between 0 and 1");
  CHECK(refusal("{\"step\":6,\"progress\":1,\"train/loss\":-0.5}") == where + "\"train/loss\": -0.5 is not a loss");
}

TEST_CASE("metrics: a negative step in the last line is refused") {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  std::ofstream(path) << "{\"step\":-1,\"progress\":0.5}\n";
  CHECK_THROWS_WITH_AS(last_metrics_line(path), doctest::Contains("\"step\": -1 is not a number of steps"), InputError);
}

TEST_CASE("metrics: an accuracy beside a loss that is not finite reads as NaN") {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";  // as older versions wrote it
  std::ofstream(path)
      << R"({"step":1,"progress":0.5,"eval/accuracy":0.5,"eval/loss":1.5,"minival/accuracy":0.4,"train/loss":2.0})"
         "\n"
      << R"({"step":2,"progress":1.0,"eval/accuracy":0.1,"eval/loss":null,"minival/accuracy":0.4,"minival/loss":1.0,)"
         R"("nonfinite":{"eval/loss":"nan"}})"
         "\n";
  const auto lines = read_metrics(path);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].values.at("eval/accuracy") == 0.5);
  CHECK(lines[0].values.at("minival/accuracy") == 0.4);
  CHECK(std::isnan(lines[1].values.at("eval/accuracy")));
  CHECK(lines[1].values.at("minival/accuracy") == 0.4);
  CHECK(std::isnan(last_metrics_line(path)->values.at("eval/accuracy")));
}

TEST_CASE("metrics: a number that no double holds is refused with the line") {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  std::ofstream(path) << "{\"step\":1,\"progress\":0.5,\"eval/accuracy\":1e999}\n";
  CHECK_THROWS_WITH_AS(read_metrics(path), doctest::Contains(":1: line from byte 0: not valid JSON: number overflow"),
                       InputError);
}

TEST_CASE("metrics: a torn last line is dropped") {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  std::ofstream(path) << "{\"step\":1,\"progress\":0.5}\n{\"step\":2,\"prog";
  const MetricsLine whole{.step = 1, .progress = 0.5, .values = {}};
  CHECK(read_metrics(path) == std::vector<MetricsLine>{whole});
  CHECK(last_metrics_line(path) == whole);
}

TEST_CASE("metrics: a damaged line between others is refused") {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  std::ofstream(path) << "{\"step\":1,\"progress\":0.5}\n{\"step\":2,\"prog\n{\"step\":3,\"progress\":0.5}\n";
  CHECK(last_metrics_line(path)->step == 3);
  try {
    read_metrics(path);
    FAIL("the damaged line was taken");
  } catch (const InputError& error) {
    const std::string what = error.what();
    CHECK_MESSAGE(what.find(path.string() + ":2: line from byte 26: byte 15: not valid JSON") == 0, what);
  }
}
