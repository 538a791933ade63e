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
  CHECK_SAYS(input_error([&] { load_dataset(named("pets"), root.path(), 1); }), "is not a known name");
  CHECK_SAYS(input_error([&] { load_dataset(named("x", "../up", DatasetLayout::webdataset), root.path(), 1); }),
             "is outside the data root");
  CHECK_SAYS(input_error([&] { load_dataset(named("x", "/etc", DatasetLayout::cifar), root.path(), 1); }),
             "is outside the data root");
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

TEST_CASE("dataset: images that stay in their files need a mean and a deviation; given ones are taken everywhere") {
  TempFolder root;
  for (const char* split : {"train", "test"}) {
    for (unsigned i = 0; i < 4; ++i)
      write_file(root / concat("pets/", split, "/", i % 2 == 0 ? "cat/" : "dog/", i, ".jpg"), make_jpeg(8, 8 + i, i));
  }
  DatasetConfig config = named("pets", "", DatasetLayout::image_folder);
  const auto said = [&] { return input_error([&] { load_dataset(config, root.path(), 1); }); };
  CHECK_SAYS(said(), "dataset.mean: is needed, because the images are not held in memory");
  CHECK_SAYS(said(), "images differ in size");
  CHECK_SAYS(said(), "`normlab data info pets --layout image_folder` measures it");
  config.mean = {0.1, 0.2, 0.3};
  CHECK_SAYS(said(), "dataset.std: is needed");
  config.std = {0.5, 0.5};
  CHECK_SAYS(said(), "dataset.std: 2 values for 3 channels");
  config.std = {0.5, 0.5, 0.0};
  CHECK_SAYS(said(), "0 is not a number above 0");
  config.std = {0.5, 0.5, 0.25};
  config.mean[1] = std::nan("");
  CHECK_SAYS(said(), "dataset.mean: nan is not a number");
  config.mean[1] = 0.2;
  const DataPair pair = load_dataset(config, root.path(), 2);
  CHECK(pair.train.encoded);
  CHECK(pair.train.channel_mean == config.mean);
  CHECK(pair.train.channel_std == config.std);
  CHECK(pair.eval.labels == std::vector<std::int32_t>{0, 0, 1, 1});
  CHECK(pair.train.hash.size() == 64);
  config.order = SampleOrder::shards;
  CHECK_SAYS(said(), "only WebDataset shards have order \"shards\"");
}

TEST_CASE("dataset: a mean of one's own for images in memory") {
  TempFolder root;
  write_shards(root.path());
  DatasetConfig config = named("cifar10");
  const DataPair measured = load_dataset(config, root.path(), 1);
  config.mean = {0.5, 0.5, 0.5};
  const DataPair pair = load_dataset(config, root.path(), 1);
  CHECK(pair.train.channel_mean == config.mean);
  CHECK(pair.train.channel_std == measured.train.channel_std);
  CHECK(pair.train.hash == measured.train.hash);
}

TEST_CASE("dataset: images that are trained on are not evaluated on") {
  TempFolder root;
  write_shards(root.path());
  DatasetConfig config = named("cifar10");
  config.train = "train[:80%]";
  config.eval = "train[60%:]";
  CHECK_SAYS(input_error([&] { load_dataset(config, root.path(), 1); }),
             "the training slice \"train[:80%]\" and the evaluation slice \"train[60%:]\" share 2 images");
  config.eval = "train[80%:]";
  CHECK(load_dataset(config, root.path(), 1).eval.size() == 2);
  config = named("x", "", DatasetLayout::webdataset);  // the same shard under two names of a split
  config.path = ".";
  config.train_shards = config.eval_shards = "train-000000.tar";
  CHECK_SAYS(input_error([&] { load_dataset(config, root.path(), 1); }), "share 10 images");
}

TEST_CASE("dataset: a minival shares no image with the two other slices") {
  DatasetConfig config;
  config.train_images = 100;
  config.eval_images = 50;
  config.allow_absent_classes = true;
  CHECK(!load_dataset(config, std::nullopt, 1).minival);
  config.train = "train[:80]";
  config.minival = "train[80:]";
  const DataPair data = load_dataset(config, std::nullopt, 1);
  REQUIRE(data.minival);
  CHECK(data.train.size() == 80);
  CHECK(data.minival->size() == 20);
  CHECK(data.minival->class_names == data.train.class_names);
  CHECK(data_hash(data) == data.train.hash + "+" + data.eval.hash + "+" + data.minival->hash);
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

TEST_CASE("dataset: a subset is of the training slice alone, and a class it lacks is an error") {
  TempFolder root;
  write_shards(root.path());
  DatasetConfig config = named("cifar10");
  config.per_class = 3;
  const DataPair pair = load_dataset(config, root.path(), 1);
  CHECK(pair.train.size() == 6);
  CHECK(pair.eval.size() == 1);
  config.subset_seed = 1;
  CHECK(load_dataset(config, root.path(), 1).train.keys != pair.train.keys);
  config.per_class = 0;
  config.fraction = 0.1;
  CHECK_SAYS(input_error([&] { load_dataset(config, root.path(), 1); }), "no image of bee");
}

TEST_CASE("dataset: known names are found where they are unpacked, and not for each other") {
  TempFolder root;
  write_file(root / "cifar-100-binary/fine_label_names.txt", "a\n");
  for (const char* file : {"train.bin", "test.bin"})
    write_file(root / "cifar-100-binary" / file, std::string(3074, '\0'));
  CHECK(load_dataset(named("cifar100"), root.path(), 1).train.size() == 1);
  CHECK_SAYS(input_error([&] { load_dataset(named("cifar10"), root.path(), 1); }), "cifar-10-batches-bin/");
  CHECK(load_dataset(named("x", "cifar-100-binary", DatasetLayout::cifar), root.path(), 1).eval.size() == 1);
  for (const char* split : {"train", "t10k"}) {
    write_file(root / concat("MNIST/raw/", split, "-images-idx3-ubyte"),
               std::string("\0\0\10\3\0\0\0\1\0\0\0\1\0\0\0\1z", 17));
    write_file(root / concat("MNIST/raw/", split, "-labels-idx1-ubyte"), std::string("\0\0\10\1\0\0\0\1\4", 9));
  }
  DatasetConfig config = named("mnist");
  CHECK_SAYS(input_error([&] { load_dataset(config, root.path(), 1); }), "no image of 0");
  config.allow_absent_classes = true;
  const DataPair pair = load_dataset(config, root.path(), 1);
  CHECK(pair.train.channels == 1);
  CHECK(pair.train.labels == std::vector<std::int32_t>{4});
  CHECK_SAYS(input_error([&] { load_dataset(named("kmnist"), root.path(), 1); }), "KMNIST/raw (no such folder)");
  CHECK_SAYS(input_error([&] { load_dataset(named("tiny-imagenet-200"), root.path(), 1); }), "val_annotations.txt");
}

TEST_CASE("dataset: a flat folder of evaluation images beside an image folder") {
  TempFolder root;
  for (unsigned i = 0; i < 4; ++i)
    write_file(root / concat("net/train/", i % 2 == 0 ? "n1/" : "n2/", i, ".jpg"), make_jpeg(8, 8, i));
  write_file(root / "net/val/v1.JPEG", make_jpeg(8, 8, 8));
  write_file(root / "net/val/v2.JPEG", make_jpeg(8, 8, 9));
  write_file(root / "net/val_labels.txt", "v1.JPEG n2\nv2.JPEG n1\n");
  DatasetConfig config = named("net", "", DatasetLayout::image_folder);
  config.eval = "val";
  CHECK_SAYS(input_error([&] { load_dataset(config, root.path(), 1); }), "expected one folder per class here");
  config.labels = "val_labels.txt";
  CHECK(load_dataset(config, root.path(), 1).eval.labels == std::vector<std::int32_t>{1, 0});
}

TEST_CASE("dataset: real photographs in class folders") {
  const char* root = std::getenv("NORMLAB_DATA");
  if (root == nullptr || !fs::is_directory(fs::path(root) / "imagenet-100")) {
    MESSAGE("skipped: set NORMLAB_DATA to a folder with imagenet-100 in it");
    return;
  }
  DatasetConfig config = named("imagenet-100", "", DatasetLayout::image_folder);
  config.train = "train[:80]";
  config.eval = "train[80:]";
  config.mean = config.std = {0.5, 0.5, 0.5};
  config.allow_absent_classes = true;
  config.on_bad_image = OnBadImage::skip;
  const DataPair pair = load_dataset(config, std::nullopt, 2);
  CHECK(pair.train.encoded);
  CHECK(pair.train.size() == 80);
  CHECK(pair.eval.size() == 20);
  CHECK(pair.train.num_classes == 100);
  CHECK(pair.train.class_names[0] == "n01440764");
  CHECK(pair.train.bad_images.empty());
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
