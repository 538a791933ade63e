// Trials of task segment: batches, evaluation, resume.
#include <doctest/doctest.h>

#include <cmath>

#include "core/ignored_label.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/metrics/mean_iou.h"
#include "experiments/lab/train/tasks.h"
#include "experiments/lab/trials/correctness_file.h"
#include "experiments/lab/trials/metrics_log.h"
#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "nn/training/nonfinite.h"
#include "tests/lab/train/small_trial.h"

using namespace normlab;

namespace {

/// Scenes with all transforms, and with windows that overlap in evaluation.
TrialConfig settings() {
  TrialConfig c = SmallTrial::settings();
  c.dataset.masks = MaskLabels::classes;
  auto& model = std::get<ViTConfig>(c.model);
  model.task = Task::segment;
  model.num_classes = 6;
  model.image_size = {24, 24};
  model.patch_size = 8;
  c.train.augment.flip = true;
  c.train.augment.segment = {.scale = {0.5, 2.0}, .max_share = 0.75, .photometric = true};
  c.eval.segment = {.resize_to = 32, .stride = 8};
  c.train.early_stop = {.metric = "minival/miou", .patience = 3};
  return c;
}

}  // namespace

TEST_CASE("segment trial: a stopped and resumed training has the bits of an uninterrupted one") {
  const SmallTrial trial(settings());
  const TemporaryFolder out;
  REQUIRE(trial.run(out / "a") == TrialOutcome::done);
  const TrialFolder whole = trial.folder(out / "a");
  const TrialResult result = *whole.load_result();
  CHECK(result.metrics.size() == 8);  // three of each slice, and two training losses
  CHECK(result.metrics.at("eval/miou") > 0);
  CHECK(result.metrics.at("eval/pixel_accuracy") > result.metrics.at("eval/miou"));
  CHECK_FALSE(std::filesystem::exists(attempt_folder(whole.path(), result.attempt) / kCorrectnessFile));
  CHECK(trial.run(out / "b", SmallTrial::until(7)) == TrialOutcome::stopped);
  TrialOptions threads;
  threads.threads = 3;
  threads.data_threads = 2;
  CHECK(trial.run(out / "b", threads) == TrialOutcome::done);
  const TrialFolder resumed = trial.folder(out / "b");
  CHECK(resumed.load_result()->metrics == result.metrics);
  CHECK(read_file(resumed.metrics(2)) == read_file(whole.metrics(1)));
}

TEST_CASE("segment trial: the task, the masks and the windows are part of the id") {
  const TrialConfig config = settings();
  CHECK(config_from_json(canonical_json(config), "c") == config);
  const std::string text = canonical_json(config);
  for (const char* part : {R"("task":"segment")", R"("masks":"classes")", R"("segment":{"resize_to":32,"stride":8})",
                           R"("max_share":0.75)"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  CHECK(canonical_json(SmallTrial::settings()).find("segment") == std::string::npos);
  CHECK(full_json(SmallTrial::settings()).find("segment") == std::string::npos);
}

TEST_CASE("segment trial: batches do not depend on the number of threads") {
  const SmallTrial trial(settings());
  const auto bytes = [&](int threads) {
    ShardPool pool(threads);
    BatchSource source(trial.config, trial.data.train, trial.data.eval, DType::f32);
    const BatchSource::Batch batch = source.training(3, pool);
    CHECK(batch.wanted().shape() == Shape{10, 24, 24});
    return std::string(static_cast<const char*>(batch.images.raw()), batch.images.bytes()) +
           std::string(static_cast<const char*>(batch.labels.raw()), batch.labels.bytes());
  };
  CHECK(bytes(1) == bytes(4));
}

TEST_CASE("segment trial: metrics are those of the predictions that an evaluation shows") {
  TrialConfig config = settings();
  const SmallTrial trial(config);
  for (const int threads : {1, 3}) {
    ShardPool pool(threads);
    Engine engine(cpu_backend(), pool, config.model, engine_settings(config));
    initialise(engine.parameters(), config.model, 1);
    BatchSource batches(config, trial.data.train, trial.data.eval, engine.dtype());
    ConfusionMatrix confusion(6);
    std::int64_t next = 0;
    const auto see = [&](std::int64_t image, const Mask& predicted) {
      CHECK(image == next++);
      Mask labels;
      std::vector<std::uint8_t> bytes;
      trial.data.eval.masks->read(image, labels, bytes);
      REQUIRE(predicted.labels.size() == labels.labels.size());
      for (std::size_t p = 0; p < labels.labels.size(); ++p) confusion.add(labels.labels[p], predicted.labels[p]);
    };
    const std::string prefix = "eval/";
    const auto metrics = evaluate_segmentation({engine, batches, trial.data.eval, pool, prefix, nullptr}, see);
    CHECK(next == 30);
    CHECK(metrics.at("eval/miou") == confusion.mean_iou());
    CHECK(metrics.at("eval/pixel_accuracy") == confusion.pixel_accuracy());
    // A head near zero answers each of the six classes with about the same probability.
    CHECK(metrics.at("eval/loss") == doctest::Approx(std::log(6.0)).epsilon(0.05));
  }
}

TEST_CASE("segment trial: logits that are not finite are no result") {
  TrialConfig config = settings();
  const SmallTrial trial(config);
  ShardPool pool(1);
  Engine engine(cpu_backend(), pool, config.model, engine_settings(config));
  initialise(engine.parameters(), config.model, 1);
  engine.parameters().value(engine.parameters().find("head.bias")).data<float>()[4] = NAN;
  BatchSource batches(config, trial.data.train, trial.data.eval, engine.dtype());
  const std::string prefix = "eval/";
  CHECK_THROWS_WITH_AS(evaluate_segmentation({engine, batches, trial.data.eval, pool, prefix, nullptr}),
                       "eval/miou: image 0 (000000): the logit of class 4 is nan", NonFiniteError);
}

TEST_CASE("segment trial: masks without a class are an error") {
  const TrialConfig config = settings();
  SmallTrial trial(config);
  trial.data.eval.masks = std::make_shared<StoredMasks>(32, 32, std::vector<std::uint8_t>(30 * 1024, kIgnoredLabel));
  ShardPool pool(1);
  Engine engine(cpu_backend(), pool, config.model, engine_settings(config));
  BatchSource batches(config, trial.data.train, trial.data.eval, engine.dtype());
  const std::string prefix = "eval/";
  CHECK_THROWS_WITH_AS(evaluate_segmentation({engine, batches, trial.data.eval, pool, prefix, nullptr}),
                       "eval/miou: no pixel of the 30 masks has a class; all are ignored", InputError);
}
