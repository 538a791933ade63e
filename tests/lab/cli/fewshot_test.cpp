// Few-shot accuracies: as columns of a trial, and of any weights.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>

#include "experiments/lab/descriptor/metric_names.h"
#include "tests/lab/base/text.h"
#include "tests/lab/cli/small_sweep.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;

namespace {

/// Two trials of a small sweep that measures 1 and 3 shots; the averages too.
struct Measured {
  TemporaryFolder folder;
  Finished run;
  Measured()
      : run(run_program(folder,
                        "run " +
                            small_sweep(folder,
                                        "--set seeds=1 --set 'eval.fewshot={\"shots\": [1, 3], \"half_width\": true}' "
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
  // The command prints the accuracy with each of three seeds; t(2) at 97.5% is 4.3027.
  const std::string found = run_program(measured.folder, "eval --fewshot " + measured.first_id() + " --shots 3 --out " +
                                                             in_folder(measured.folder, "r"))
                                .out;
  const std::size_t at = found.find("(seeds 0, 1, 2: ");
  REQUIRE_MESSAGE(at != found.npos, found);
  double a = 0, b = 0, c = 0;
  REQUIRE(std::sscanf(found.c_str() + at, "(seeds 0, 1, 2: %lf, %lf, %lf", &a, &b, &c) == 3);
  const double mean = (a + b + c) / 3,
               sd = std::sqrt(((a - mean) * (a - mean) + (b - mean) * (b - mean) + (c - mean) * (c - mean)) / 2);
  CHECK(100 * result->metrics.at("eval/3shot_accuracy_half_width") ==
        doctest::Approx(4.3027 * sd / std::sqrt(3)).epsilon(0.02));
  CHECK(is_share("eval/3shot_accuracy_half_width"));
}

TEST_CASE("fewshot: a table shows the metric") {
  const Measured measured;
  const Finished table = run_program(
      measured.folder, "table " +
                           small_sweep(measured.folder,
                                       "--set seeds=1 --set 'eval.fewshot={\"shots\": [1, 3], \"half_width\": true}' "
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
      measured.folder, "eval --fewshot " + id + " --shots 1,3 --threads 2 --out " + in_folder(measured.folder, "r"));
  CAPTURE(found.err);
  CHECK(found.code == 0);
  char expected[32];
  std::snprintf(expected, sizeof expected, "3 shots  %.2f%%", 100 * result->metrics.at("eval/3shot_accuracy"));
  CAPTURE(found.out);
  CHECK(found.out.find(expected) != std::string::npos);
}

TEST_CASE("fewshot: the command judges weights on other data") {
  const Measured measured;
  const Finished found = run_program(
      measured.folder, "eval --fewshot " + measured.first_id() + " --out " + in_folder(measured.folder, "r") +
                           " --shots 2 --data '{\"name\": \"gratings\", \"train_images\": 50, \"eval_images\": 20}'");
  CAPTURE(found.err);
  CHECK(found.code == 0);
  CHECK(found.out.find("50 training images, 20 evaluated, 10 classes") != std::string::npos);
}

TEST_CASE("fewshot: images may be fewer than a batch of the training, and of another size") {
  const TemporaryFolder folder;
  const std::string one_row = small_sweep(folder, "--set seeds=1 --set 'sweep={\"model.placement\": [\"pre_pre\"]}'");
  REQUIRE(run_program(folder, "run " + one_row + " --out " + in_folder(folder, "r")).code == 0);
  const std::string weights = ResultStore(folder / "r").trial(ResultStore(folder / "r").trial_ids().front()).path() /
                              "attempt-1" / "checkpoint.safetensors";
  const std::string few = " --shots 1 --data '{\"name\": \"gratings\", \"train_images\": 10, \"eval_images\": 20}'";
  const Finished found = run_program(folder, "eval --fewshot --weights " + weights + few);
  CHECK_MESSAGE(found.code == 0, found.err);
  CHECK_MESSAGE(has(found.out, "10 training images, 20 evaluated, 10 classes"), found.out);

  const std::string larger = in_folder(folder, "larger.safetensors");
  const Finished converted = run_program(folder, "convert " + weights + " " + larger +
                                                     " --allow-left-over --resize-positions bilinear --model "
                                                     "'{\"image_size\": 64, \"num_classes\": 10, \"patch_size\": 8, "
                                                     "\"embed_dim\": 16, \"depth\": 2, \"num_heads\": 2}'");
  REQUIRE_MESSAGE(converted.code == 0, converted.err);
  const Finished stretched = run_program(folder, "eval --fewshot --weights " + larger + few + " --crop stretch");
  CHECK_MESSAGE(stretched.code == 0, stretched.err);
  CHECK_MESSAGE(has(stretched.out, "10 training images, 20 evaluated, 10 classes"), stretched.out);
}

TEST_CASE("fewshot: masks give no class to an image") {
  const Measured measured;
  const Finished found = run_program(
      measured.folder, "eval --fewshot " + measured.first_id() + " --out " + in_folder(measured.folder, "r") +
                           " --shots 1 --data '{\"name\": \"shapes\", \"masks\": \"classes\"}'");
  CHECK(found.code == 2);
  CHECK(found.out.empty());
  CHECK_MESSAGE(found.err.find("--data: masks give a class to each pixel") != std::string::npos, found.err);
}

TEST_CASE("fewshot: a wrong dataset is an error that names the option") {
  const Measured measured;
  const Finished found = run_program(measured.folder, "eval --fewshot " + measured.first_id() + " --out " +
                                                          in_folder(measured.folder, "r") + " --data shpes");
  CHECK(found.code == 2);
  CHECK(found.err.find("--data:") != std::string::npos);
  CHECK(found.err.find("shapes") != std::string::npos);
}

TEST_CASE("fewshot: a number of shots that a class does not have is refused") {
  const Measured measured;
  const std::string out = " --out " + in_folder(measured.folder, "r");
  const Finished found =
      run_program(measured.folder, "eval --fewshot " + measured.first_id() + out + " --shots 5,1000");
  CHECK(found.code == 2);
  CHECK(found.out.empty());
  CAPTURE(found.err);
  CHECK(found.err.find("--shots: 1000 images per class are more than the 20 training images of class \"") !=
        std::string::npos);
  CHECK(found.err.find("give at most 20, or use more training images") != std::string::npos);

  // Without --shots too: these images are fewer than the largest default.
  const Finished few = run_program(measured.folder, "eval --fewshot " + measured.first_id() + out);
  CHECK(few.code == 2);
  CHECK(few.err.find("--shots: 25 images per class") != std::string::npos);
}

TEST_CASE("fewshot: the command's numbers have the bounds of a descriptor's") {
  const Measured measured;
  const std::string command = "eval --fewshot " + measured.first_id() + " --out " + in_folder(measured.folder, "r");
  for (const auto& [words, part] : {std::pair{" --shots 0", "--shots"},
                                    {" --shots 1,-2", "--shots"},
                                    {" --seeds -1", "--seeds"},
                                    {" --shots 1,3,1", "--shots: 1 is given twice"},
                                    {" --shots 1 --seeds 4,4", "--seeds: 4 is given twice"}}) {
    const std::string said = words;
    CAPTURE(said);
    const Finished found = run_program(measured.folder, command + words);
    CHECK(found.code == 2);
    CHECK(found.out.empty());
    CHECK_MESSAGE(found.err.find(part) != std::string::npos, found.err);
  }
}

TEST_CASE("fewshot: a descriptor's shots must be in the data") {
  const TemporaryFolder folder;
  // The number of images tells it before any are read ...
  const Finished check = run_program(folder, "check " + small_sweep(folder, "--set 'eval.fewshot.shots=[1, 1000]'"));
  CHECK(check.code == 2);
  CHECK_MESSAGE(check.err.find("/eval/fewshot/shots/1: 200 training images of 10 classes cannot have 1000 of each; "
                               "give at most 20") != std::string::npos,
                check.err);
  CHECK(run_program(folder, "check " + small_sweep(folder, "--set 'eval.fewshot.shots=[20]'")).code == 0);
  // ... or the images do, before any training.
  for (const auto& [name, images] : {std::pair("ant", 9), {"bee", 4}})
    for (int i = 0; i < images; ++i)
      for (const char* split : {"train", "val"})
        test::write_file(folder / "data/photos" / split / name / concat(i, ".png"),
                         test::make_png(16, 16, unsigned(i)));
  std::ofstream(folder / "photos.json") << R"({"about": "a test",
    "dataset": {"name": "photos", "layout": "image_folder", "eval": "val", "mean": [0.4, 0.4, 0.4],
                "std": [0.2, 0.2, 0.2]},
    "model": {"image_size": 16, "patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2},
    "train": {"steps": 2, "batch_size": 6}, "eval": {"fewshot": {"shots": [2, 5]}}})";
  const std::string command = "run " + in_folder(folder, "photos.json") + " --data " + in_folder(folder, "data") +
                              " --out " + in_folder(folder, "r");
  const Finished run = run_program(folder, command);
  CHECK(run.code == 2);
  CHECK_MESSAGE(run.err.find("eval.fewshot.shots: 5 images per class are more than the 4 training images of class "
                             "\"bee\"; give at most 4, or use more training images") != std::string::npos,
                run.err);
  for (const std::string& id : ResultStore(folder / "r").trial_ids())
    CHECK_FALSE(std::filesystem::exists(ResultStore(folder / "r").trial(id).path() / "attempt-1"));
  const Finished fewer = run_program(folder, command + " --set 'eval.fewshot.shots=[2, 4]'");
  CHECK_MESSAGE(fewer.code == 0, fewer.err);
}

TEST_CASE("fewshot: settings without effect are refused") {
  const TemporaryFolder folder;
  const Finished check = run_program(folder, "check " + small_sweep(folder, "--set eval.fewshot.l2=2"));
  CHECK(check.code == 2);
  CHECK(check.err.find("without shots there is no few-shot evaluation") != std::string::npos);
}
