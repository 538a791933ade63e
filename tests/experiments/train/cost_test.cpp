#include "experiments/train/cost.h"

#include <doctest/doctest.h>

#include "tests/experiments/descriptor/descriptor_files.h"

using namespace normlab;

TEST_CASE("cost: images of known datasets, their slices and parts") {
  const auto images = [](const char* name, const char* slice, const char* eval = "test") {
    DatasetConfig dataset;
    dataset.name = name;
    dataset.train = slice;
    dataset.eval = eval;
    return std::pair{known_training_images(dataset), known_evaluation_images(dataset)};
  };
  CHECK(images("imagenet", "train[:99%]", "val") == std::pair{std::optional{1268355L}, std::optional{50000L}});
  CHECK(images("imagenet", "train", "train[99%:]").second == 1281167 - 1268355);
  CHECK(images("cifar10", "train[:800]").first == 800);
  CHECK(images("cifar100", "train[800:1000]").first == 200);
  CHECK(images("tiny-imagenet-200", "train").first == 100000);
  CHECK(images("shapes", "train[:50%]").first == 1000);
  CHECK(images("shapes", "train").second == 1000);
  CHECK(images("mine", "train").first == std::nullopt);
  CHECK_THROWS_AS(images("cifar10", "train[:50001]"), InputError);
  CHECK_THROWS_AS(images("cifar10", "train[10:10]"), InputError);
  DatasetConfig part;
  part.name = "cifar10";
  part.per_class = 40;
  CHECK(known_training_images(part) == 400);
  part.per_class = 0;
  part.fraction = 0.5;
  CHECK(known_training_images(part) == 25000);
}

TEST_CASE("cost: products, steps and bytes of a trial") {
  DescriptorFiles files;
  const TrialConfig config = files
                                 .load(R"({"dataset": "cifar10", "model": {"patch_size": 4, "embed_dim": 64, "depth": 4,
      "num_heads": 2}, "train": {"epochs": 2, "batch_size": 100, "eval_every_epochs": 1, "schedule": {"warmup_epochs": 1}}})")
                                 .trials.front()
                                 .config;
  const TrialCost cost = trial_cost(config);
  REQUIRE(cost.steps);
  CHECK(cost.steps->total == 1000);
  CHECK(cost.steps->warmup == 500);
  CHECK(cost.images == 100000);
  CHECK(cost.training_flops == 6.0 * double(cost.model.macs) * 100000);
  CHECK(cost.evaluation_flops == 2.0 * double(cost.model.macs) * 10000 * 2);
  // Weights, as many gradients as there are lanes, two moments.
  CHECK(cost.state_bytes == 4.0 * double(cost.model.parameters) * double(1 + cost.shards.lanes + 2));
  CHECK(cost.batch_bytes == 4.0 * 100 * 32 * 32 * 3);
  CHECK(cost.bytes(2) - cost.bytes(1) == cost.shard_bytes);
  CHECK(cost.disk_kept(KeepCheckpoint::last) == 12.0 * double(cost.model.parameters));
  CHECK(cost.disk_kept(KeepCheckpoint::weights) == 4.0 * double(cost.model.parameters));
  CHECK(cost.disk_kept(KeepCheckpoint::none) == 0);
  CHECK(cost.disk_running() == 2 * cost.disk_kept(KeepCheckpoint::last));

  TrialConfig other = config;
  other.train.precision = Precision::bf16;
  CHECK(trial_cost(other).batch_bytes == cost.batch_bytes / 2);
  other = config;
  other.train.ema.decay = 0.9;
  CHECK(trial_cost(other).state_bytes == cost.state_bytes + 4.0 * double(cost.model.parameters));
  CHECK(trial_cost(other).disk_kept(KeepCheckpoint::weights) == 8.0 * double(cost.model.parameters));
  CHECK(trial_cost(other).evaluation_flops == 2 * cost.evaluation_flops);
  other = config;
  other.dataset.train = "train[:90%]";
  other.dataset.minival = "train[90%:]";
  CHECK(trial_cost(other).evaluation_flops == 1.5 * cost.evaluation_flops);
  other = config;
  other.train.images = 25050;
  CHECK(trial_cost(other).steps->total == 251);  // round(250.5)
  other = config;
  other.dataset.name = "mine";
  CHECK_FALSE(trial_cost(other).steps);
}
