#include "experiments/lab/data/idx.h"

#include "experiments/lab/data/readers.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

std::string number(std::uint32_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 255);
  return out;
}

std::string idx(const std::vector<std::uint32_t>& dimensions, const std::string& values, char type = 8) {
  std::string out{0, 0, type, static_cast<char>(dimensions.size())};
  for (const std::uint32_t d : dimensions) out += number(d);
  return out + values;
}

std::string pixels(int images) {
  std::string out;
  for (int i = 0; i < images * 6; ++i) out += static_cast<char>(i);
  return out;
}

struct Folder : TempFolder {
  Folder() {
    write_file(*this / "train-images-idx3-ubyte", idx({4, 2, 3}, pixels(4)));
    write_file(*this / "train-labels-idx1-ubyte", idx({4}, std::string{1, 0, 2, 9}));
    write_file(*this / "t10k-images-idx3-ubyte", idx({1, 2, 3}, pixels(1)));
    write_file(*this / "t10k-labels-idx1-ubyte", idx({1}, std::string{3}));
  }
  ImageSet read(const std::string& slice, const std::string& dataset = "mnist") const {
    return read_idx(path(), request_for(slice, 1, dataset));
  }
  std::string said(const std::string& images) const {
    write_file(*this / "train-images-idx3-ubyte", images);
    return input_error([&] { read("train"); });
  }
};

/// The same with gzipped files of training images.
struct Gzipped : Folder {
  Gzipped() {
    for (const std::string kind : {"images-idx3", "labels-idx1"}) {
      const std::string name = "train-" + kind + "-ubyte", content = read_file(*this / name);
      write_file(*this / (name + ".gz"), gzip(content));
      std::filesystem::remove(*this / name);
    }
  }
};

}  // namespace

TEST_CASE("idx: images have one channel and their pixels in order") {
  const ImageSet images = Folder().read("train");
  CHECK(images.channels == 1);
  CHECK(images.height == 2);
  CHECK(images.width == 3);
  CHECK(images.pixels == std::vector<std::uint8_t>{0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                                   12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
}

TEST_CASE("idx: each split has its own labels") {
  const Folder folder;
  CHECK(folder.read("train").labels == std::vector<std::int32_t>{1, 0, 2, 9});
  CHECK(folder.read("test").labels == std::vector<std::int32_t>{3});
}

TEST_CASE("idx: a key names split and image") { CHECK(Folder().read("train").keys[3] == "train/000003"); }

TEST_CASE("idx: a slice is a part of the images") { CHECK(Folder().read("train[:2]").size() == 2); }

TEST_CASE("idx: known datasets have their class names") {
  const Folder folder;
  CHECK(folder.read("train").class_names == std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
  CHECK(folder.read("test", "fashion_mnist").class_names[9] == "Ankle boot");
  CHECK(folder.read("test", "kmnist").class_names[1] == "ki");
}

TEST_CASE("idx: other datasets take their class names from classes.txt") {
  const Folder folder;
  CHECK_SAYS(input_error([&] { folder.read("train", "mine"); }), "classes.txt: cannot be read");
  write_file(folder / "classes.txt", "a\nb\nc\nd\n");
  CHECK(folder.read("test", "mine").class_names == std::vector<std::string>{"a", "b", "c", "d"});
}

TEST_CASE("idx: a label beyond the classes is refused with its byte") {
  const Folder folder;
  write_file(folder / "classes.txt", "a\nb\nc\nd\n");
  CHECK_SAYS(input_error([&] { folder.read("train", "mine"); }), "byte 11: label 9 of image 3 is not below 4");
}

TEST_CASE("idx: gzipped files are read") {
  const Folder plain;
  const Gzipped folder;
  CHECK(folder.read("train").pixels == plain.read("train").pixels);
}

TEST_CASE("idx: file names with a dot are read") {
  const Folder plain;
  const Gzipped folder;
  std::filesystem::rename(folder / "train-labels-idx1-ubyte.gz", folder / "train-labels.idx1-ubyte.gz");
  CHECK(folder.read("train").labels == plain.read("train").labels);
}

TEST_CASE("idx: a damaged gzip is refused by its name") {
  const Gzipped folder;
  const std::string packed = read_file(folder / "train-images-idx3-ubyte.gz");
  write_file(folder / "train-images-idx3-ubyte.gz", packed.substr(0, packed.size() - 9));
  CHECK_SAYS(input_error([&] { folder.read("train"); }), "train-images-idx3-ubyte.gz: ");
  write_file(folder / "train-images-idx3-ubyte.gz", idx({4, 2, 3}, pixels(4)));
  CHECK_SAYS(input_error([&] { folder.read("train"); }), "is not a gzip");
}

TEST_CASE("idx: a gzip with another checksum is refused") {
  const Gzipped folder;
  for (const char* kind : {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"}) {
    const std::string packed = read_file(folder / kind);
    std::string damaged = packed;
    damaged[packed.size() - 5] ^= 1;
    write_file(folder / kind, damaged);
    CHECK_SAYS(input_error([&] { folder.read("train"); }), concat(kind, ": after "));
    CHECK_SAYS(input_error([&] { folder.read("train"); }),
               " unpacked bytes: incorrect data check; the file is damaged");
    write_file(folder / kind, packed);
  }
}

TEST_CASE("idx: hostile headers are refused with their byte") {
  const Folder folder;
  CHECK_SAYS(folder.said(""), "byte 0: the file ends within its magic number");
  CHECK_SAYS(folder.said("\1\2\3\4"), "byte 0: this is not an IDX file");
  CHECK_SAYS(folder.said(idx({4, 2, 3}, pixels(4), 0x0d)), "byte 2: values have type 13");
  CHECK_SAYS(folder.said(std::string{0, 0, 8, 0}), "byte 3: 0 dimensions");
  CHECK_SAYS(folder.said(std::string{0, 0, 8, 127}), "byte 3: 127 dimensions");
  CHECK_SAYS(folder.said(idx({4, 2, 3}, "").substr(0, 14)), "byte 14: the file ends within its dimensions");
  CHECK_SAYS(folder.said(idx({4, 0, 3}, "")), "byte 8: a dimension is 0");
  CHECK_SAYS(folder.said(idx({0xffffffff, 0xffffffff, 0xffffffff}, "x")),
             "byte 8: the dimensions exceed any file size");
  CHECK_SAYS(folder.said(idx({0x10000, 0x10000, 0x10000}, "x")),
             "byte 16: its dimensions require 281474976710656 bytes, but 1 follow");
  CHECK_SAYS(folder.said(idx({4, 2, 3}, pixels(3))), "its dimensions require 24 bytes, but 18 follow");
  CHECK_SAYS(folder.said(idx({4, 2, 3}, pixels(5))), "24 bytes, but 30 follow");
  CHECK_SAYS(folder.said(idx({24}, pixels(4))), "byte 3: has 1 dimensions, expected 3");
  CHECK_SAYS(folder.said(idx({3, 2, 3}, pixels(3))), "4 labels for the 3 images");
  CHECK_SAYS(folder.said(idx({4, 1, 5000}, std::string(20000, 'x'))), "images of 5000x1 pixels");
}

TEST_CASE("idx: a missing file is named") {
  const Folder folder;
  std::filesystem::remove(folder / "train-images-idx3-ubyte");
  CHECK_SAYS(input_error([&] { folder.read("train"); }), "train-images-idx3-ubyte: not found");
}

TEST_CASE("idx: an unknown split is refused") {
  const Folder folder;
  CHECK_SAYS(input_error([&] { folder.read("val"); }), "the splits of IDX files are \"train\" and \"test\"");
}

TEST_CASE("idx: a gzip is unpacked no further than its header states") {
  const Folder folder;
  std::filesystem::remove(folder / "train-images-idx3-ubyte");
  const auto said = [&](const std::string& packed) {
    write_file(folder / "train-images-idx3-ubyte.gz", packed);
    return input_error_within(64, [&] { folder.read("train"); });
  };
  const std::string zeros = gzip_of_zeros(2000);
  CHECK_SAYS(said(gzip(idx({4, 28, 28}, "")) + zeros),
             "train-images-idx3-ubyte.gz: byte 16: its dimensions require 3136 bytes, but more follow");
  CHECK_SAYS(said(gzip(idx({32000, 256, 256}, "")) + zeros),
             "byte 4: its dimensions require 2097152000 bytes; the limit for unpacking is 256 MiB or 100 times the "
             "packed file. If this is intended, unpack it with gunzip");
  CHECK_SAYS(said(gzip(idx({4, 2, 3}, pixels(4)) + "and more")), "require 24 bytes, but more follow");
  CHECK_SAYS(said(gzip(idx({4, 2, 3}, pixels(3)))), "require 24 bytes, but 18 follow");
}

TEST_CASE("idx: labels may count from 1") {
  const Folder folder;
  write_file(folder / "classes.txt", "a\nb\n");
  write_file(folder / "train-labels-idx1-ubyte", idx({4}, std::string{1, 2, 2, 1}));
  SliceRequest request = request_for("train", 1, "mine");
  CHECK_SAYS(
      input_error([&] { read_idx(folder.path(), request); }),
      "label 2 of image 1 is not below 2, the number of classes; if labels count from 1, set \"labels_from\": 1");
  request.numbers.from = 1;
  CHECK(read_idx(folder.path(), request).labels == std::vector<std::int32_t>{0, 1, 1, 0});
  write_file(folder / "train-labels-idx1-ubyte", idx({4}, std::string("\1\0\2\1", 4)));
  CHECK_SAYS(input_error([&] { read_idx(folder.path(), request); }), "label 0 of image 1 is not from 1 to 2");
}
