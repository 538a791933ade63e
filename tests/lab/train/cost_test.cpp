#include "experiments/lab/train/cost.h"

#include <doctest/doctest.h>

#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

/// How many images the slices of a dataset have.
std::pair<std::optional<std::int64_t>, std::optional<std::int64_t>> images(const char* name, const char* slice,
                                                                           const char* eval = "test") {
  DatasetConfig dataset;
  dataset.name = name;
  dataset.train = slice;
  dataset.eval = eval;
  return {known_training_images(dataset), known_evaluation_images(dataset)};
}

/// A trial of 1000 steps on CIFAR-10.
TrialConfig cifar10_trial() {
  DescriptorFiles files;
  return files
      .load(R"({"dataset": "cifar10", "model": {"patch_size": 4, "embed_dim": 64, "depth": 4,
      "num_heads": 2}, "train": {"epochs": 2, "batch_size": 100, "eval_every_epochs": 1, "schedule": {"warmup_epochs": 1}}})")
      .trials.front()
      .config;
}

}  // namespace

TEST_CASE("cost: the images of slices of known datasets are counted") {
  CHECK(images("imagenet", "train[:99%]", "val") == std::pair{std::optional{1268355L}, std::optional{50000L}});
  CHECK(images("imagenet", "train", "train[99%:]").second == 1281167 - 1268355);
  CHECK(images("cifar10", "train[:800]").first == 800);
  CHECK(images("cifar100", "train[800:1000]").first == 200);
  CHECK(images("tiny-imagenet-200", "train").first == 100000);
  CHECK(images("shapes", "train[:50%]").first == 1000);
  CHECK(images("shapes", "train").second == 1000);
}

TEST_CASE("cost: the images of an unknown dataset are not known") {
  CHECK(images("mine", "train").first == std::nullopt);
}

TEST_CASE("cost: slices that a known dataset lacks are refused") {
  CHECK_THROWS_WITH_AS(images("cifar10", "train[:50001]"),
                       "dataset \"cifar10\", slice \"train[:50001]\": ends at 50001, but the split has 50000 images",
                       InputError);
  CHECK_THROWS_WITH_AS(images("cifar10", "train[10:10]"),
                       "dataset \"cifar10\", slice \"train[10:10]\": is empty: from 10 to 10 of 50000 images",
                       InputError);
}

TEST_CASE("cost: the images of a subset are counted") {
  DatasetConfig part;
  part.name = "cifar10";
  part.per_class = 40;
  CHECK(known_training_images(part) == 400);
  part.per_class = 0;
  part.fraction = 0.5;
  CHECK(known_training_images(part) == 25000);
}

TEST_CASE("cost: steps follow from images and epochs") {
  TrialConfig config = cifar10_trial();
  const TrialCost cost = trial_cost(config);
  REQUIRE(cost.steps);
  CHECK(cost.steps->total == 1000);
  CHECK(cost.steps->warmup == 500);
  CHECK(cost.images == 100000);
  config.train.images = 25050;
  CHECK(trial_cost(config).steps->total == 251);  // round(250.5)
}

TEST_CASE("cost: the steps on an unknown dataset are not known") {
  TrialConfig config = cifar10_trial();
  config.dataset.name = "mine";
  CHECK_FALSE(trial_cost(config).steps);
}

TEST_CASE("cost: training takes three passes and evaluation one") {
  const TrialCost cost = trial_cost(cifar10_trial());
  CHECK(cost.training_flops == 6.0 * double(cost.model.macs) * 100000);
  CHECK(cost.evaluation_flops == 2.0 * double(cost.model.macs) * 10000 * 2);
}

TEST_CASE("cost: a minival is evaluated too") {
  TrialConfig config = cifar10_trial();
  const TrialCost cost = trial_cost(config);
  config.dataset.train = "train[:90%]";
  config.dataset.minival = "train[90%:]";
  CHECK(trial_cost(config).evaluation_flops == 1.5 * cost.evaluation_flops);
}

TEST_CASE("cost: memory holds weights, also packed for products, two moments, gradients, a batch and a shard") {
  const TrialCost cost = trial_cost(cifar10_trial());
  const double parameters = double(cost.model.parameters);
  REQUIRE(cost.shards.lanes == 8);
  CHECK(cost.state_bytes(1) == 4 * parameters * (2 + 2 + 4));
  CHECK(cost.state_bytes(3) == 4 * parameters * (2 + 2 + 8));
  CHECK(cost.batch_bytes == 4.0 * 100 * 32 * 32 * 3);
  CHECK(cost.bytes(1) == cost.state_bytes(1) + cost.batch_bytes + cost.shard_bytes);
  CHECK(cost.bytes(2) - cost.bytes(1) == cost.shard_bytes);
}

TEST_CASE("cost: the parts of a batch need the gradients of all lanes") {
  TrialConfig config = cifar10_trial();
  config.train.accumulate = 2;
  const TrialCost cost = trial_cost(config);
  CHECK(cost.state_bytes(1) == 4 * double(cost.model.parameters) * double(2 + 2 + cost.shards.lanes));
}

TEST_CASE("cost: a batch of bf16 takes half the memory") {
  TrialConfig config = cifar10_trial();
  const TrialCost cost = trial_cost(config);
  config.train.precision = Precision::bf16;
  CHECK(trial_cost(config).batch_bytes == cost.batch_bytes / 2);
}

TEST_CASE("cost: the disk holds what is kept of the checkpoints") {
  const TrialCost cost = trial_cost(cifar10_trial());
  CHECK(cost.disk_kept(KeepCheckpoint::last) == 12.0 * double(cost.model.parameters));
  CHECK(cost.disk_kept(KeepCheckpoint::weights) == 4.0 * double(cost.model.parameters));
  CHECK(cost.disk_kept(KeepCheckpoint::none) == 0);
  CHECK(cost.disk_running() == 2 * cost.disk_kept(KeepCheckpoint::last));
}

TEST_CASE("cost: averaged weights are stored and evaluated too") {
  TrialConfig config = cifar10_trial();
  const TrialCost cost = trial_cost(config);
  config.train.ema.decay = 0.9;
  CHECK(trial_cost(config).state_bytes(1) == cost.state_bytes(1) + 4.0 * double(cost.model.parameters));
  CHECK(trial_cost(config).disk_kept(KeepCheckpoint::weights) == 8.0 * double(cost.model.parameters));
  CHECK(trial_cost(config).evaluation_flops == 2 * cost.evaluation_flops);
}
