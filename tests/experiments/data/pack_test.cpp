#include "experiments/data/pack.h"

#include <algorithm>
#include <cmath>

#include "experiments/data/archive.h"
#include "experiments/data/decode.h"
#include "experiments/data/jpeg.h"
#include "experiments/data/measure.h"
#include "experiments/data/readers.h"
#include "tests/experiments/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

ImageSet read_encoded(const std::filesystem::path& folder) {
  SliceRequest request = request_for("train", 2);
  request.keep_encoded = true;
  return read_image_folder(folder, request);
}

struct Folder : TempFolder {
  Folder() {
    write_file(*this / "in/cat/a.jpg", make_jpeg(20, 30, 1));
    write_file(*this / "in/cat/b.png", make_png(20, 10, 2));
    write_file(*this / "in/dog/c.jpeg", make_jpeg(8, 8, 3));
  }
};

}  // namespace

TEST_CASE("jpeg: what is encoded comes back nearly the same") {
  Image image;
  image.resize(16, 24);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<std::uint8_t>(i % 72 * 3);
  const std::vector<std::uint8_t> high = encode_jpeg(image, 100), low = encode_jpeg(image, 5);
  CHECK(low.size() < high.size());
  CHECK(encode_jpeg(image, 100) == high);
  Image back;
  decode_image(high, "x", back);
  REQUIRE(back.height == 16);
  REQUIRE(back.width == 24);
  for (std::size_t i = 1; i < image.pixels.size(); i += 3) CHECK(std::abs(back.pixels[i] - image.pixels[i]) < 8);
  CHECK_SAYS(input_error([] { encode_jpeg(Image{}, 90); }), "an image of 0x0 pixels cannot be written as a JPEG");
}

TEST_CASE("pack: JPEGs that keep their size are copied, others shrunk or encoded, and the shards read back") {
  const Folder folder;
  const ImageSet images = read_encoded(folder / "in");
  const PackReport report = pack_images(images, "train", folder / "out", {.size = 10, .shard_size = 2, .threads = 2});
  CHECK(report.images == 3);
  CHECK(report.shards == 2);
  CHECK(report.copied == 1);
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
  CHECK_SAYS(input_error([&] { pack_images(images, "train", folder / "out", {}); }), ": exists already");
  ImageSet other = images;
  other.class_names[0] = "cow";
  CHECK_SAYS(input_error([&] { pack_images(other, "val", folder / "out", {}); }), "with other classes");
}

TEST_CASE("archive: a tar that is written holds what was added, with the place of each content") {
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
  CHECK_THROWS_AS(TarWriter(folder / "no" / "a.tar"), EnvironmentError);
}

TEST_CASE("measure: sizes, classes and exact statistics of images of any size, bad ones beside") {
  const TempFolder folder;
  write_file(folder / "a/1.png", make_png(2, 3, 1));  // 37
  write_file(folder / "a/2.png", make_png(4, 3, 2));  // 74
  write_file(folder / "b/3.png", make_png(6, 9, 0));
  write_file(folder / "b/4.png", "no image");
  const ImageSet images = read_encoded(folder.path());
  for (const int threads : {1, 3}) {
    const ImageMeasures measures = measure_images(images, threads);
    CHECK(measures.images == 3);
    CHECK(measures.height == std::array<std::int64_t, 3>{2, 4, 6});
    CHECK(measures.width == std::array<std::int64_t, 3>{3, 3, 9});
    CHECK(measures.class_counts == std::vector<std::int64_t>{2, 1});
    const double mean = (6 * 37 + 12 * 74) / 72.0, square = (6 * 37 * 37 + 12 * 74 * 74) / 72.0;
    CHECK(measures.mean[1] == doctest::Approx(mean / 255));
    CHECK(measures.deviation[2] == doctest::Approx(std::sqrt(square - mean * mean) / 255));
    REQUIRE(measures.bad_images.size() == 1);
    CHECK(measures.bad_images[0].key == "b/4.png");
  }
}
