#include <sys/stat.h>
#include <algorithm>

#include "experiments/lab/data/readers.h"
#include "tests/lab/data/deep_png.h"
#include "tests/lab/data/fixtures.h"

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

/// 201 images, of one or two sizes. Two are cut short, and the first is empty.
struct BadImages : TempFolder {
  explicit BadImages(bool one_size) {
    for (unsigned i = 0; i < 200; ++i) {
      const std::string good = make_jpeg(8, one_size || i % 2 == 0 ? 8 : 12, i);
      const bool bad = i == 50 || i == 150;
      write_file(*this / concat("a/", 1000 + i, ".jpg"), bad ? good.substr(0, good.size() - 40) : good);
    }
    write_file(*this / "a/0000.jpg", "");
  }
  ImageSet read(int threads, bool skip_bad = true) const {
    SliceRequest request = request_for("train", threads);
    request.skip_bad = skip_bad;
    return read_image_folder(path(), request);
  }
};

}  // namespace

TEST_CASE("image_folder: classes are numbered in the byte order of their names") {
  const ImageSet images = Folder().read("train");
  CHECK(images.class_names == std::vector<std::string>{"10", "2", "b"});
  CHECK(images.labels == std::vector<std::int32_t>{0, 1, 2, 2});
}

TEST_CASE("image_folder: keys are paths below the split") {
  CHECK(Folder().read("train").keys == std::vector<std::string>{"10/a.png", "2/x.JPEG", "b/deep/y.jpg", "b/z.Jpg"});
}

TEST_CASE("image_folder: images of several sizes stay in their files") {
  const Folder folder;
  const ImageSet images = folder.read("train");
  REQUIRE(images.encoded);
  CHECK(images.shards.empty());
  CHECK(images.encoded->where(2) == (folder / "train/b/deep/y.jpg").string());
  std::vector<std::uint8_t> bytes;
  images.encoded->read(2, bytes);
  CHECK(std::string(bytes.begin(), bytes.end()) == read_file(folder / "train/b/deep/y.jpg"));
}

TEST_CASE("image_folder: the hash is the same for any number of threads") {
  const Folder folder;
  CHECK(folder.read("train").hash == folder.read("train", 3).hash);
}

TEST_CASE("image_folder: a slice is a part of the images") { CHECK(Folder().read("train[:2]").size() == 2); }

TEST_CASE("image_folder: images of one size are decoded at once") {
  const TempFolder folder;
  for (unsigned i = 0; i < 5; ++i) write_file(folder / concat("a/", i, ".png"), make_png(3, 4, i));
  const ImageSet images = read_image_folder(folder.path(), request_for("train", 2));
  CHECK_FALSE(images.encoded);
  CHECK(images.height == 3);
  CHECK(images.width == 4);
  for (std::int64_t i = 0; i < 5; ++i) CHECK(images.image(i)[35] == 37 * i);
}

TEST_CASE("image_folder: a file of another size changes the hash") {
  const Folder folder;
  const std::string before = folder.read("train").hash;
  write_file(folder / "train/2/x.JPEG", make_jpeg(30, 30, 1));
  CHECK(folder.read("train").hash != before);
}

TEST_CASE("image_folder: another file name changes the hash") {
  const Folder folder;
  const std::string before = folder.read("train").hash;
  fs::rename(folder / "train/2/x.JPEG", folder / "train/2/w.JPEG");
  CHECK(folder.read("train").hash != before);
}

TEST_CASE("image_folder: other bytes of the same size change the hash of contents alone") {
  const Folder folder;
  const ImageSet images = folder.read("train");
  const std::string content = encoded_content_hash(images);
  std::string bytes = read_file(folder / "train/b/deep/y.jpg");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file(folder / "train/b/deep/y.jpg", bytes);
  CHECK(folder.read("train").hash == images.hash);
  CHECK(encoded_content_hash(images) != content);
}

TEST_CASE("image_folder: splits are folders beside each other") {
  const Folder folder;
  CHECK(image_folder_splits(folder.path()) == std::vector<std::string>{"train", "val"});
  CHECK_SAYS(folder.said("test"), "has no split \"test\"; it has train, val");
}

TEST_CASE("image_folder: a folder of classes is the split train") {
  const TempFolder flat;
  write_file(flat / "cat" / "1.jpg", make_jpeg(8, 8, 1));
  CHECK(read_image_folder(flat.path(), request_for("train")).size() == 1);
  CHECK_SAYS(input_error([&] { read_image_folder(flat.path(), request_for("test")); }),
             "its folders are the classes of one split, \"train\"");
}

TEST_CASE("image_folder: common names of the validation split are splits") {
  for (const char* split : {"valid", "validation", "dev"}) {
    const Folder folder;
    fs::rename(folder / "val", folder / split);
    CHECK(image_folder_splits(folder.path()) == std::vector<std::string>{"train", split});
    CHECK(folder.read(split).size() == 4);
  }
}

TEST_CASE("image_folder: splits have many names, in any letter case") {
  for (const auto& [train, eval] : {std::pair("Training", "Testing"),
                                    {"Train", "Val"},
                                    {"TRAIN", "TEST"},
                                    {"seg_train", "seg_test"},
                                    {"training_set", "test_set"},
                                    {"train", "Evaluation"}}) {
    const auto& shown = train;
    CAPTURE(shown);
    const Folder folder;
    if (std::string(train) != "train") fs::rename(folder / "train", folder / train);
    fs::rename(folder / "val", folder / eval);
    CHECK(image_folder_splits(folder.path()) == std::vector<std::string>{train, eval});
    CHECK(folder.read(train).keys == Folder().read("train").keys);
    CHECK(folder.read(train).hash == Folder().read("train").hash);
    CHECK(folder.read(eval).size() == 4);
    const std::string error = concat("has no split \"train\"; it has ", train, ", ", eval, "; name one of them");
    if (std::string(train) != "train") CHECK_SAYS(folder.said(), error);
  }
}

TEST_CASE("image_folder: a name that is a class's or a split's is refused where no folder holds folders") {
  const TempFolder vehicles;
  for (const char* name : {"Bus", "Car", "Train"}) write_file(vehicles / name / "1.png", make_png(4, 4, 1));
  const auto said = [&] { return input_error([&] { read_image_folder(vehicles.path(), request_for("train")); }); };
  CHECK_SAYS(said(), "Train: is a split or a class? It holds no folders of classes");
  fs::create_directory(vehicles / "train");
  for (const char* name : {"Bus", "Car", "Train"}) fs::rename(vehicles / name, vehicles / "train" / name);
  CHECK(read_image_folder(vehicles.path(), request_for("train")).class_names.size() == 3);
}

TEST_CASE("image_folder: folders that all hold the same folders are splits") {
  const TempFolder folder;
  for (const char* name : {"2019/cat", "2019/dog", "2019/fox", "2020/cat", "2020/dog"})
    write_file(folder / name / "1.png", make_png(4, 4, 1));
  CHECK(image_folder_splits(folder.path()) == std::vector<std::string>{"2019", "2020"});
  CHECK(read_image_folder(folder.path(), request_for("2019")).class_names.size() == 3);
  CHECK_SAYS(
      input_error([&] { read_image_folder(folder.path(), request_for("train[:80%]")); }),
      "has no split \"train\"; it has 2019, 2020; name one of them in dataset.train and dataset.eval, since they "
      "all hold the same folders (if they are the classes, put them into a folder train)");
  // Folders of a class are no splits if they differ, or if images lie beside them.
  write_file(folder / "2020" / "owl" / "1.png", make_png(4, 4, 1));
  CHECK(image_folder_splits(folder.path()) == std::vector<std::string>{"train"});
  fs::remove_all(folder / "2020" / "owl");
  write_file(folder / "2020" / "1.png", make_png(4, 4, 1));
  CHECK(read_image_folder(folder.path(), request_for("train")).class_names.size() == 2);
}

TEST_CASE("image_folder: a split within a folder of its own name is found") {
  const Folder folder;
  fs::create_directory(folder / "seg_train");
  fs::rename(folder / "train", folder / "seg_train" / "seg_train");
  fs::rename(folder / "val", folder / "seg_test");
  CHECK(folder.read("seg_train").keys == Folder().read("train").keys);
}

TEST_CASE("image_folder: 16-bit grayscale images that stay in files are told by the hash") {
  const auto hash = [](const std::string& name, int depth, int colors) {
    const TempFolder folder;
    for (const char* size : {"one", "two"})
      write_file(folder / "a" / concat(size, name), make_deep_png(size[0] == 'o' ? 4 : 5, 4, depth, colors, 700));
    const ImageSet images = read_image_folder(folder.path(), request_for("train"));
    REQUIRE(images.encoded);
    const bool gray16 = depth == 16 && colors == 0;
    CHECK(images.gray16 == (gray16 ? std::vector<std::int64_t>{0, 1} : std::vector<std::int64_t>{}));
    CHECK((images.provenance.find("2 of 16-bit grayscale (upper byte)") != std::string::npos) == gray16);
    SetHash plain;  // as it was without regard to the depth
    plain.text("encoded");
    for (const std::int64_t n : {2, 3, 1}) plain.number(n);
    plain.text("a");
    for (std::int64_t i = 0; i < 2; ++i) {
      plain.text(images.key(i));
      plain.number(0);
      plain.number(std::int64_t(fs::file_size(images.encoded->where(i))));
    }
    const bool same = images.hash == plain.hex();
    CHECK(same == !gray16);
  };
  hash(".png", 16, 0);
  hash(".JPG", 16, 0);  // content counts, not names
  hash(".png", 16, 2);
  hash(".png", 16, 4);
  hash(".png", 8, 0);
}

TEST_CASE("image_folder: files about the folder may lie beside the folders of classes") {
  const Folder folder;
  for (const char* name : {"README.md", "LICENSE", "citation.cff"}) write_file(folder / "train" / name, "x");
  CHECK(folder.read("train").size() == 4);
  write_file(folder / "train/2/README.md", "x");
  CHECK_SAYS(folder.said(), "train/2/README.md: is not an image");
}

TEST_CASE("image_folder: evaluation labels are places in the classes of training") {
  const Folder folder;
  SliceRequest request = request_for("val");
  request.class_names = {"10", "2", "b", "c"};
  fs::remove_all(folder / "val/10");
  CHECK(read_image_folder(folder.path(), request).labels == std::vector<std::int32_t>{1, 2, 2});
}

TEST_CASE("image_folder: a class that training lacks is refused") {
  const Folder folder;
  SliceRequest request = request_for("val");
  fs::remove_all(folder / "val/10");
  request.class_names = {"10", "2"};
  CHECK_SAYS(input_error([&] { read_image_folder(folder.path(), request); }),
             "val/b: the training split has no class of this name");
}

TEST_CASE("image_folder: foreign files are named all at once") {
  const Folder folder;
  const std::string train = (folder / "train/").string();
  write_file(folder / "train/list.txt", "x");
  write_file(folder / "train/2/notes.txt", "x");
  write_file(folder / "train/b/x.webp", "x");
  CHECK(folder.said() == train + "list.txt: expected one folder per class here, with the images in it\n" + train +
                             "2/notes.txt: is not an image (.jpg, .jpeg or .png); move it out of the folder\n" + train +
                             "b/x.webp: this image format is not supported; convert it to JPEG or PNG");
}

TEST_CASE("image_folder: foreign files beyond ten are counted") {
  const Folder folder;
  for (const char* name : {"list.txt", "2/notes.txt", "b/x.webp"}) write_file(folder / concat("train/", name), "x");
  for (int i = 0; i < 9; ++i) write_file(folder / concat("train/2/note", i), "x");
  const std::string said = folder.said();
  CHECK_SAYS(said, "\n... and 2 more");
  CHECK(std::count(said.begin(), said.end(), '\n') == 10);
}

TEST_CASE("image_folder: files of other formats are refused by name") {
  const Folder folder;
  write_file(folder / "train/2/notes.txt", "x");
  CHECK_SAYS(folder.said(), "train/2/notes.txt: is not an image");
  fs::rename(folder / "train/2/notes.txt", folder / "train/2/x.webp");
  CHECK_SAYS(folder.said(), "train/2/x.webp: this image format is not supported; convert it");
  fs::rename(folder / "train/2/x.webp", folder / "train/list.txt");
  CHECK_SAYS(folder.said(), "train/list.txt: expected one folder per class here");
}

TEST_CASE("image_folder: a class without images is refused by name") {
  const Folder folder;
  fs::create_directory(folder / "train/empty");
  CHECK_SAYS(folder.said(), "train/empty: this class has no images");
}

TEST_CASE("image_folder: links that lead back or nowhere are refused by name") {
  const Folder folder;
  fs::create_directory_symlink(folder / "train/b", folder / "train/b/deep/again");
  CHECK_SAYS(folder.said(), "train/b/deep/again: this link leads back");
  fs::remove(folder / "train/b/deep/again");
  fs::create_symlink("nowhere.jpg", folder / "train/b/gone.jpg");
  CHECK_SAYS(folder.said(), "train/b/gone.jpg: the target of this link does not exist");
}

TEST_CASE("image_folder: a link to an image is an image") {
  const Folder folder;
  fs::create_symlink(folder / "train/2/x.JPEG", folder / "train/b/linked.jpg");
  CHECK(folder.read("train").size() == 5);
}

TEST_CASE("image_folder: a pipe is refused by name") {
  const Folder folder;
  REQUIRE(mkfifo((folder / "train/b/pipe.jpg").c_str(), 0600) == 0);
  CHECK_SAYS(folder.said(), "train/b/pipe.jpg: is neither a file nor a folder");
}

TEST_CASE("image_folder: the val folder of tiny-imagenet-200 is recognised") {
  const Folder folder;
  write_file(folder / "val/val_annotations.txt", "x");
  CHECK_SAYS(folder.said("val"), "it is the val folder of tiny-imagenet-200");
}

TEST_CASE("image_folder: an empty folder holds no classes") {
  const TempFolder nothing;
  CHECK_SAYS(input_error([&] { read_image_folder(nothing.path(), request_for("train")); }), "holds no class folder");
}

TEST_CASE("image_folder: a file that shrinks after listing is an error when read") {
  const Folder folder;
  const ImageSet images = folder.read("train");
  std::vector<std::uint8_t> bytes;
  fs::resize_file(folder / "train/2/x.JPEG", 10);
  CHECK_SAYS(input_error([&] { images.encoded->read(1, bytes); }), "x.JPEG: ends after 10 of ");
}

TEST_CASE("image_folder: a file that is removed after listing is an error when read") {
  const Folder folder;
  const ImageSet images = folder.read("train");
  std::vector<std::uint8_t> bytes;
  fs::remove(folder / "train/2/x.JPEG");
  CHECK_SAYS(input_error([&] { images.encoded->read(1, bytes); }), "x.JPEG: cannot be opened");
}

TEST_CASE("image_folder: the first bad image ends the reading") {
  for (const bool one_size : {true, false}) {
    CAPTURE(one_size);
    const BadImages folder(one_size);
    CHECK_SAYS(input_error([&] { folder.read(3, false); }), "a/0000.jpg: ");
  }
}

TEST_CASE("image_folder: bad images that are left out are named") {
  for (const bool one_size : {true, false}) {
    CAPTURE(one_size);
    const BadImages folder(one_size);
    const ImageSet images = folder.read(3);
    CHECK(images.size() == 198);
    CHECK(bool(images.encoded) != one_size);
    REQUIRE(images.bad_images.size() == 3);
    CHECK(images.bad_images[0].key == "a/0000.jpg");
    CHECK(images.bad_images[1].key == "a/1050.jpg");
    CHECK(images.bad_images[2].key == "a/1150.jpg");
    CHECK_SAYS(images.bad_images[1].reason, "a/1050.jpg: ");
    CHECK_SAYS(images.provenance, "3 bad ones left out");
  }
}

TEST_CASE("image_folder: images after bad ones keep their keys and contents") {
  {
    const ImageSet images = BadImages(true).read(3);
    CHECK(images.keys[50] == "a/1051.jpg");
    CHECK(images.pixels.size() == 198 * 192);
    CHECK(std::abs(images.image(197)[0] - 199 * 37 % 256) <= 6);
  }
  const BadImages folder(false);
  const ImageSet images = folder.read(3);
  CHECK(images.keys[50] == "a/1051.jpg");
  std::vector<std::uint8_t> bytes;
  images.encoded->read(50, bytes);
  CHECK(std::string(bytes.begin(), bytes.end()) == read_file(folder / "a/1051.jpg"));
}

TEST_CASE("image_folder: images beside bad ones are the same for any number of threads") {
  const BadImages folder(true);
  CHECK(folder.read(1).pixels == folder.read(3).pixels);
}

TEST_CASE("image_folder: a slice of bad images alone is an error") {
  const TempFolder folder;
  write_file(folder / "a/1.jpg", "no");
  SliceRequest request = request_for("train[:1]", 3);
  request.skip_bad = true;
  CHECK_SAYS(input_error([&] { read_image_folder(folder.path(), request); }), "all 1 images of the slice are bad");
}
