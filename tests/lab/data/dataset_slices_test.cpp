// Which images the slices of a dataset have, and which slices must not share images.
#include "tests/lab/data/dataset_files.h"

#include <set>

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

namespace {

/// Folders train, val and test of `sizes` (one per split), eight images each of two classes.
void write_folders(const std::filesystem::path& folder, const std::array<int, 3>& sizes) {
  const char* const splits[] = {"train", "val", "test"};
  for (std::size_t s = 0; s < 3; ++s)
    for (unsigned i = 0; i < 8; ++i)
      write_file(folder / splits[s] / (i % 2 ? "ant" : "bee") / concat(i, ".jpg"),
                 make_jpeg(sizes[s], sizes[s], unsigned(s) * 8 + i));
}

DatasetConfig over_two_splits() {
  DatasetConfig config = named("pets", "pets", DatasetLayout::image_folder);
  config.train = "train[:6]+val[:2]";
  config.allow_absent_classes = true;
  return config;
}

}  // namespace

TEST_CASE("dataset: a slice over two splits has the images of both") {
  TempFolder root;
  write_folders(root / "pets", {8, 8, 8});
  const ImageSet both = load_dataset(over_two_splits(), root.path(), 1).train;
  DatasetConfig first = over_two_splits(), second = first;
  first.train = "train[:6]";
  second.train = "val[:2]";
  const ImageSet a = load_dataset(first, root.path(), 1).train, b = load_dataset(second, root.path(), 1).train;
  REQUIRE(both.size() == 8);
  CHECK(!both.encoded);
  CHECK(std::is_sorted(both.keys.begin(), both.keys.end()));
  for (std::int64_t i = 0; i < 8; ++i) {
    const ImageSet& from = i < 6 ? a : b;
    const std::int64_t own = i < 6 ? i : i - 6;
    CHECK(both.key(i) == (i < 6 ? "train/" : "val/") + from.key(own));
    CHECK(both.labels[std::size_t(i)] == from.labels[std::size_t(own)]);
    CHECK(std::equal(both.image(i), both.image(i) + both.image_bytes(), from.image(own)));
  }
}

TEST_CASE("dataset: the order in which splits are added does not matter") {
  TempFolder root;
  write_folders(root / "pets", {8, 8, 8});
  DatasetConfig other = over_two_splits();
  other.train = "val[:2]+train[:6]";
  CHECK(data_hash(load_dataset(other, root.path(), 1)) == data_hash(load_dataset(over_two_splits(), root.path(), 1)));
}

TEST_CASE("dataset: if one of two splits stays in files, so does their sum") {
  TempFolder root;
  write_folders(root / "pets", {8, 12, 8});
  DatasetConfig config = over_two_splits();
  CHECK_SAYS(input_error([&] { load_dataset(config, root.path(), 1); }), "dataset.mean: is needed");
  config.mean = config.std = {0.5, 0.5, 0.5};
  const ImageSet both = load_dataset(config, root.path(), 1).train;
  REQUIRE(both.encoded);
  REQUIRE(both.size() == 8);
  std::vector<std::uint8_t> bytes;
  both.encoded->read(7, bytes);
  CHECK(both.encoded->where(7).find("val") != std::string::npos);
  const std::string file = read_file(root / "pets" / both.key(7));
  CHECK(std::string(bytes.begin(), bytes.end()) == file);
}

TEST_CASE("dataset: slices over splits that share images are refused") {
  TempFolder root;
  write_folders(root / "pets", {8, 8, 8});
  DatasetConfig config = over_two_splits();
  config.eval = "test+val[1:3]";
  CHECK_SAYS(input_error([&] { load_dataset(config, root.path(), 1); }),
             "the training slice \"train[:6]+val[:2]\" and the evaluation slice \"test+val[1:3]\" share 1 images");
  config.eval = "test+val[2:]";
  CHECK(load_dataset(config, root.path(), 1).eval.size() == 14);
}

TEST_CASE("dataset: shards of two splits are read one after the other") {
  TempFolder root;
  write_shards(root.path());
  DatasetConfig config = named("x", "", DatasetLayout::webdataset);
  config.path = ".";
  config.train = "train[:5]+test";
  config.eval = "train[5:]";
  config.allow_absent_classes = true;
  const ImageSet train = load_dataset(config, root.path(), 1).train;
  CHECK(train.size() == 6);
  CHECK(train.shards.size() == 2);
  CHECK(train.shards[1].size() + train.shards[0].size() == 6);
  std::set<std::int64_t> all;
  for (const auto& shard : train.shards) all.insert(shard.begin(), shard.end());
  CHECK(all.size() == 6);
  CHECK(*all.rbegin() == 5);
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
