// Labels and soft targets of a training step.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "tests/devices.h"
#include "tests/nn/training/small_training.h"

using namespace normlab;

namespace {

enum class TargetForm { labels, soft, soft_of_smoothed_labels };
/// Losses of three steps in f64; soft targets contain the smoothing.
std::vector<double> losses_of(LossKind kind, double smoothing, bool others, TargetForm form, int threads) {
  const ModelConfig c = small_vit("pre_pre");
  EngineSettings settings;
  settings.precision = Precision::fp64;
  settings.loss = kind;
  settings.label_smoothing = form == TargetForm::soft_of_smoothed_labels ? 0.5 : smoothing;  // must have no effect
  settings.smoothing = others ? Smoothing::others : Smoothing::all;
  settings.max_batch = 13;
  settings.images_per_shard = 3;
  SmallTraining training(c, settings, threads);
  auto& [pool, engine, data] = training;
  random_head(engine);
  const std::int64_t classes = num_classes(c);
  std::vector<double> rows(static_cast<std::size_t>(13 * classes));
  const double off = smoothing / double(others ? classes - 1 : classes);
  for (std::int64_t i = 0; i < 13; ++i)
    for (std::int64_t k = 0; k < classes; ++k)
      rows[static_cast<std::size_t>(i * classes + k)] = k != data.labels.data<std::int32_t>()[i] ? off
                                                        : others                                 ? 1 - smoothing
                                                                                                 : 1 - smoothing + off;
  const Tensor soft(rows.data(), {13, classes}, DType::f64);
  engine.state().lr = 1e-3;
  std::vector<double> losses;
  for (int step = 0; step < 3; ++step)
    losses.push_back(engine.train_step(data.images, form == TargetForm::labels ? data.labels : soft));
  return losses;
}

}  // namespace

TEST_CASE("engine: soft targets of one class train to the bits of labels") {
  for (const LossKind kind : {LossKind::softmax, LossKind::sigmoid}) {
    CHECK(losses_of(kind, 0.0, false, TargetForm::soft, 1) == losses_of(kind, 0.0, false, TargetForm::labels, 1));
    CHECK(losses_of(kind, 0.0, false, TargetForm::soft, 3) == losses_of(kind, 0.0, false, TargetForm::labels, 2));
  }
}

TEST_CASE("engine: soft targets with smoothing in them train as smoothed labels do") {
  for (const LossKind kind : {LossKind::softmax, LossKind::sigmoid})
    for (const bool others : {false, true}) {
      const auto labels = losses_of(kind, 0.1, others, TargetForm::labels, 1),
                 soft = losses_of(kind, 0.1, others, TargetForm::soft_of_smoothed_labels, 1);
      for (std::size_t s = 0; s < labels.size(); ++s) CHECK(soft[s] == doctest::Approx(labels[s]).epsilon(1e-12));
    }
}

TEST_CASE("engine: smoothing over the other classes is not smoothing over all") {
  for (const LossKind kind : {LossKind::softmax, LossKind::sigmoid})
    CHECK(losses_of(kind, 0.1, true, TargetForm::labels, 1) != losses_of(kind, 0.1, false, TargetForm::labels, 1));
}

TEST_CASE("engine: an evaluation has the plain loss of its logits, whatever the training smooths") {
  const ViTConfig c = small_vit("pre_pre");
  on_each_device([&] {
    for (const LossKind kind : {LossKind::softmax, LossKind::sigmoid})
      for (const Smoothing smoothing : {Smoothing::all, Smoothing::others}) {
        EngineSettings settings;
        settings.precision = Precision::fp64;
        settings.loss = kind;
        settings.label_smoothing = 0.1;
        settings.smoothing = smoothing;
        settings.max_batch = 13;
        SmallTraining training(c, settings, 2);
        auto& [pool, engine, data] = training;
        random_head(engine);
        std::vector<double> losses(13), logits(13 * 7);
        std::vector<std::int32_t> predicted(13);
        REQUIRE(!engine.evaluate(data.images, data.labels, losses, predicted, logits));
        for (std::size_t i = 0; i < 13; ++i) {
          const double* z = &logits[7 * i];
          const auto label = std::size_t(data.labels.data<std::int32_t>()[i]);
          double sum = 0, plain = -z[label];
          for (std::size_t k = 0; k < 7; ++k) sum += std::exp(z[k]);
          if (kind == LossKind::softmax)
            plain += std::log(sum);
          else
            for (std::size_t k = 0; k < 7; ++k) plain += std::log1p(std::exp(z[k]));
          CHECK(losses[i] == doctest::Approx(plain).epsilon(1e-12));
        }
      }
  });
}

TEST_CASE("engine: a label that is no class of the network is refused before the step") {
  const ViTConfig c = small_vit("pre_pre");
  on_each_device([&] {
    ShardPool pool(2);
    EngineSettings settings;
    settings.max_batch = 5;
    for (const LossKind loss : {LossKind::softmax, LossKind::sigmoid}) {
      settings.loss = loss;
      Engine engine(current_device().backend, pool, c, settings);
      initialise(engine.parameters(), c, 3);
      for (const std::int32_t bad : {7, -1, 1000}) {
        const Batch batch(c, 5);
        batch.labels.data<std::int32_t>()[3] = bad;
        const std::string what = concat("image 3 of the batch has label ", bad, ", but the network has 7 classes");
        std::vector<double> losses(5);
        std::vector<std::int32_t> predicted(5);
        CHECK_THROWS_WITH_AS(engine.train_step(batch.images, batch.labels), what.c_str(), InputError);
        CHECK_THROWS_WITH_AS(engine.upload(batch.images, batch.labels), what.c_str(), InputError);
        CHECK_THROWS_WITH_AS(engine.forward_backward(batch.images, batch.labels), what.c_str(), InputError);
        CHECK_THROWS_WITH_AS(static_cast<void>(engine.evaluate(batch.images, batch.labels, losses, predicted)),
                             what.c_str(), InputError);
        CHECK(engine.state().step == 0);
      }
    }
  });
}

TEST_CASE("engine: soft targets without one value for each class are refused") {
  const ViTConfig c = small_vit("pre_pre");
  on_each_device([&] {
    ShardPool pool(1);
    EngineSettings settings;
    settings.max_batch = 4;
    Engine engine(current_device().backend, pool, c, settings);
    initialise(engine.parameters(), c, 3);
    const Batch batch(c, 4);
    Arena memory;
    for (const std::int64_t classes : {6, 8}) {
      const Tensor targets = memory.empty({4, classes}, DType::f32);
      std::fill_n(targets.data<float>(), targets.size(), 0.1f);
      const std::string what = concat("targets is ", targets.shape().str(), ", expected [4, 7]");
      CHECK_THROWS_WITH_AS(engine.train_step(batch.images, targets), what.c_str(), InputError);
      CHECK(engine.state().step == 0);
    }
  });
}

TEST_CASE("engine: labels without one value for each image are refused") {
  const ViTConfig c = small_vit("pre_pre");
  on_each_device([&] {
    EngineSettings settings;
    settings.max_batch = 4;
    SmallTraining training(c, settings, 1);
    auto& [pool, engine, batch] = training;
    CHECK_THROWS_WITH_AS(engine.train_step(batch.images, batch.labels.slice(0, 3)), "labels is [3], expected [4]",
                         InputError);
    CHECK(engine.state().step == 0);
  });
}
