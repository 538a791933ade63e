// Few-shot accuracies: as columns of a trial, and of any weights.
#include <doctest/doctest.h>

#include "tests/experiments/cli/small_sweep.h"

using namespace normlab;

namespace {

/// Two trials of a small sweep that measures 1 and 3 shots; the averages too.
struct Measured {
  TemporaryFolder folder;
  Finished run;
  Measured()
      : run(run_program(folder, "run " +
                                    small_sweep(folder,
                                                "--set seeds=1 --set 'eval.fewshot={\"shots\": [1, 3]}' "
                                                "--set train.ema.decay=0.9 --out ") +
                                    in_folder(folder, "r"))) {
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
  }
  std::string first_id() const { return ResultStore(folder / "r").trial_ids().front(); }
};

}  // namespace

TEST_CASE("fewshot: every number of shots is a metric of a trial") {
  const Measured measured;
  const auto result = ResultStore(measured.folder / "r").trial(measured.first_id()).load_result();
  for (const char* metric : {"eval/1shot_accuracy", "eval/3shot_accuracy", "eval/ema_3shot_accuracy"}) {
    CAPTURE(std::string(metric));
    REQUIRE(result->metrics.contains(metric));
    CHECK(result->metrics.at(metric) > 0);
    CHECK(result->metrics.at(metric) <= 1);
  }
}

TEST_CASE("fewshot: a table shows the metric") {
  const Measured measured;
  const Finished table =
      run_program(measured.folder, "table " +
                                       small_sweep(measured.folder,
                                                   "--set seeds=1 --set 'eval.fewshot={\"shots\": [1, 3]}' "
                                                   "--set train.ema.decay=0.9 --out ") +
                                       in_folder(measured.folder, "r") + " --metric eval/3shot_accuracy");
  CHECK(table.code == 0);
  CHECK(table.out.find("eval/3shot_accuracy [%]") != std::string::npos);
}

TEST_CASE("fewshot: an evaluation repeats the trial's numbers") {
  const Measured measured;
  const Finished eval =
      run_program(measured.folder, "eval " + measured.first_id() + " --out " + in_folder(measured.folder, "r"));
  CAPTURE(eval.err);
  CHECK(eval.code == 0);
  CHECK(eval.out.find("bit-identical") != std::string::npos);
}

TEST_CASE("fewshot: the command gives the trial's accuracy") {
  const Measured measured;
  const std::string id = measured.first_id();
  const auto result = ResultStore(measured.folder / "r").trial(id).load_result();
  const Finished found = run_program(
      measured.folder, "fewshot " + id + " --shots 1,3 --threads 2 --out " + in_folder(measured.folder, "r"));
  CAPTURE(found.err);
  CHECK(found.code == 0);
  char expected[32];
  std::snprintf(expected, sizeof expected, "3 shots  %.2f%%", 100 * result->metrics.at("eval/3shot_accuracy"));
  CAPTURE(found.out);
  CHECK(found.out.find(expected) != std::string::npos);
}

TEST_CASE("fewshot: the command judges weights on other data") {
  const Measured measured;
  const Finished found =
      run_program(measured.folder,
                  "fewshot " + measured.first_id() + " --out " + in_folder(measured.folder, "r") +
                      " --shots 2 --dataset '{\"name\": \"gratings\", \"train_images\": 50, \"eval_images\": 20}'");
  CAPTURE(found.err);
  CHECK(found.code == 0);
  CHECK(found.out.find("50 training images, 20 evaluated, 10 classes") != std::string::npos);
}

TEST_CASE("fewshot: a wrong dataset is an error that names the option") {
  const Measured measured;
  const Finished found = run_program(measured.folder, "fewshot " + measured.first_id() + " --out " +
                                                          in_folder(measured.folder, "r") + " --dataset shpes");
  CHECK(found.code == 2);
  CHECK(found.err.find("--dataset") != std::string::npos);
  CHECK(found.err.find("shapes") != std::string::npos);
}

TEST_CASE("fewshot: settings without effect are refused") {
  const TemporaryFolder folder;
  const Finished check = run_program(folder, "check " + small_sweep(folder, "--set eval.fewshot.l2=2"));
  CHECK(check.code == 2);
  CHECK(check.err.find("without shots there is no few-shot evaluation") != std::string::npos);
}
