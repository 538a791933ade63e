#include "experiments/data/dataset.h"

#include <cmath>
#include <map>

#include "experiments/data/image_set.h"
#include "tests/experiments/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

namespace fs = std::filesystem;

/// NORMLAB_DATA for one scope.
class Variable {
 public:
  explicit Variable(const char* value) {
    if (const char* old = std::getenv("NORMLAB_DATA")) old_ = old;
    if (value != nullptr) {
      setenv("NORMLAB_DATA", value, 1);
    } else {
      unsetenv("NORMLAB_DATA");
    }
  }
  ~Variable() { old_.empty() ? unsetenv("NORMLAB_DATA") : setenv("NORMLAB_DATA", old_.c_str(), 1); }

 private:
  std::string old_;
};

void write_shards(const fs::path& folder, int classes_in_train = 2) {
  write_file(folder / "classes.txt", "ant\nbee\n");
  Members train;
  for (unsigned i = 0; i < 10; ++i) {
    train.push_back({concat(i, ".jpg"), make_jpeg(8, 8, i)});
    train.push_back({concat(i, ".cls"), std::to_string(int(i) % classes_in_train)});
  }
  write_tar(folder / "train-000000.tar", train);
  write_tar(folder / "test-000000.tar", {{"0.jpg", make_jpeg(8, 8, 3)}, {"0.cls", "1"}});
}

DatasetConfig named(const std::string& name, const std::string& path = "",
                    DatasetLayout layout = DatasetLayout::known) {
  DatasetConfig config;
  config.name = name;
  config.path = path;
  config.layout = layout;
  return config;
}

}  // namespace

TEST_CASE("dataset: the data root is --data, then NORMLAB_DATA, then ./data, and none stands in for another") {
  TempFolder given, variable, here;
  const fs::path before = fs::current_path();
  fs::current_path(here.path());
  {
    const Variable set(variable.path().c_str());
    CHECK(find_data_root(given.path()) == given.path());
    CHECK(find_data_root(std::nullopt) == variable.path());
    CHECK_SAYS(input_error([&] { find_data_root(given / "no"); }), "no such folder");
  }
  {
    const Variable wrong((variable / "no").c_str());
    CHECK_SAYS(input_error([] { find_data_root(std::nullopt); }), "NORMLAB_DATA is ");
  }
  const Variable unset(nullptr);
  CHECK_SAYS(input_error([] { find_data_root(std::nullopt); }),
             "--data is not given, NORMLAB_DATA is not set, and there is no");
  fs::create_directory("data");
  CHECK(find_data_root(std::nullopt) == "data");
  fs::current_path(before);
}

TEST_CASE("dataset: a known name is found in ROOT/name and in ROOT, one of one's own by its path") {
  TempFolder root;
  write_shards(root / "cifar10");
  write_shards(root / "mine" / "insects");
  const DataPair below = load_dataset(named("cifar10"), root.path(), 2),
                 at = load_dataset(named("cifar10"), root / "cifar10", 1);
  CHECK(below.train.hash == at.train.hash);
  CHECK(below.train.size() == 10);
  CHECK(below.eval.size() == 1);
  CHECK(below.train.hash.size() == 64);
  CHECK(below.train.hash != below.eval.hash);
  CHECK(load_dataset(named("x", "mine/insects", DatasetLayout::webdataset), root.path(), 1).train.size() == 10);
}

TEST_CASE("dataset: what is not there is told with all places and what was expected") {
  TempFolder root;
  const std::string said = input_error([&] { load_dataset(named("cifar10"), root.path(), 1); });
  CHECK_SAYS(said, (root / "cifar10").string() + " (no such folder)");
  CHECK_SAYS(said, root.path().string() + "\n");
  CHECK_SAYS(said, "train-000000.tar");
  CHECK_SAYS(said, "cifar-10-batches-bin");
  CHECK_SAYS(input_error([&] { load_dataset(named("pets"), root.path(), 1); }), "not known by name");
  CHECK_SAYS(input_error([&] { load_dataset(named("x", "../up", DatasetLayout::webdataset), root.path(), 1); }),
             "leaves the data root");
  CHECK_SAYS(input_error([&] { load_dataset(named("x", "/etc", DatasetLayout::cifar), root.path(), 1); }),
             "leaves the data root");
}

TEST_CASE("dataset: shapes needs no data root") {
  const Variable wrong("/does/not/exist");
  DatasetConfig config;
  config.train_images = 50;
  config.eval_images = 20;
  const DataPair pair = load_dataset(config, std::nullopt, 1);
  CHECK(pair.train.size() == 50);
  CHECK(pair.eval.size() == 20);
  CHECK_FALSE(pair.train.channel_mean.empty());
}

TEST_CASE("dataset: a class without a training image is an error unless allowed") {
  TempFolder root;
  write_shards(root.path(), 1);
  DatasetConfig config = named("cifar10");
  CHECK_SAYS(input_error([&] { load_dataset(config, root.path(), 1); }), "no image of bee");
  config.allow_absent_classes = true;
  CHECK(load_dataset(config, root.path(), 1).train.size() == 10);
}

TEST_CASE("dataset: training and evaluation images have one size") {
  TempFolder root;
  write_shards(root.path());
  write_tar(root / "test-000000.tar", {{"0.jpg", make_jpeg(8, 16, 3)}, {"0.cls", "1"}});
  CHECK_SAYS(input_error([&] { load_dataset(named("cifar10"), root.path(), 1); }),
             "training images are 8x8 pixels, evaluation images 16x8");
}

TEST_CASE("dataset: mean and deviation by channel, and a hash that sees every part") {
  ImageSet images;
  images.height = 1;
  images.width = 2;
  images.channels = 2;
  images.num_classes = 3;
  images.labels = {0, 2};
  images.pixels = {0, 7, 255, 7, 0, 7, 255, 7};
  finish_image_set(images);
  CHECK(images.channel_mean[0] == 0.5);
  CHECK(images.channel_std[0] == 0.5);
  CHECK(images.channel_mean[1] == doctest::Approx(7 / 255.0));
  CHECK(images.channel_std[1] == 0);
  const auto hash_of = [&](auto change) {
    ImageSet copy = images;
    change(copy);
    finish_image_set(copy);
    return copy.hash;
  };
  CHECK(hash_of([](ImageSet&) {}) == images.hash);
  CHECK(hash_of([](ImageSet& s) { s.provenance = "elsewhere"; }) == images.hash);
  CHECK(hash_of([](ImageSet& s) { s.keys = {"0", "1"}; }) == images.hash);  // what no keys mean
  CHECK(hash_of([](ImageSet& s) { s.keys = {"0", "2"}; }) != images.hash);
  CHECK(hash_of([](ImageSet& s) { s.labels[0] = 1; }) != images.hash);
  CHECK(hash_of([](ImageSet& s) { s.pixels[3] = 8; }) != images.hash);
  CHECK(hash_of([](ImageSet& s) { std::swap(s.height, s.width); }) != images.hash);
}

TEST_CASE("dataset: CIFAR-10 as it is on disk") {
  const char* root = std::getenv("NORMLAB_DATA");
  if (root == nullptr || *root == '\0') {
    MESSAGE("skipped: set NORMLAB_DATA to a folder with cifar10 in it");
    return;
  }
  const DataPair pair = load_dataset(named("cifar10"), std::nullopt, 2);
  CHECK(pair.train.size() == 50000);
  CHECK(pair.eval.size() == 10000);
  std::map<int, int> train, eval;
  for (const std::int32_t label : pair.train.labels) ++train[label];
  for (const std::int32_t label : pair.eval.labels) ++eval[label];
  for (int c = 0; c < 10; ++c) {
    CHECK(train[c] == 5000);
    CHECK(eval[c] == 1000);
  }
  const double mean[] = {.4914, .4822, .4465}, deviation[] = {.2470, .2435, .2616};  // of the lossless images
  for (std::size_t c = 0; c < 3; ++c) {
    CHECK(std::abs(pair.train.channel_mean[c] - mean[c]) < 0.003);
    CHECK(std::abs(pair.train.channel_std[c] - deviation[c]) < 0.004);
  }
}
