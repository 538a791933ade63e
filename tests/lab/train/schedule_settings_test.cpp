// From a descriptor's words to steps and the peak rate.
#include <doctest/doctest.h>

#include "core/error.h"
#include "experiments/lab/train/trial.h"

using namespace normlab;

namespace {
constexpr std::int64_t kImageNet = 1281167;
}

TEST_CASE("count_steps: epochs of ImageNet have the steps that Big Vision counts") {
  TrainConfig train;
  train.batch_size = 1024;
  train.images = 90 * kImageNet;
  CHECK(count_steps(train, kImageNet).total == 112603);
  train.images = 150 * kImageNet;
  CHECK(count_steps(train, kImageNet).total == 187671);
  CHECK(count_steps(train, kImageNet).per_epoch == 1251);
}

TEST_CASE("count_steps: images to train on give the same steps for any slice") {
  TrainConfig train;
  train.batch_size = 1024;
  train.images = 150 * kImageNet;
  CHECK(count_steps(train, kImageNet * 99 / 100).total == 187671);
}

TEST_CASE("count_steps: a smaller last batch changes the epoch and not the total") {
  TrainConfig train;
  train.batch_size = 1024;
  train.images = 150 * kImageNet;
  train.drop_last = false;
  CHECK(count_steps(train, kImageNet).total == 187671);
  CHECK(count_steps(train, kImageNet).per_epoch == 1252);
}

TEST_CASE("count_steps: epochs and warm-up in epochs have whole steps") {
  TrainConfig train;
  train.batch_size = 100;
  train.epochs = 2.5;
  train.schedule.warmup_epochs = 0.5;
  CHECK(count_steps(train, 1050).total == 25);
  CHECK(count_steps(train, 1050).warmup == 5);
  train.drop_last = false;
  CHECK(count_steps(train, 1050).total == 28);  // 27.5, away from zero
}

TEST_CASE("count_steps: training and warm-up may be given in steps") {
  TrainConfig train;
  train.batch_size = 100;
  train.drop_last = false;
  train.steps = 7;
  train.schedule.warmup_steps = 3;
  CHECK(count_steps(train, 1050).total == 7);
  CHECK(count_steps(train, 1050).warmup == 3);
}

TEST_CASE("count_steps: images of less than half a batch are an error") {
  TrainConfig train;
  train.batch_size = 100;
  train.images = 49;
  CHECK_THROWS_WITH_AS(count_steps(train, 1000), "train.images: 49 images round to 0 steps of 100 images; raise it",
                       InputError);
}

TEST_CASE("count_steps: a cooldown longer than the training is an error") {
  TrainConfig train;
  train.batch_size = 100;
  train.images = 1000;
  train.schedule.cooldown_steps = 11;
  CHECK_THROWS_WITH_AS(count_steps(train, 1000),
                       "train.schedule.cooldown_steps: 11 is more than the 10 steps of the training", InputError);
  train.schedule.cooldown_steps = 10;
  CHECK(count_steps(train, 1000).total == 10);
}

TEST_CASE("optimizer: lr_batch scales the peak by the whole batch") {
  OptimizerSettings settings;
  settings.lr = 5e-4;
  CHECK(settings.peak_lr(1024) == 5e-4);
  settings.lr_batch = 512;
  CHECK(settings.peak_lr(1024) == 1e-3);
}
