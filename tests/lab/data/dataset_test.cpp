#include "experiments/lab/data/dataset.h"

#include <cmath>
#include <map>

#include "experiments/lab/data/dataset_place.h"
#include "experiments/lab/data/image_set.h"
#include "tests/lab/base/variable.h"
#include "tests/lab/data/dataset_files.h"
#include "tests/lab/data/fashion_mnist.h"

using namespace normlab;
using namespace normlab::test;

namespace {

namespace fs = std::filesystem;

/// Makes an empty folder the current one for a scope.
class InEmptyFolder {
 public:
  InEmptyFolder() { fs::current_path(folder_.path()); }
  ~InEmptyFolder() { fs::current_path(before_); }
  InEmptyFolder(const InEmptyFolder&) = delete;
  InEmptyFolder& operator=(const InEmptyFolder&) = delete;

 private:
  TempFolder folder_;
  fs::path before_ = fs::current_path();
};

/// Two images of two channels: one of 0 and 255, one of 7 alone.
ImageSet two_channels() {
  ImageSet images;
  images.height = 1;
  images.width = 2;
  images.channels = 2;
  images.num_classes = 3;
  images.labels = {0, 2};
  images.pixels = {0, 7, 255, 7, 0, 7, 255, 7};
  finish_image_set(images);
  return images;
}

/// The hash of two_channels() after a change.
template <class Change>
std::string hash_after(Change&& change) {
  ImageSet copy = two_channels();
  change(copy);
  finish_image_set(copy);
  return copy.hash;
}

/// Images of several sizes in class folders, which stay in their files, with a mean and a deviation.
struct Pets : TempFolder {
  Pets() {
    for (const char* split : {"train", "test"}) {
      for (unsigned i = 0; i < 4; ++i)
        write_file(*this / concat("pets/", split, "/", i % 2 == 0 ? "cat/" : "dog/", i, ".jpg"),
                   make_jpeg(8, 8 + i, i));
    }
    config.mean = {0.1, 0.2, 0.3};
    config.std = {0.5, 0.5, 0.25};
  }
  DataPair load(int threads = 1) const { return load_dataset(config, path(), threads); }
  std::string said() const {
    return input_error([&] { load(); });
  }
  DatasetConfig config = named("pets", "", DatasetLayout::image_folder);
};

/// A folder of XDG_DATA_DIRS with Fashion-MNIST as Debian's package installs it, but one image of 2x3 pixels per split.
struct Installed : TempFolder {
  static void write(const fs::path& folder, char label) {
    for (const std::string split : {"train", "t10k"}) {
      write_file(folder / (split + "-images-idx3-ubyte.gz"),
                 gzip(std::string("\0\0\10\3\0\0\0\1\0\0\0\2\0\0\0\3", 16) + "abcdef"));
      write_file(folder / (split + "-labels-idx1-ubyte.gz"), gzip(std::string("\0\0\10\1\0\0\0\1", 8) + label));
    }
  }
  Installed() { write(place, '\4'); }
  static std::optional<fs::path> found(DatasetConfig config = named("fashion_mnist")) {
    return find_dataset_place(config, std::nullopt).folder;
  }
  const fs::path place = *this / "share/datasets/fashion-mnist";
  const std::string folders = concat("share:", (*this / "none").string(), ":", (*this / "share").string());
  const InEmptyFolder here;
  const Variable no_root{nullptr}, folders_set{folders.c_str(), "XDG_DATA_DIRS"};
};

/// One image for training and one for tests, as the archive unpacks.
struct Cifar100 : TempFolder {
  Cifar100() {
    write_file(*this / "cifar-100-binary/fine_label_names.txt", "a\n");
    for (const char* file : {"train.bin", "test.bin"})
      write_file(*this / "cifar-100-binary" / file, std::string(3074, '\0'));
  }
};

}  // namespace

TEST_CASE("dataset: --data is the data root, whatever NORMLAB_DATA is") {
  const InEmptyFolder here;
  TempFolder given, variable;
  const Variable set(variable.path().c_str());
  CHECK(find_data_root(given.path()) == given.path());
}

TEST_CASE("dataset: NORMLAB_DATA is the data root without --data") {
  const InEmptyFolder here;
  TempFolder variable;
  const Variable set(variable.path().c_str());
  CHECK(find_data_root(std::nullopt) == variable.path());
}

TEST_CASE("dataset: a missing --data is an error, whatever NORMLAB_DATA is") {
  const InEmptyFolder here;
  TempFolder given, variable;
  const Variable set(variable.path().c_str());
  CHECK_SAYS(input_error([&] { find_data_root(given / "no"); }),
             "/no: no such folder; give another one with --data (of eval: --data-root)");
}

TEST_CASE("dataset: a missing NORMLAB_DATA is an error") {
  const InEmptyFolder here;
  TempFolder variable;
  const Variable wrong((variable / "no").c_str());
  CHECK_SAYS(input_error([] { find_data_root(std::nullopt); }), "NORMLAB_DATA is ");
}

TEST_CASE("dataset: ./data is the data root if nothing else is given") {
  const InEmptyFolder here;
  const Variable unset(nullptr);
  fs::create_directory("data");
  CHECK(find_data_root(std::nullopt) == "data");
}

TEST_CASE("dataset: no data root at all is an error") {
  const InEmptyFolder here;
  const Variable unset(nullptr);
  CHECK(find_data_root(std::nullopt) == std::nullopt);
  CHECK_SAYS(input_error([] { find_dataset_place(named("cifar10"), std::nullopt); }),
             "no data folder: --data (of eval: --data-root) is not given, NORMLAB_DATA is not set, and there is no");
}

TEST_CASE("dataset: fashion_mnist is read where Debian's package installs it, without a data root") {
  const Installed installed;
  CHECK(Installed::found() == installed.place);
  DatasetConfig config = named("fashion_mnist");
  config.allow_absent_classes = config.allow_small_eval = true;
  const DataPair pair = load_dataset(config, std::nullopt, 1);
  CHECK(pair.train.labels == std::vector<std::int32_t>{4});
  CHECK(pair.train.class_names[4] == "Coat");
}

TEST_CASE("dataset: fashion_mnist below the data root comes before the installed one") {
  const Installed installed;
  const TempFolder root;
  const Variable set(root.path().c_str());
  CHECK(Installed::found() == installed.place);
  Installed::write(root / "fashion_mnist", '\5');
  CHECK(Installed::found() == root / "fashion_mnist");
}

TEST_CASE("dataset: a path or a layout leads below the data root alone") {
  const Installed installed;
  const TempFolder root;
  const Variable set(root.path().c_str());
  const std::string only = concat("Looked in:\n  ", (root / "mine").string(), " (no such folder)\nExpected");
  CHECK_SAYS(input_error([] { Installed::found(named("fashion_mnist", "mine")); }), only);
  CHECK_SAYS(input_error([] { Installed::found(named("mine", "", DatasetLayout::idx)); }), only);
}

TEST_CASE("dataset: where fashion_mnist is not, all places and the package are named") {
  const Installed installed;
  fs::remove_all(installed.place);
  const std::string said = input_error([] { Installed::found(); });
  CHECK_SAYS(said, concat("dataset \"fashion_mnist\" was not found. Looked in:\n  ",
                          (installed / "none/datasets/fashion-mnist").string(), " (no such folder)\n  ",
                          installed.place.string(), " (no such folder)\nExpected contents:\n  train-images"));
  CHECK_SAYS(said, "\nInstall Debian's package dataset-fashion-mnist, or give the parent folder with --data");
  unsetenv("XDG_DATA_DIRS");
  if (!fs::exists("/usr/share/datasets"))
    CHECK_SAYS(input_error([] { Installed::found(); }),
               "  /usr/local/share/datasets/fashion-mnist (no such folder)\n"
               "  /usr/share/datasets/fashion-mnist (no such folder)\n");
}

TEST_CASE("dataset: a damaged file of the package is named") {
  const Installed installed;
  const fs::path file = installed.place / "train-images-idx3-ubyte.gz";
  std::string bytes = read_file(file);
  bytes[bytes.size() - 8] ^= 1;  // of the checksum
  write_file(file, bytes);
  CHECK_SAYS(input_error([] { load_dataset(named("fashion_mnist"), std::nullopt, 1); }),
             concat(file.string(), ": after "));
}

TEST_CASE("dataset: a known name is found in ROOT/name and in ROOT") {
  TempFolder root;
  write_shards(root / "cifar10");
  const DataPair below = load_dataset(named("cifar10"), root.path(), 2),
                 at = load_dataset(named("cifar10"), root / "cifar10", 1);
  CHECK(below.train.hash == at.train.hash);
  CHECK(below.train.size() == 10);
  CHECK(below.eval.size() == 1);
}

TEST_CASE("dataset: training and evaluation images have hashes of their own") {
  TempFolder root;
  write_shards(root / "cifar10");
  const DataPair pair = load_dataset(named("cifar10"), root.path(), 2);
  CHECK(pair.train.hash.size() == 64);
  CHECK(pair.train.hash != pair.eval.hash);
}

TEST_CASE("dataset: a path is taken from ROOT") {
  TempFolder root;
  write_shards(root / "mine" / "insects");
  CHECK(load_dataset(named("x", "mine/insects", DatasetLayout::webdataset), root.path(), 1).train.size() == 10);
}

TEST_CASE("dataset: the error of a missing dataset names places and expected files") {
  TempFolder root;
  const std::string said = input_error([&] { load_dataset(named("cifar10"), root.path(), 1); });
  CHECK_SAYS(said, (root / "cifar10").string() + " (no such folder)");
  CHECK_SAYS(said, root.path().string() + "\n");
  CHECK_SAYS(said, "train-000000.tar");
  CHECK_SAYS(said, "cifar-10-batches-bin");
}

TEST_CASE("dataset: an unknown name is refused") {
  TempFolder root;
  CHECK_SAYS(input_error([&] { load_dataset(named("pets"), root.path(), 1); }), "is not a known name");
}

TEST_CASE("dataset: a path outside ROOT is refused") {
  TempFolder root;
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

TEST_CASE("dataset: training and evaluation images may have different sizes, which crops make equal") {
  TempFolder root;
  write_shards(root.path());
  write_tar(root / "test-000000.tar", {{"0.jpg", make_jpeg(8, 16, 3)}, {"0.cls", "1"}});
  const DataPair pair = load_dataset(named("cifar10"), root.path(), 1);
  CHECK(pair.train.width == 8);
  CHECK(pair.eval.width == 16);
}

TEST_CASE("dataset: mean and deviation are those of each channel") {
  const ImageSet images = two_channels();
  CHECK(images.channel_mean[0] == 0.5);
  CHECK(images.channel_std[0] == 0.5);
  CHECK(images.channel_mean[1] == doctest::Approx(7 / 255.0));
  CHECK(images.channel_std[1] == 0);
}

TEST_CASE("dataset: keys, labels, pixels and sizes change the hash") {
  const std::string hash = two_channels().hash;
  CHECK(hash_after([](ImageSet& s) { s.keys = {"0", "2"}; }) != hash);
  CHECK(hash_after([](ImageSet& s) { s.labels[0] = 1; }) != hash);
  CHECK(hash_after([](ImageSet& s) { s.pixels[3] = 8; }) != hash);
  CHECK(hash_after([](ImageSet& s) { std::swap(s.height, s.width); }) != hash);
}

TEST_CASE("dataset: equal images have equal hashes, wherever they are from") {
  const std::string hash = two_channels().hash;
  CHECK(hash_after([](ImageSet&) {}) == hash);
  CHECK(hash_after([](ImageSet& s) { s.provenance = "elsewhere"; }) == hash);
  CHECK(hash_after([](ImageSet& s) { s.keys = {"0", "1"}; }) == hash);  // the same as no keys
}

TEST_CASE("dataset: images that stay in their files need a mean and a deviation") {
  Pets pets;
  pets.config.std = {};
  CHECK_SAYS(pets.said(), "dataset.std: is needed");
  pets.config.mean = {};
  CHECK_SAYS(pets.said(), "dataset.mean: is needed, because the images are not held in memory");
  CHECK_SAYS(pets.said(), "images differ in size");
  CHECK_SAYS(pets.said(), "`normlab data info pets --layout image_folder` measures it");
}

TEST_CASE("dataset: as many deviations as channels are needed") {
  Pets pets;
  pets.config.std = {0.5, 0.5};
  CHECK_SAYS(pets.said(), "dataset.std: 2 values for 3 channels");
}

TEST_CASE("dataset: a mean or deviation that is not a number is refused") {
  Pets pets;
  pets.config.std = {0.5, 0.5, 0.0};
  CHECK_SAYS(pets.said(), "0 is not a number above 0");
  pets.config.std = {0.5, 0.5, 0.25};
  pets.config.mean[1] = std::nan("");
  CHECK_SAYS(pets.said(), "dataset.mean: nan is not a number");
}

TEST_CASE("dataset: images that stay in their files take the given mean and deviation") {
  const Pets pets;
  const DataPair pair = pets.load(2);
  CHECK(pair.train.encoded);
  CHECK(pair.train.channel_mean == pets.config.mean);
  CHECK(pair.train.channel_std == pets.config.std);
}

TEST_CASE("dataset: images that stay in their files have labels and a hash") {
  const Pets pets;
  const DataPair pair = pets.load(2);
  CHECK(pair.eval.labels == std::vector<std::int32_t>{0, 0, 1, 1});
  CHECK(pair.train.hash.size() == 64);
}

TEST_CASE("dataset: the order of shards is refused for class folders") {
  Pets pets;
  pets.config.order = SampleOrder::shards;
  CHECK_SAYS(pets.said(), "only WebDataset shards have order \"shards\"");
}

TEST_CASE("dataset: a given mean replaces the measured one") {
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

TEST_CASE("dataset: CIFAR-100 is found in its unpacked folder") {
  const Cifar100 root;
  CHECK(load_dataset(named("cifar100"), root.path(), 1).train.size() == 1);
}

TEST_CASE("dataset: CIFAR-100 is not taken for CIFAR-10") {
  const Cifar100 root;
  CHECK_SAYS(input_error([&] { load_dataset(named("cifar10"), root.path(), 1); }), "cifar-10-batches-bin/");
}

TEST_CASE("dataset: CIFAR-100 is read from a path with the layout cifar") {
  const Cifar100 root;
  CHECK(load_dataset(named("x", "cifar-100-binary", DatasetLayout::cifar), root.path(), 1).eval.size() == 1);
}

TEST_CASE("dataset: MNIST is found where torchvision unpacks it") {
  TempFolder root;
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
}

TEST_CASE("dataset: the error of a missing tiny-imagenet-200 names its annotations") {
  TempFolder root;
  CHECK_SAYS(input_error([&] { load_dataset(named("tiny-imagenet-200"), root.path(), 1); }), "val_annotations.txt");
}

TEST_CASE("dataset: a flat folder of evaluation images takes labels from a file") {
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

TEST_CASE("dataset: imagenet-100 is read from its class folders") {
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

TEST_CASE("dataset: Fashion-MNIST has its counts and statistics, and these sums of pixels") {
  if (const std::string without = without_fashion_mnist(); !without.empty()) {
    MESSAGE(without);
    return;
  }
  const DataPair pair = load_dataset(named("fashion_mnist"), std::nullopt, 2);
  struct Case {
    const ImageSet& images;
    std::int64_t count, sum, weighted;  // sums by numpy: pixels; pixels times label + 1
  };
  for (const auto& [images, count, sum, weighted] :
       {Case{pair.train, 60'000, 3'431'114'169, 18'643'160'444}, Case{pair.eval, 10'000, 573'469'082, 3'113'926'560}}) {
    REQUIRE(images.size() == count);
    std::map<int, std::int64_t> classes;
    std::int64_t total = 0, of_labels = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int32_t label = images.labels[static_cast<std::size_t>(i)];
      ++classes[label];
      std::int64_t image = 0;
      for (std::int64_t p = 0; p < 784; ++p) image += images.pixels[static_cast<std::size_t>(784 * i + p)];
      total += image;
      of_labels += image * (label + 1);
    }
    CHECK(total == sum);
    CHECK(of_labels == weighted);
    for (int c = 0; c < 10; ++c) CHECK(classes[c] == count / 10);
  }
  CHECK(std::abs(pair.train.channel_mean[0] - 0.2860) < 5e-5);  // as published for PyTorch
  CHECK(std::abs(pair.train.channel_std[0] - 0.3530) < 5e-5);
}

TEST_CASE("dataset: CIFAR-10 on disk has its counts and statistics") {
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
