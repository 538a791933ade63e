// Trials of task segment: batches, evaluation, resume.
#include <doctest/doctest.h>

#include <cmath>

#include "core/ignored_label.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/data/augment.h"
#include "experiments/lab/data/eval_transform.h"
#include "experiments/lab/metrics/mean_iou.h"
#include "experiments/lab/train/tasks.h"
#include "experiments/lab/trials/correctness_file.h"
#include "experiments/lab/trials/metrics_log.h"
#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "nn/training/nonfinite.h"
#include "tests/lab/train/small_trial.h"
#include "tests/nn/model/random_head.h"

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

namespace {

/// [in, in, classes] to [out, out, classes], bilinear with half-pixel centres and repeated borders.
std::vector<double> enlarged(const std::vector<double>& values, std::int64_t in, std::int64_t out) {
  const std::int64_t classes = std::ssize(values) / (in * in);
  std::vector<double> result;
  const auto place = [&](std::int64_t at) {
    return std::clamp((double(at) + 0.5) * double(in) / double(out) - 0.5, 0.0, double(in - 1));
  };
  for (std::int64_t y = 0; y < out; ++y)
    for (std::int64_t x = 0; x < out; ++x)
      for (std::int64_t c = 0; c < classes; ++c) {
        const double v = place(y), u = place(x);
        const auto top = std::int64_t(v), left = std::int64_t(u);
        const auto at = [&](std::int64_t row, std::int64_t column) {
          return values[std::size_t((std::min(row, in - 1) * in + std::min(column, in - 1)) * classes + c)];
        };
        const double dy = v - double(top), dx = u - double(left);
        result.push_back((1 - dy) * ((1 - dx) * at(top, left) + dx * at(top, left + 1)) +
                         dy * ((1 - dx) * at(top + 1, left) + dx * at(top + 1, left + 1)));
      }
  return result;
}

constexpr std::int64_t kWindow = 24, kStored = 32, kClasses = 6;

/// The probabilities [32, 32, classes] of one scaled image, by the mean logits of its windows.
std::vector<double> probabilities(Engine& engine, const std::vector<float>& pixels, std::int64_t side, bool mirrored) {
  std::vector<double> sums(std::size_t(side * side * kClasses)), counts(std::size_t(side * side));
  const std::vector<std::int64_t> starts =
      side > kWindow ? std::vector<std::int64_t>{0, side - kWindow} : std::vector<std::int64_t>{0};
  for (const std::int64_t top : starts)
    for (const std::int64_t left : starts) {
      std::vector<float> window;
      for (std::int64_t y = 0; y < kWindow; ++y)
        window.insert(window.end(), pixels.begin() + ((top + y) * side + left) * 3,
                      pixels.begin() + ((top + y) * side + left + kWindow) * 3);
      std::vector<double> grid;
      engine.outputs(Tensor(window.data(), {1, kWindow, kWindow, 3}, DType::f32), grid);
      const std::vector<double> z = enlarged(grid, 3, kWindow);
      for (std::int64_t p = 0; p < kWindow * kWindow; ++p) {
        const auto at = std::size_t((top + p / kWindow) * side + left + p % kWindow);
        counts[at] += 1;
        for (std::int64_t c = 0; c < kClasses; ++c)
          sums[at * kClasses + std::size_t(c)] += z[std::size_t(p * kClasses + c)];
      }
    }
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] /= counts[i / kClasses];
  const std::vector<double> z = enlarged(sums, side, kStored);
  std::vector<double> out(z.size());
  for (std::int64_t p = 0; p < kStored * kStored; ++p) {
    const std::int64_t x = p % kStored, to = mirrored ? p - x + kStored - 1 - x : p;
    double total = 0;
    for (std::int64_t c = 0; c < kClasses; ++c) total += std::exp(z[std::size_t(p * kClasses + c)]);
    for (std::int64_t c = 0; c < kClasses; ++c)
      out[std::size_t(to * kClasses + c)] = std::exp(z[std::size_t(p * kClasses + c)]) / total;
  }
  return out;
}

}  // namespace

TEST_CASE("segment trial: scales and mirrored images count by the mean of their probabilities") {
  TrialConfig config = settings();
  config.eval.segment = {.scales = {0.5, 1, 1.5}, .mirror = true};
  CHECK(config_from_json(canonical_json(config), "c") == config);
  const SmallTrial trial(config);
  ShardPool pool(2);
  Engine engine(cpu_backend(), pool, config.model, engine_settings(config));
  initialise(engine.parameters(), config.model, 1);
  random_head(engine);
  BatchSource batches(config, trial.data.train, trial.data.eval, engine.dtype());
  const ImageSet& images = trial.data.eval;
  double loss = 0;
  std::int64_t labelled = 0;
  const auto see = [&](std::int64_t index, const Mask& predicted) {
    ImageScratch scratch;
    const Image whole = whole_image(images, index, scratch);
    REQUIRE(whole.width == kStored);
    std::vector<double> mean(std::size_t(kStored * kStored * kClasses));
    for (const std::int64_t side : {kWindow, kWindow, kWindow * 3 / 2})  // half a window is enlarged to one
      for (const bool mirrored : {false, true}) {
        Image resized;
        resize(whole, Box{0, 0, kStored, kStored}, ResizeMethod::bilinear_plain, side, side, resized, scratch.resize);
        if (mirrored) flip_columns(resized);
        std::vector<float> pixels(std::size_t(side * side * 3));
        normalise_image(resized, 3, batches.tables().in<float>(), pixels.data());
        const std::vector<double> view = probabilities(engine, pixels, side, mirrored);
        for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += view[i] / 6;
      }
    Mask labels;
    std::vector<std::uint8_t> bytes;
    images.masks->read(index, labels, bytes);
    for (std::size_t p = 0; p < labels.labels.size(); ++p) {
      const double* m = mean.data() + p * kClasses;
      CHECK(m[predicted.labels[p]] >= *std::max_element(m, m + kClasses) - 1e-6);
      if (labels.labels[p] == kIgnoredLabel) continue;
      ++labelled;
      loss -= std::log(m[labels.labels[p]]);
    }
  };
  const std::string prefix = "eval/";
  const auto metrics = evaluate_segmentation({engine, batches, images, pool, prefix, nullptr}, see);
  CHECK(metrics.at("eval/loss") == doctest::Approx(loss / double(labelled)).epsilon(1e-6));
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
