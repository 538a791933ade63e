#include "experiments/lab/data/readers.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

namespace fs = std::filesystem;

struct Folder : TempFolder {
  Folder() {
    write_file(*this / "wnids.txt", "n2\nn1\n");
    for (const char* wnid : {"n1", "n2"}) {
      for (unsigned i = 0; i < 2; ++i)
        write_file(*this / concat("train/", wnid, "/images/", wnid, "_", i, ".JPEG"),
                   make_jpeg(8, 8, i, i == 0 ? JpegKind::gray : JpegKind::rgb));
      write_file(*this / concat("train/", wnid, "/", wnid, "_boxes.txt"), "boxes");
    }
    write_file(*this / "val/images/val_0.JPEG", make_jpeg(8, 8, 5));
    write_file(*this / "val/images/val_1.JPEG", make_jpeg(8, 8, 6));
    write_file(*this / "val/val_annotations.txt", "val_1.JPEG\tn1\t0\t0\t7\t7\nval_0.JPEG\tn2\t0\t0\t7\t7\r\n");
  }
  ImageSet read(const std::string& slice) const { return read_tiny_imagenet(path(), request_for(slice)); }
  std::string said(const std::string& slice) const {
    return input_error([&] { read(slice); });
  }
};

}  // namespace

TEST_CASE("tiny_imagenet: sorted wnids are the classes") {
  const ImageSet train = Folder().read("train");
  CHECK(train.class_names == std::vector<std::string>{"n1", "n2"});
  CHECK(train.labels == std::vector<std::int32_t>{0, 0, 1, 1});
  CHECK(train.keys[0] == "n1/images/n1_0.JPEG");
}

TEST_CASE("tiny_imagenet: its folder is recognised") {
  const Folder folder;
  CHECK(has_tiny_imagenet(folder.path()));
}

TEST_CASE("tiny_imagenet: gray images are read as colour") {
  const ImageSet train = Folder().read("train");
  CHECK(train.image(0)[0] == train.image(0)[2]);
  CHECK(train.height == 8);
}

TEST_CASE("tiny_imagenet: images of val take their labels from its annotations") {
  const ImageSet val = Folder().read("val");
  CHECK(val.keys == std::vector<std::string>{"val_0.JPEG", "val_1.JPEG"});
  CHECK(val.labels == std::vector<std::int32_t>{1, 0});
}

TEST_CASE("tiny_imagenet: splits without labels are refused") {
  const Folder folder;
  CHECK_SAYS(folder.said("test"), "its test images have no labels: set dataset.eval to \"val\"");
  CHECK_SAYS(folder.said("x"), "the splits of tiny-imagenet-200 are \"train\" and \"val\"");
}

TEST_CASE("tiny_imagenet: an image without a label is named") {
  const Folder folder;
  write_file(folder / "val/images/val_2.JPEG", make_jpeg(8, 8, 7));
  CHECK_SAYS(folder.said("val"), "val_2.JPEG: has no label in val_annotations.txt");
}

TEST_CASE("tiny_imagenet: wrong lines of the annotations are named") {
  const Folder folder;
  const std::string good = "val_0.JPEG\tn2\t0\nval_1.JPEG\tn1\t0\n";
  for (const auto& row : {std::pair{"val_0.JPEG n2", "3: expected file, tab, WNID"},
                          {"../x.JPEG\tn2", "3: expected file"},
                          {"\tn2", "3: expected file"},
                          {"val_3.JPEG\tn9\t0", "3: wnids.txt has no \"n9\""},
                          {"val_0.JPEG\tn2\t0", "two images have the key \"val_0.JPEG\""},
                          {"val_9.JPEG\tn2\t0", "val_9.JPEG: No such file"}}) {
    const char *const line = row.first, *const what = row.second;
    CAPTURE(line);
    write_file(folder / "val/val_annotations.txt", good + line + "\n");
    CHECK_SAYS(folder.said("val"), what);
  }
}

TEST_CASE("tiny_imagenet: val needs its annotations") {
  const Folder folder;
  fs::remove(folder / "val/val_annotations.txt");
  CHECK_SAYS(folder.said("val"), "val_annotations.txt: cannot be read");
}

TEST_CASE("tiny_imagenet: a class that wnids.txt lacks is named") {
  const Folder folder;
  fs::create_directory(folder / "train/n3");
  CHECK_SAYS(folder.said("train"), "train/n3: wnids.txt has no class of this name");
}

TEST_CASE("tiny_imagenet: a class without its images folder is named") {
  const Folder folder;
  fs::remove_all(folder / "train/n1/images");
  CHECK_SAYS(folder.said("train"), "n1/images: cannot be listed");
}
