#include "experiments/lab/data/readers.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

/// A record whose pixels are the place in the plane modulo 100, plus 30 for each channel before theirs.
std::string record(int label) {
  std::string bytes(1, static_cast<char>(label));
  for (int c = 0; c < 3; ++c) {
    for (int p = 0; p < 1024; ++p) bytes += static_cast<char>(c * 30 + p % 100);
  }
  return bytes;
}

struct Folder : TempFolder {
  Folder() {
    for (int b = 1; b <= 5; ++b) write_file(*this / concat("data_batch_", b, ".bin"), record(b) + record(0));
    write_file(*this / "test_batch.bin", record(9));
    write_file(*this / "batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  }
  ImageSet read(const std::string& slice) const { return read_cifar_binary(path(), request_for(slice, 1, "cifar10")); }
};

/// Two images to train on and one for tests, each with a coarse label before its fine one.
struct Cifar100 : TempFolder {
  Cifar100() {
    write_file(*this / "train.bin", std::string(1, 7) + record(2) + std::string(1, 0) + record(1));
    write_file(*this / "test.bin", std::string(1, 9) + record(0));
    write_file(*this / "fine_label_names.txt", "apple\nbear\ncan\n");
  }
  ImageSet read(const std::string& slice) const { return read_cifar_binary(path(), request_for(slice)); }
};

}  // namespace

TEST_CASE("cifar_binary: batches are read in order") {
  const ImageSet images = Folder().read("train");
  CHECK(images.size() == 10);
  CHECK(images.labels == std::vector<std::int32_t>{1, 0, 2, 0, 3, 0, 4, 0, 5, 0});
  CHECK(Folder().read("test").labels == std::vector<std::int32_t>{9});
}

TEST_CASE("cifar_binary: a key names batch and record") {
  CHECK(Folder().read("train").keys[3] == "data_batch_2/000001");
}

TEST_CASE("cifar_binary: class names come from batches.meta.txt") {
  CHECK(Folder().read("train").class_names ==
        std::vector<std::string>{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"});
}

TEST_CASE("cifar_binary: planes become pixels") {
  CHECK(Folder().read("train").image(4)[3 * 33 + 1] == 30 + 33);  // row 1, column 1, green
}

TEST_CASE("cifar_binary: a slice is a part of the images") { CHECK(Folder().read("train[:4]").size() == 4); }

TEST_CASE("cifar_binary: a batch of a wrong size is refused with its size") {
  Folder folder;
  write_file(folder / "data_batch_3.bin", record(1) + record(2).substr(1));
  CHECK_SAYS(input_error([&] { folder.read("train"); }), "data_batch_3.bin: 6145 bytes");
  write_file(folder / "data_batch_3.bin", "");
  CHECK_SAYS(input_error([&] { folder.read("train"); }), "data_batch_3.bin: 0 bytes");
}

TEST_CASE("cifar_binary: a wrong label is refused with file, record and byte") {
  Folder folder;
  write_file(folder / "data_batch_3.bin", record(1) + record(10));
  CHECK_SAYS(input_error([&] { folder.read("train"); }),
             "data_batch_3.bin: record 1, byte 3073: label 10 is not below 10");
}

TEST_CASE("cifar_binary: a missing file is named") {
  Folder folder;
  std::filesystem::remove(folder / "data_batch_3.bin");
  CHECK_SAYS(input_error([&] { folder.read("train"); }), "data_batch_3.bin: cannot be read");
  std::filesystem::remove(folder / "batches.meta.txt");
  CHECK_SAYS(input_error([&] { folder.read("test"); }), "batches.meta.txt: cannot be read");
}

TEST_CASE("cifar_binary: an unknown split is refused") {
  Folder folder;
  CHECK_SAYS(input_error([&] { folder.read("val"); }), "split \"val\"");
}

TEST_CASE("cifar_binary: class names are read up to the last line with text") {
  Folder folder;
  write_file(folder / "c.txt", "a\r\nb\r\n\r\n");
  CHECK(read_class_names(folder / "c.txt") == std::vector<std::string>{"a", "b"});
}

TEST_CASE("cifar_binary: a wrong list of class names is refused") {
  Folder folder;
  write_file(folder / "c.txt", "a\n\nb\n");
  CHECK_SAYS(input_error([&] { read_class_names(folder / "c.txt"); }), "c.txt:2: blank line");
  write_file(folder / "c.txt", "a\nb\na\n");
  CHECK_SAYS(input_error([&] { read_class_names(folder / "c.txt"); }), "c.txt:3: class name \"a\" is listed twice");
  write_file(folder / "c.txt", "\n");
  CHECK_SAYS(input_error([&] { read_class_names(folder / "c.txt"); }), "lists no class");
}

TEST_CASE("cifar_binary: CIFAR-100 is read with its fine labels") {
  const Cifar100 folder;
  const ImageSet images = folder.read("train");
  CHECK(images.labels == std::vector<std::int32_t>{2, 1});
  CHECK(images.keys == std::vector<std::string>{"train/000000", "train/000001"});
  CHECK(images.image(1)[3 * 33 + 1] == 30 + 33);
  CHECK(images.class_names == std::vector<std::string>{"apple", "bear", "can"});
  CHECK(folder.read("test").labels == std::vector<std::int32_t>{0});
}

TEST_CASE("cifar_binary: damaged files of CIFAR-100 are refused") {
  const Cifar100 folder;
  write_file(folder / "test.bin", std::string(1, 0) + record(0) + std::string(1, 1) + record(3));
  CHECK_SAYS(input_error([&] { folder.read("test"); }), "record 1, byte 3075: label 3 is not below 3");
  write_file(folder / "test.bin", record(0));
  CHECK_SAYS(input_error([&] { folder.read("test"); }), "3073 bytes are not a whole number of records of 3074");
}

TEST_CASE("cifar_binary: an unknown split of CIFAR-100 is refused") {
  const Cifar100 folder;
  CHECK_SAYS(input_error([&] { folder.read("val"); }), "the splits of CIFAR-100 are \"train\" and \"test\"");
}
