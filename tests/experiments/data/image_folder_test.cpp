#include <sys/stat.h>
#include <algorithm>

#include "experiments/data/readers.h"
#include "tests/experiments/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

namespace fs = std::filesystem;

/// Classes "10", "2" and "b" (in byte order), images of several sizes; "b" has a folder within.
struct Folder : TempFolder {
  Folder() {
    for (const char* split : {"train", "val"}) {
      const fs::path at = *this / split;
      write_file(at / "2" / "x.JPEG", make_jpeg(8, 12, 1));
      write_file(at / "10" / "a.png", make_png(5, 6, 2));
      write_file(at / "b" / "deep" / "y.jpg", make_jpeg(9, 9, 3));
      write_file(at / "b" / "z.Jpg", make_jpeg(4, 4, 4, JpegKind::gray));
      write_file(at / ".cache", "passed over");
    }
  }
  ImageSet read(const std::string& slice, int threads = 1) const {
    return read_image_folder(path(), request_for(slice, threads));
  }
  std::string said(const std::string& slice = "train") const {
    return input_error([&] { read(slice); });
  }
};

}  // namespace

TEST_CASE("image_folder: labels are places in byte order, keys are paths, files stay where they are") {
  const Folder folder;
  const ImageSet images = folder.read("train");
  CHECK(images.class_names == std::vector<std::string>{"10", "2", "b"});
  CHECK(images.keys == std::vector<std::string>{"10/a.png", "2/x.JPEG", "b/deep/y.jpg", "b/z.Jpg"});
  CHECK(images.labels == std::vector<std::int32_t>{0, 1, 2, 2});
  REQUIRE(images.encoded);
  CHECK(images.shards.empty());
  CHECK(images.encoded->where(2) == (folder / "train/b/deep/y.jpg").string());
  std::vector<std::uint8_t> bytes;
  images.encoded->read(2, bytes);
  CHECK(std::string(bytes.begin(), bytes.end()) == read_file(folder / "train/b/deep/y.jpg"));
  CHECK(images.hash == folder.read("train", 3).hash);
  CHECK(folder.read("train[:2]").size() == 2);
}

TEST_CASE("image_folder: images of one size are decoded at once") {
  const TempFolder folder;
  for (unsigned i = 0; i < 5; ++i) write_file(folder / concat("a/", i, ".png"), make_png(3, 4, i));
  const ImageSet images = read_image_folder(folder.path(), request_for("train", 2));
  CHECK_FALSE(images.encoded);
  CHECK(images.height == 3);
  CHECK(images.width == 4);
  for (std::int64_t i = 0; i < 5; ++i) CHECK(images.image(i)[35] == 37 * i);
}

TEST_CASE("image_folder: the hash sees names, labels and sizes of files") {
  const Folder folder;
  const std::string before = folder.read("train").hash;
  write_file(folder / "train/2/x.JPEG", make_jpeg(30, 30, 1));
  const std::string longer = folder.read("train").hash;
  CHECK(longer != before);
  fs::rename(folder / "train/2/x.JPEG", folder / "train/2/w.JPEG");
  CHECK(folder.read("train").hash != longer);
  const ImageSet images = folder.read("train");
  const std::string content = encoded_content_hash(images);
  std::string bytes = read_file(folder / "train/b/deep/y.jpg");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file(folder / "train/b/deep/y.jpg", bytes);
  CHECK(folder.read("train").hash == images.hash);
  CHECK(encoded_content_hash(images) != content);
}

TEST_CASE("image_folder: splits lie beside each other, or a folder is one split") {
  const Folder folder;
  CHECK(image_folder_splits(folder.path()) == std::vector<std::string>{"train", "val"});
  CHECK_SAYS(folder.said("test"), "has no split \"test\"; it has train, val");
  const TempFolder flat;
  write_file(flat / "cat" / "1.jpg", make_jpeg(8, 8, 1));
  CHECK(read_image_folder(flat.path(), request_for("train")).size() == 1);
  CHECK_SAYS(input_error([&] { read_image_folder(flat.path(), request_for("test")); }),
             "its folders are the classes of one split, \"train\"");
}

TEST_CASE("image_folder: evaluation takes the classes of the training split") {
  const Folder folder;
  SliceRequest request = request_for("val");
  request.class_names = {"10", "2", "b", "c"};
  fs::remove_all(folder / "val/10");
  CHECK(read_image_folder(folder.path(), request).labels == std::vector<std::int32_t>{1, 2, 2});
  request.class_names = {"10", "2"};
  CHECK_SAYS(input_error([&] { read_image_folder(folder.path(), request); }),
             "val/b: the training split has no class of this name");
}

TEST_CASE("image_folder: all files that do not belong there are named at once, up to ten and a count") {
  const Folder folder;
  const std::string train = (folder / "train/").string();
  write_file(folder / "train/list.txt", "x");
  write_file(folder / "train/2/notes.txt", "x");
  write_file(folder / "train/b/x.webp", "x");
  CHECK(folder.said() == train + "list.txt: expected one folder per class here, with the images in it\n" + train +
                             "2/notes.txt: is not an image (.jpg, .jpeg or .png); move it out of the folder\n" + train +
                             "b/x.webp: this image format is not supported; convert it to JPEG or PNG");
  for (int i = 0; i < 9; ++i) write_file(folder / concat("train/2/note", i), "x");
  const std::string said = folder.said();
  CHECK_SAYS(said, "\n... and 2 more");
  CHECK(std::count(said.begin(), said.end(), '\n') == 10);
}

TEST_CASE("image_folder: what is no class folder of images is refused by name") {
  const Folder folder;
  write_file(folder / "train/2/notes.txt", "x");
  CHECK_SAYS(folder.said(), "train/2/notes.txt: is not an image");
  fs::rename(folder / "train/2/notes.txt", folder / "train/2/x.webp");
  CHECK_SAYS(folder.said(), "train/2/x.webp: this image format is not supported; convert it");
  fs::rename(folder / "train/2/x.webp", folder / "train/list.txt");
  CHECK_SAYS(folder.said(), "train/list.txt: expected one folder per class here");
  fs::remove(folder / "train/list.txt");
  fs::create_directory(folder / "train/empty");
  CHECK_SAYS(folder.said(), "train/empty: this class has no images");
  fs::remove(folder / "train/empty");
  fs::create_directory_symlink(folder / "train/b", folder / "train/b/deep/again");
  CHECK_SAYS(folder.said(), "train/b/deep/again: this link leads back");
  fs::remove(folder / "train/b/deep/again");
  fs::create_symlink("nowhere.jpg", folder / "train/b/gone.jpg");
  CHECK_SAYS(folder.said(), "train/b/gone.jpg: the target of this link does not exist");
  fs::remove(folder / "train/b/gone.jpg");
  fs::create_symlink(folder / "train/2/x.JPEG", folder / "train/b/linked.jpg");
  CHECK(folder.read("train").size() == 5);
  REQUIRE(mkfifo((folder / "train/b/pipe.jpg").c_str(), 0600) == 0);
  CHECK_SAYS(folder.said(), "train/b/pipe.jpg: is neither a file nor a folder");
  fs::remove(folder / "train/b/pipe.jpg");
  write_file(folder / "val/val_annotations.txt", "x");
  CHECK_SAYS(folder.said("val"), "it is the val folder of tiny-imagenet-200");
  const TempFolder nothing;
  CHECK_SAYS(input_error([&] { read_image_folder(nothing.path(), request_for("train")); }), "holds no class folder");
}

TEST_CASE("image_folder: a file that changes or goes after it was listed is an error when it is read") {
  const Folder folder;
  const ImageSet images = folder.read("train");
  std::vector<std::uint8_t> bytes;
  fs::resize_file(folder / "train/2/x.JPEG", 10);
  CHECK_SAYS(input_error([&] { images.encoded->read(1, bytes); }), "x.JPEG: ends after 10 of ");
  fs::remove(folder / "train/2/x.JPEG");
  CHECK_SAYS(input_error([&] { images.encoded->read(1, bytes); }), "x.JPEG: cannot be opened");
}

TEST_CASE("image_folder: bad images end the reading or are left out, named, the same for any number of threads") {
  for (const bool one_size : {true, false}) {
    CAPTURE(one_size);
    const TempFolder folder;
    for (unsigned i = 0; i < 200; ++i) {
      const std::string good = make_jpeg(8, one_size || i % 2 == 0 ? 8 : 12, i);
      const bool bad = i == 50 || i == 150;
      write_file(folder / concat("a/", 1000 + i, ".jpg"), bad ? good.substr(0, good.size() - 40) : good);
    }
    write_file(folder / "a/0000.jpg", "");  // not even a header, the first of all
    SliceRequest request = request_for("train", 3);
    CHECK_SAYS(input_error([&] { read_image_folder(folder.path(), request); }), "a/0000.jpg: ");
    request.skip_bad = true;
    const ImageSet images = read_image_folder(folder.path(), request);
    CHECK(images.size() == 198);
    CHECK(bool(images.encoded) != one_size);
    REQUIRE(images.bad_images.size() == 3);
    CHECK(images.bad_images[0].key == "a/0000.jpg");
    CHECK(images.bad_images[1].key == "a/1050.jpg");
    CHECK(images.bad_images[2].key == "a/1150.jpg");
    CHECK_SAYS(images.bad_images[1].reason, "a/1050.jpg: ");
    CHECK(images.keys[50] == "a/1051.jpg");
    CHECK_SAYS(images.provenance, "3 bad ones left out");
    if (one_size) {
      CHECK(images.pixels.size() == 198 * 192);
      const ImageSet good = read_image_folder(folder.path(), [&] {
        SliceRequest again = request;
        again.threads = 1;
        return again;
      }());
      CHECK(good.pixels == images.pixels);
      CHECK(std::abs(images.image(197)[0] - 199 * 37 % 256) <= 6);
    } else {
      std::vector<std::uint8_t> bytes;
      images.encoded->read(50, bytes);
      CHECK(std::string(bytes.begin(), bytes.end()) == read_file(folder / "a/1051.jpg"));
    }
    request.slice = parse_slice("train[:1]");
    fs::remove_all(folder / "a");
    write_file(folder / "a/1.jpg", "no");
    CHECK_SAYS(input_error([&] { read_image_folder(folder.path(), request); }), "all 1 images of the slice are bad");
  }
}
