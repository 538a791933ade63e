#include "experiments/lab/data/jpeg_copy.h"

#include <algorithm>

#include "experiments/lab/data/dataset.h"
#include "experiments/lab/data/dataset_place.h"
#include "tests/lab/data/dataset_files.h"

using namespace normlab;
using namespace normlab::test;

namespace {

std::string jpeg_at(int quality, unsigned seed, JpegKind kind = JpegKind::rgb) {
  return make_jpeg(32, 32, seed, kind, [=](jpeg_compress_struct& jpeg) { jpeg_set_quality(&jpeg, quality, TRUE); });
}

std::string own_tables(unsigned seed) {
  return make_jpeg(32, 32, seed, JpegKind::rgb,
                   [](jpeg_compress_struct& jpeg) { ++jpeg.quant_tbl_ptrs[0]->quantval[5]; });
}

/// Shards of twenty training and ten test images of two classes, of which `image` makes each and its extension.
struct Shards : TempFolder {
  using Made = std::pair<std::string, std::string>;
  explicit Shards(const std::function<Made(unsigned)>& image, const std::string& name = "cifar10",
                  const std::string& ending = ".tar") {
    write_file(*this / (name + "/classes.txt"), "ant\nbee\n");
    for (const auto& [split, first, count] : {std::tuple("train", 0u, 20u), std::tuple("test", 20u, 10u)}) {
      Members members;
      for (unsigned i = first; i < first + count; ++i) {
        const auto [extension, bytes] = image(i);
        members.push_back({concat(i, ".", extension), bytes});
        members.push_back({concat(i, ".cls"), std::to_string(i % 2)});
      }
      write_tar(*this / concat(name, "/", split, "-000000", ending), members);
    }
  }
  DataPair load(const DatasetConfig& config, int threads = 1) const { return load_dataset(config, path(), threads); }
  std::string copy(DatasetConfig config = named("cifar10"), int threads = 1) const {
    config.mean = config.std = {0.5, 0.5, 0.5};
    return jpeg_copy(config.name, load(config, threads));
  }
};

Shards::Made jpg(const std::string& bytes) { return {"jpg", bytes}; }
Shards::Made png(unsigned i) { return {"png", make_png(32, 32, i)}; }

}  // namespace

TEST_CASE("jpeg copy: the images of CIFAR-10 are JPEGs of one quality, of several, or PNGs") {
  for (const int threads : {1, 3}) {
    const DatasetConfig cifar10 = named("cifar10");
    CHECK(Shards([](unsigned i) { return jpg(jpeg_at(75, i)); }).copy(cifar10, threads) ==
          "cifar10 as JPEG, quality 75");
    CHECK(Shards([](unsigned i) { return jpg(jpeg_at(90, i)); }).copy(cifar10, threads) ==
          "cifar10 as JPEG, quality 90");
    CHECK(Shards([](unsigned i) { return jpg(jpeg_at(i < 29 ? 75 : 90, i)); }).copy(cifar10, threads) ==
          "cifar10 as JPEG, quality 75 to 90");
    CHECK(Shards(png).copy(cifar10, threads).empty());
    CHECK(Shards([](unsigned i) { return i == 7 ? jpg(jpeg_at(75, i)) : png(i); }).copy(cifar10, threads) ==
          "cifar10 partly as JPEG, quality 75");
    CHECK(Shards([](unsigned i) { return jpg(i == 7 ? own_tables(i) : jpeg_at(75, i)); }).copy(cifar10, threads) ==
          "cifar10 as JPEG");
  }
  CHECK(Shards([](unsigned i) { return jpg(jpeg_at(75, i)); }, "cifar10", ".tar.gz").copy() ==
        "cifar10 as JPEG, quality 75");
  CHECK(Shards([](unsigned i) { return std::pair("png", jpeg_at(75, i)); }).copy() ==
        "cifar10 as JPEG, quality 75");  // by content
  const std::string exif = jpeg_at(60, 3);
  std::string comment = exif.substr(0, 2) + "\xff\xfe" + std::string({'\x20', '\x00'}) + std::string(0x2000 - 2, 'c');
  CHECK(Shards([&](unsigned) { return jpg(comment + exif.substr(2)); }).copy() == "cifar10 as JPEG, quality 60");
}

TEST_CASE("jpeg copy: only the images of the slices count") {
  const Shards shards([](unsigned i) { return i < 20 ? png(i) : jpg(jpeg_at(75, i)); });
  CHECK(shards.copy() == "cifar10 partly as JPEG, quality 75");
  DatasetConfig config = named("cifar10");
  config.train = "train[:10]";
  config.eval = "train[10:]";
  CHECK(shards.copy(config).empty());
  config.minival = "test";
  CHECK(shards.copy(config) == "cifar10 partly as JPEG, quality 75");
  config = named("cifar10");
  config.train = "train[:10]+test[:5]";  // two splits
  config.eval = "train[10:]";
  CHECK(shards.copy(config) == "cifar10 partly as JPEG, quality 75");
}

TEST_CASE("jpeg copy: every layout of files counts, in memory or not") {
  TempFolder folder;
  for (unsigned i = 0; i < 20; ++i)
    for (const char* split : {"train", "test"}) {
      const std::string name = concat(split, "/", i % 2 == 0 ? "ant" : "bee", "/", i, ".jpg");
      write_file(folder / ("cifar10/" + name), jpeg_at(75, i));
      write_file(folder / ("many/" + name), make_jpeg(32, i < 10 ? 32 : 40, i, JpegKind::rgb));
    }
  DatasetConfig config = named("cifar10", "", DatasetLayout::image_folder);
  CHECK(jpeg_copy(config.name, load_dataset(config, folder.path(), 1)) == "cifar10 as JPEG, quality 75");
  config.path = "many";
  config.mean = config.std = {0.5, 0.5, 0.5};
  config.train = "train+test[:10]";
  config.eval = "test[10:]";
  const DataPair many = load_dataset(config, folder.path(), 1);
  CHECK(many.train.encoded);
  CHECK(many.train.jpegs.count == 30);
  CHECK(jpeg_copy(config.name, many) == "cifar10 as JPEG, quality 95");
}

TEST_CASE("jpeg copy: a data set that is published as JPEGs is no copy, nor are own images") {
  const Shards own([](unsigned i) { return jpg(jpeg_at(75, i)); }, "own");
  CHECK(own.copy(named("my cifar", "own", DatasetLayout::webdataset)).empty());
  CHECK(own.copy(named("tiny-imagenet-200", "own", DatasetLayout::webdataset)).empty());
  CHECK(own.copy(named("cifar100", "own", DatasetLayout::webdataset)) == "cifar100 as JPEG, quality 75");
  CHECK(own.copy(named("svhn", "own")) == "svhn as JPEG, quality 75");
  const Shards gray([](unsigned i) { return jpg(jpeg_at(80, i, JpegKind::gray)); }, "digits");
  CHECK(gray.copy(named("mnist", "digits", DatasetLayout::webdataset)) == "mnist as JPEG, quality 80");
  const Shards inks([](unsigned i) { return jpg(jpeg_at(80, i, JpegKind::cmyk)); });
  CHECK(inks.copy() == "cifar10 as JPEG, quality 80");
  for (const char* lossless : {"cifar10", "cifar100", "mnist", "fashion_mnist", "kmnist", "svhn"})
    CHECK(is_lossless(lossless));
  for (const char* other : {"imagenet", "tiny-imagenet-200", "dtd", "oxford_pets", "gratings", "shapes", "mine", ""})
    CHECK(!is_lossless(other));
}

TEST_CASE("jpeg copy: images that are left out do not count") {
  const Shards shards([](unsigned i) { return i == 3 ? jpg(own_tables(i).substr(0, 400)) : jpg(jpeg_at(75, i)); });
  DatasetConfig config = named("cifar10");
  config.on_bad_image = OnBadImage::skip;
  const DataPair pair = shards.load(config);
  CHECK(pair.train.bad_images.size() == 1);
  CHECK(pair.train.jpegs.count == 19);
  CHECK(jpeg_copy("cifar10", pair) == "cifar10 as JPEG, quality 75");
}
