#include "experiments/lab/data/pack.h"

#include <algorithm>
#include <cmath>

#include "experiments/lab/data/archive.h"
#include "experiments/lab/data/decode.h"
#include "experiments/lab/data/jpeg.h"
#include "experiments/lab/data/measure.h"
#include "experiments/lab/data/readers.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

ImageSet read_encoded(const std::filesystem::path& folder) {
  SliceRequest request = request_for("train", 2);
  request.keep_encoded = true;
  return read_image_folder(folder, request);
}

/// An image whose levels slope.
Image sloping() {
  Image image;
  image.resize(16, 24);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<std::uint8_t>(i % 72 * 3);
  return image;
}

struct Folder : TempFolder {
  Folder() {
    write_file(*this / "in/cat/a.jpg", make_jpeg(20, 30, 1));
    write_file(*this / "in/cat/b.png", make_png(20, 10, 2));
    write_file(*this / "in/dog/c.jpeg", make_jpeg(8, 8, 3));
  }
  /// Packs "in" as the split "train" of "out".
  PackReport pack() const {
    return pack_images(read_encoded(*this / "in"), "train", *this / "out", {.size = 10, .shard_size = 2, .threads = 2});
  }
};

/// Three images of several sizes and a bad one.
struct Measured : TempFolder {
  Measured() {
    write_file(*this / "a/1.png", make_png(2, 3, 1));  // 37
    write_file(*this / "a/2.png", make_png(4, 3, 2));  // 74
    write_file(*this / "b/3.png", make_png(6, 9, 0));
    write_file(*this / "b/4.png", "no image");
  }
  ImageMeasures measure(int threads) const { return measure_images(read_encoded(path()), threads); }
};

}  // namespace

TEST_CASE("jpeg: an image that is encoded comes back nearly the same") {
  const Image image = sloping();
  const std::vector<std::uint8_t> high = encode_jpeg(image, 100);
  Image back;
  decode_image(high, "x", back);
  REQUIRE(back.height == 16);
  REQUIRE(back.width == 24);
  for (std::size_t i = 1; i < image.pixels.size(); i += 3) CHECK(std::abs(back.pixels[i] - image.pixels[i]) < 8);
}

TEST_CASE("jpeg: a lower quality takes fewer bytes") {
  CHECK(encode_jpeg(sloping(), 5).size() < encode_jpeg(sloping(), 100).size());
}

TEST_CASE("jpeg: equal images give equal bytes") { CHECK(encode_jpeg(sloping(), 100) == encode_jpeg(sloping(), 100)); }

TEST_CASE("jpeg: an image without pixels is refused") {
  CHECK_SAYS(input_error([] { encode_jpeg(Image{}, 90); }), "an image of 0x0 pixels cannot be written as a JPEG");
}

TEST_CASE("pack: the report counts what is done") {
  const Folder folder;
  const PackReport report = folder.pack();
  CHECK(report.images == 3);
  CHECK(report.shards == 2);
  CHECK(report.copied == 1);
}

TEST_CASE("pack: images are shrunk to the size, smaller ones keep theirs") {
  const Folder folder;
  folder.pack();
  SliceRequest request = request_for("train");
  const ImageSet packed = read_webdataset(folder / "out", "", request);
  CHECK(packed.class_names == std::vector<std::string>{"cat", "dog"});
  REQUIRE(packed.encoded);
  std::vector<std::string> seen;
  std::vector<std::uint8_t> bytes;
  for (std::int64_t i = 0; i < 3; ++i) {
    packed.encoded->read(i, bytes);
    const ImageSize size = image_file_size(bytes, "x");
    seen.push_back(concat(packed.labels[static_cast<std::size_t>(i)], " ", size.width, "x", size.height));
  }
  std::sort(seen.begin(), seen.end());
  CHECK(seen == std::vector<std::string>{"0 10x20", "0 15x10", "1 8x8"});
}

TEST_CASE("pack: a split that is there already is refused") {
  const Folder folder;
  folder.pack();
  CHECK_SAYS(input_error([&] { pack_images(read_encoded(folder / "in"), "train", folder / "out", {}); }),
             ": exists already");
}

TEST_CASE("pack: a split with other classes is refused") {
  const Folder folder;
  folder.pack();
  ImageSet other = read_encoded(folder / "in");
  other.class_names[0] = "cow";
  CHECK_SAYS(input_error([&] { pack_images(other, "val", folder / "out", {}); }), "with other classes");
}

TEST_CASE("archive: a written tar holds the added members at the places that it reports") {
  const TempFolder folder;
  TarWriter writer(folder / "a.tar");
  const std::string text = "some bytes";
  const std::vector<std::uint8_t> content(text.begin(), text.end()), large(100000, 7);
  writer.add("a.txt", content);
  writer.add("dir/b.bin", large);
  writer.finish();
  const std::string file = read_file(folder / "a.tar");
  std::vector<std::string> names;
  read_tar(
      folder / "a.tar",
      [&](const ArchiveMember& member) {
        names.push_back(member.name);
        CHECK(member.content.empty() == (member.name == "dir/b.bin"));
        CHECK(file.substr(static_cast<std::size_t>(member.data_offset), 10) ==
              (member.name == "a.txt" ? text : std::string(10, '\7')));
        CHECK(member.bytes == (member.name == "a.txt" ? 10 : 100000));
      },
      [](const std::string& name) { return name == "a.txt"; });
  CHECK(names == std::vector<std::string>{"a.txt", "dir/b.bin"});
}

TEST_CASE("archive: a tar in a missing folder cannot be written") {
  const TempFolder folder;
  CHECK_THROWS_WITH_AS(TarWriter(folder / "no" / "a.tar"), doctest::Contains("a.tar: cannot be written: "),
                       EnvironmentError);
}

TEST_CASE("measure: sizes are the least, the middle and the largest") {
  const Measured folder;
  for (const int threads : {1, 3}) {
    const ImageMeasures measures = folder.measure(threads);
    CHECK(measures.images == 3);
    CHECK(measures.height == std::array<std::int64_t, 3>{2, 4, 6});
    CHECK(measures.width == std::array<std::int64_t, 3>{3, 3, 9});
  }
}

TEST_CASE("measure: images are counted by class") {
  const Measured folder;
  for (const int threads : {1, 3}) CHECK(folder.measure(threads).class_counts == std::vector<std::int64_t>{2, 1});
}

TEST_CASE("measure: mean and deviation are those of all pixels") {
  const Measured folder;
  for (const int threads : {1, 3}) {
    const ImageMeasures measures = folder.measure(threads);
    const double mean = (6 * 37 + 12 * 74) / 72.0, square = (6 * 37 * 37 + 12 * 74 * 74) / 72.0;
    CHECK(measures.mean[1] == doctest::Approx(mean / 255));
    CHECK(measures.deviation[2] == doctest::Approx(std::sqrt(square - mean * mean) / 255));
  }
}

TEST_CASE("measure: bad images are named") {
  const Measured folder;
  for (const int threads : {1, 3}) {
    const ImageMeasures measures = folder.measure(threads);
    REQUIRE(measures.bad_images.size() == 1);
    CHECK(measures.bad_images[0].key == "b/4.png");
  }
}
