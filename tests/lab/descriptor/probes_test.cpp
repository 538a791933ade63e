#include "experiments/lab/descriptor/probes.h"

#include <doctest/doctest.h>

#include "experiments/lab/descriptor/schema.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

TEST_CASE("probes: steps are not part of a trial") {
  DescriptorFiles files;
  const Experiment plain = files.load(R"({"train": {"steps": 20}})");
  CHECK(plain.probes.empty());
  const Experiment e = files.load(R"({"train": {"steps": 20}, "probes": {"signal": [19, 0], "gradients": 5}})");
  CHECK(e.trials.front().id == plain.trials.front().id);
  CHECK(!e.probes.empty());
}

TEST_CASE("probes: a list is of steps, a number is every n-th step") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"train": {"steps": 20}, "probes": {"signal": [19, 0], "gradients": 5}})");
  for (std::int64_t step = 0; step < 20; ++step) {
    CHECK(e.probes.at(ProbeKind::signal, step) == (step == 0 || step == 19));
    CHECK(e.probes.at(ProbeKind::gradients, step) == (step % 5 == 0));
  }
  const Experiment listed = files.load(R"({"probes": {"gradients": [3]}})");
  CHECK(listed.probes.at(ProbeKind::gradients, 3));
  CHECK(!listed.probes.at(ProbeKind::gradients, 0));
  CHECK(!listed.probes.at(ProbeKind::signal, 3));
}

TEST_CASE("probes: an object has a list, an interval and how many of its steps are kept") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"probes": {"signal": {"at": [7], "every": 5, "last": 2}, "updates": 4}})");
  const ProbeSteps& signal = e.probes.of(ProbeKind::signal);
  CHECK(signal.at(7));
  CHECK(signal.at(10));
  CHECK(!signal.at(8));
  CHECK(!signal.waits(7));
  CHECK(signal.waits(10));
  CHECK(signal.kept(21) == std::vector<std::int64_t>{7, 15, 20});
  CHECK(signal.kept(20) == std::vector<std::int64_t>{7, 10, 15});
  CHECK(signal.kept(5) == std::vector<std::int64_t>{0});
  CHECK(e.probes.of(ProbeKind::updates).kept(9) == std::vector<std::int64_t>{0, 4, 8});
  CHECK(e.probes.of(ProbeKind::attention).empty());
  CHECK(files.load(R"({"probes": {"without_block": true}})").probes.without_block);
}

TEST_CASE("probes: the time they add is that of the measured steps") {
  DescriptorFiles files;
  const ProbeConfig probes =
      files.load(R"({"probes": {"signal": {"at": [3], "every": 10, "last": 1}, "gradients": 1}})").probes;
  CHECK(added_time(probes, 20) == doctest::Approx((row_of(ProbeKind::signal).cost - 1) * 3 / 20));
  CHECK(added_time({}, 20) == 0);
}

TEST_CASE("probes: an empty list asks for none") {
  DescriptorFiles files;
  CHECK(files.load(R"({"probes": {"signal": []}})").probes.empty());
}

TEST_CASE("probes: a wrong value is told with its place") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"probes": {"signal": [0, -1, 5, 5, 1.5, "x"], "gradient": 3, "gradients": 0}})") ==
        "d.json:1:27: /probes/signal/1: must be at least 0, got -1\n"
        "d.json:1:34: /probes/signal/3: step 5 is given twice\n"
        "d.json:1:37: /probes/signal/4: expected an integer, got 1.5\n"
        "d.json:1:42: /probes/signal/5: expected an integer, got \"x\"\n"
        "d.json:1:48: /probes/gradient: unknown key; did you mean \"gradients\"?\n"
        "d.json:1:76: /probes/gradients: must be at least 1, got 0");
  CHECK(files.problems(R"({"probes": 3})") ==
        "d.json:1:12: /probes: expected an object such as {\"signal\": [0, 1000]}, got 3");
  CHECK(files.problems(R"({"probes": {"gradients": true}})") ==
        "d.json:1:26: /probes/gradients: expected a list of steps, a number n for every n-th step, or an object with "
        "\"at\", \"every\" and \"last\", got true");
  CHECK(files.problems(R"({"probes": {"signal": {"at": 3, "last": 2, "steps": 1}, "without_block": 1}})") ==
        "d.json:1:23: /probes/signal: \"last\" keeps the last of the steps of \"every\", which is missing\n"
        "d.json:1:30: /probes/signal/at: expected a list of steps, got 3\n"
        "d.json:1:44: /probes/signal/steps: unknown key; one of: at, every, last\n"
        "d.json:1:74: /probes/without_block: expected true or false, got 1");
}

TEST_CASE("probes: a step after the end of the training is refused") {
  DescriptorFiles files;
  const std::string beyond =
      files.problems(R"({"train": {"steps": 10}, "probes": {"signal": [0, 10], "gradients": [9, 11]}})");
  CHECK_MESSAGE(
      beyond.starts_with("d.json:1:51: /probes/signal/1: step 10 is after the end of the training of d, seed 0, whose "
                         "steps are 0 to 9\n"
                         "d.json:1:73: /probes/gradients/1: step 11 is after the end of"),
      beyond);
  CHECK(beyond.find("normlab eval --probe --weights") != std::string::npos);
  CHECK(files.problems(R"({"train": {"steps": 10}, "probes": {"signal": [0, 9]}})").empty());
}

TEST_CASE("probes: the shortest training of a sweep decides which steps there are") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"sweep": {"train.steps": [10, 5]}, "probes": {"signal": [7]}})")
            .starts_with("d.json:1:59: /probes/signal/0: step 7 is after the end of the training of 5, seed 0"));
}

TEST_CASE("probes: the schema and the table of keys have the probes") {
  const std::string schema = json_schema();
  CHECK(schema.find("\"uniqueItems\": true") != std::string::npos);
  CHECK(describe_fields().find("| `probes` | object |") != std::string::npos);
}
