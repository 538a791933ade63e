// Which images the slices of a dataset have, and which slices must not share images.
#include "tests/experiments/data/dataset_files.h"

using namespace normlab;
using namespace normlab::test;

namespace {

/// 100 generated images to train on and 50 for tests. Training takes 80, the minival 20.
DatasetConfig three_slices() {
  DatasetConfig config;
  config.train_images = 100;
  config.eval_images = 50;
  config.allow_absent_classes = true;
  config.train = "train[:80]";
  config.minival = "train[80:]";
  return config;
}

}  // namespace

TEST_CASE("dataset: a class without a training image is an error unless allowed") {
  TempFolder root;
  write_shards(root.path(), 1);
  DatasetConfig config = named("cifar10");
  CHECK_SAYS(input_error([&] { load_dataset(config, root.path(), 1); }), "no image of bee");
  config.allow_absent_classes = true;
  CHECK(load_dataset(config, root.path(), 1).train.size() == 10);
}

TEST_CASE("dataset: slices of training and evaluation that share images are refused") {
  TempFolder root;
  write_shards(root.path());
  DatasetConfig config = named("cifar10");
  config.train = "train[:80%]";
  config.eval = "train[60%:]";
  CHECK_SAYS(input_error([&] { load_dataset(config, root.path(), 1); }),
             "the training slice \"train[:80%]\" and the evaluation slice \"train[60%:]\" share 2 images");
}

TEST_CASE("dataset: slices of one split that share no image are taken") {
  TempFolder root;
  write_shards(root.path());
  DatasetConfig config = named("cifar10");
  config.train = "train[:80%]";
  config.eval = "train[80%:]";
  CHECK(load_dataset(config, root.path(), 1).eval.size() == 2);
}

TEST_CASE("dataset: a shard that is in both splits is refused") {
  TempFolder root;
  write_shards(root.path());
  DatasetConfig config = named("x", "", DatasetLayout::webdataset);
  config.path = ".";
  config.train_shards = config.eval_shards = "train-000000.tar";
  CHECK_SAYS(input_error([&] { load_dataset(config, root.path(), 1); }), "share 10 images");
}

TEST_CASE("dataset: there is no minival unless it is asked for") {
  DatasetConfig config = three_slices();
  config.train = "train";
  config.minival = "";
  CHECK(!load_dataset(config, std::nullopt, 1).minival);
}

TEST_CASE("dataset: a minival has the classes of training") {
  const DataPair data = load_dataset(three_slices(), std::nullopt, 1);
  REQUIRE(data.minival);
  CHECK(data.train.size() == 80);
  CHECK(data.minival->size() == 20);
  CHECK(data.minival->class_names == data.train.class_names);
}

TEST_CASE("dataset: the hash of the data is that of all slices") {
  const DataPair data = load_dataset(three_slices(), std::nullopt, 1);
  REQUIRE(data.minival);
  CHECK(data_hash(data) == data.train.hash + "+" + data.eval.hash + "+" + data.minival->hash);
}

TEST_CASE("dataset: a minival shares no image with the two other slices") {
  DatasetConfig config = three_slices();
  const auto problem = [&](const std::string& train, const std::string& minival, const std::string& eval) {
    config.train = train, config.minival = minival, config.eval = eval;
    try {
      load_dataset(config, std::nullopt, 1);
      return std::string();
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  CHECK(problem("train", "train[80:]", "test")
            .find("the training slice \"train\" and the minival slice \"train[80:]\" "
                  "share 20 images") != std::string::npos);
  CHECK(problem("train", "test[:10]", "test")
            .find("the minival slice \"test[:10]\" and the evaluation slice \"test\" "
                  "share 10 images") != std::string::npos);
  CHECK(problem("train", "test[:10]", "test[10:]") == "");
}

TEST_CASE("dataset: a subset is of the training slice alone") {
  TempFolder root;
  write_shards(root.path());
  DatasetConfig config = named("cifar10");
  config.per_class = 3;
  const DataPair pair = load_dataset(config, root.path(), 1);
  CHECK(pair.train.size() == 6);
  CHECK(pair.eval.size() == 1);
}

TEST_CASE("dataset: another subset seed draws other images") {
  TempFolder root;
  write_shards(root.path());
  DatasetConfig config = named("cifar10");
  config.per_class = 3;
  const DataPair pair = load_dataset(config, root.path(), 1);
  config.subset_seed = 1;
  CHECK(load_dataset(config, root.path(), 1).train.keys != pair.train.keys);
}

TEST_CASE("dataset: a subset without an image of a class is an error") {
  TempFolder root;
  write_shards(root.path());
  DatasetConfig config = named("cifar10");
  config.subset_seed = 1;
  config.fraction = 0.1;
  CHECK_SAYS(input_error([&] { load_dataset(config, root.path(), 1); }), "no image of bee");
}
